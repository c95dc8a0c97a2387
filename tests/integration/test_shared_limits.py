"""Several API processes count a caller together where a Redis is named, and none is refused when it is away.

The Redis is a real one (Debian: `apt install redis-server`).
"""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from limits import parse

from api.http.limits import RateLimits
from api.http.problem import Problem
from core.local.ports import free_port
from core.local.process import SpawnPlan, start_process
from tests.waiting import PATIENCE

REDIS = shutil.which("redis-server")
TWICE = parse("2/minute")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    if REDIS is None:
        pytest.skip("there is no redis-server on this machine: apt install redis-server")
    port = free_port()
    argv = (REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path))
    running = start_process(SpawnPlan("redis", argv, env={}, cwd=str(tmp_path)), tmp_path / "redis.log")
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            assert time.monotonic() < deadline, running.tail(20)
            time.sleep(0.05)
    yield f"redis://127.0.0.1:{port}"
    running.stop()


async def test_two_processes_count_a_caller_together(redis: str) -> None:
    one, other = RateLimits(redis), RateLimits(redis)
    await one.take(TWICE, "a rule", "somebody", "Too often.")
    await other.take(TWICE, "a rule", "somebody", "Too often.")
    with pytest.raises(Problem) as refused:
        await one.take(TWICE, "a rule", "somebody", "Too often.")
    assert refused.value.status == 429
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    with pytest.raises(Problem):
        await other.check(TWICE, "a rule", "somebody", "Too often.")
    await other.take(TWICE, "a rule", "somebody else", "Too often.")
    await one.aclose()
    await other.aclose()


async def test_a_redis_that_is_away_refuses_nobody() -> None:
    limits = RateLimits(f"redis://127.0.0.1:{free_port()}")
    for _ in range(4):
        await limits.take(TWICE, "a rule", "somebody", "Too often.")
    await limits.aclose()
