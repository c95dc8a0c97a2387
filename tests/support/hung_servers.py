"""Servers that hang: SIGSTOP stops them as a whole, so that the kernel still accepts connections but nothing
responds."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scripts._local.ports import free_port
from scripts._local.postgres import PostgresServer
from scripts._local.process import RunningProcess, SpawnPlan, start_process
from tests.support.programs import family
from tests.waiting import wait

REDIS = shutil.which("redis-server")


@contextlib.contextmanager
def hung(pid: int) -> Iterator[None]:
    """Stop a process and all its descendants; let them continue when the context ends."""
    stopped: list[int] = []
    try:
        while more := [each for each in family(pid) if each not in stopped]:  # a parent first: it starts no more
            for each in more:
                stopped.append(each)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGSTOP)
        yield
    finally:
        for each in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def pid_of_postgres(server: PostgresServer) -> int:
    return int((server.data_dir / "postmaster.pid").read_text().splitlines()[0])


@dataclass(frozen=True, slots=True)
class Redis:
    url: str
    running: RunningProcess

    def hung(self) -> contextlib.AbstractContextManager[None]:
        return hung(self.running.pid)


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[Redis]:
    assert REDIS is not None
    port = free_port()
    argv = (REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder))
    running = start_process(SpawnPlan("redis", argv, env={}, cwd=str(folder)), folder / "redis.log")

    def answers() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        assert running.alive(), running.tail(20)
        return False

    try:
        wait(answers, "a Redis that takes connections")
        yield Redis(f"redis://127.0.0.1:{port}", running)
    finally:
        running.stop()
