"""The PostgreSQL of a test run: `python -m tests.support.shared_postgres FOLDER OWNER`. It prints the server's URL, and
stops the server on SIGTERM or when the process OWNER has ended."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from core.errors import ProcessError
from scripts._local.ports import free_port
from scripts._local.postgres import UNSAFE_BUT_FAST, PostgresServer, prepare_postgres, start_postgres
from scripts._local.process import RunningProcess

MEMORY_BYTES = 4 << 30
"""So much must be free to keep the databases in memory. A run has a few dozen at a time, of ten megabytes each."""


def main(folder: Path, owner_pid: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    server, running = _start(folder)
    try:
        print(server.url(), flush=True)
        with contextlib.suppress(ProcessLookupError):
            while running.alive():
                os.kill(owner_pid, 0)
                time.sleep(0.5)
    finally:
        running.stop()
        shutil.rmtree(_data_dir(folder), ignore_errors=True)


def _start(folder: Path) -> tuple[PostgresServer, RunningProcess]:
    settings = {**UNSAFE_BUT_FAST, "max_wal_size": "128MB"}
    for attempt in range(3):  # the free port may be taken between finding and using it
        server = prepare_postgres(_data_dir(folder), free_port(), settings=settings, max_connections=200)
        try:
            return server, start_postgres(server, folder / "postgres.log")
        except ProcessError:
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


def _data_dir(folder: Path) -> Path:
    """Return a data folder in memory if there is room. Each database has four hundred files, and a file system on a
    disk is slow to allocate them while as many are being removed."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > MEMORY_BYTES:
        return memory / folder.name
    return folder / "postgres"


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
