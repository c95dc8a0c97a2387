"""Several API processes count a caller together where a Redis is named, and none is refused when it is away or hangs.

The Redis is a real one (Debian: `apt install redis-server`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from limits import parse

from api.limits import RateLimits
from api.problems import Problem
from scripts._local.ports import free_port
from tests.support.hung_servers import REDIS, Redis, redis_server
from tests.waiting import until

TWICE = parse("2/minute")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    if REDIS is None:
        pytest.skip("there is no redis-server on this machine: apt install redis-server")
    with redis_server(tmp_path) as server:
        yield server


async def test_two_processes_count_a_caller_together(redis: Redis) -> None:
    one, other = RateLimits(redis.url), RateLimits(redis.url)
    await one.take(TWICE, "a rule", "a caller", "Too often.")
    await other.take(TWICE, "a rule", "a caller", "Too often.")
    with pytest.raises(Problem) as refused:
        await one.take(TWICE, "a rule", "a caller", "Too often.")
    assert refused.value.status == 429
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    with pytest.raises(Problem):
        await other.check(TWICE, "a rule", "a caller", "Too often.")
    await other.take(TWICE, "a rule", "another caller", "Too often.")
    await one.aclose()
    await other.aclose()


async def test_a_redis_that_is_away_refuses_no_caller() -> None:
    limits = RateLimits(f"redis://127.0.0.1:{free_port()}")
    for _ in range(4):
        await limits.take(TWICE, "a rule", "a caller", "Too often.")
    await limits.aclose()


async def test_a_redis_that_hangs_holds_up_no_request_and_counts_again_afterwards(redis: Redis) -> None:
    limits = RateLimits(redis.url)
    await limits.take(TWICE, "a rule", "a caller", "Too often.")
    with redis.hung():
        began = time.monotonic()
        async with asyncio.timeout(20):
            await asyncio.gather(*(limits.take(TWICE, "a rule", "a caller", "Too often.") for _ in range(50)))
            for _ in range(1_000):  # a thousand deadlines would be five minutes
                await limits.take(TWICE, "a rule", "a caller", "Too often.")
                await limits.check(TWICE, "a rule", "a caller", "Too often.")
        print(f"1,050 requests went through in {time.monotonic() - began:.2f} s")

    async def counts_again() -> bool:
        try:
            await limits.take(TWICE, "another rule", "a caller", "Too often.")
        except Problem as problem:
            return problem.status == 429
        return False

    await until(counts_again, "a limit that counts again")
    await limits.aclose()
