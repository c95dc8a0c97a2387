"""Two PostgreSQL servers for one test: a primary and a hot standby that follows it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from core.db.engine import conninfo
from scripts._local.ports import free_port
from scripts._local.postgres import PostgresServer, prepare_postgres, start_postgres
from scripts._local.process import RunningProcess
from tests.support.postgres_cleanup import forget_postgres
from tests.waiting import PATIENCE, wait


@dataclass(frozen=True)
class Pair:
    primary: PostgresServer
    standby: PostgresServer
    running: RunningProcess
    """The primary's process."""

    def primary_url(self, database: str) -> str:
        return self.primary.url(database)

    def standby_url(self, database: str) -> str:
        """Return the standby's URL; roles and passwords are the primary's."""
        return self.primary.url(database).replace(f":{self.primary.port}/", f":{self.standby.port}/")

    def either_url(self, database: str) -> str:
        """Return a URL with both hosts; connections go to the writable one."""
        own = f":{self.primary.port}/"
        return self.primary.url(database).replace(own, f"{own[:-1]},127.0.0.1:{self.standby.port}/")

    def wait_until_synchronous(self, seconds: float = PATIENCE) -> None:
        """Wait until a commit is acknowledged only after the standby has it."""
        query = "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum') AND state = 'streaming'"
        with psycopg.connect(conninfo(self.primary_url("postgres")), autocommit=True) as connection:
            wait(lambda: connection.execute(query.encode()).fetchall(), "the standby to follow", seconds)

    def fail_over(self) -> None:
        self.running.kill()
        self._standby("SELECT pg_promote()")

    def hold_back(self) -> None:
        self._standby("SELECT pg_wal_replay_pause()")

    def let_go(self) -> None:
        self._standby("SELECT pg_wal_replay_resume()")

    def _standby(self, query: str) -> None:
        with psycopg.connect(conninfo(self.standby_url("postgres")), autocommit=True) as connection:
            connection.execute(query.encode())


@contextmanager
def replicated(folder: Path, *, synchronous: bool = False) -> Iterator[Pair]:
    keeping = {"wal_keep_size": "64MB"}
    if synchronous:
        # Only the primary waits for a standby; once it is promoted, the standby has none.
        keeping |= {"synchronous_commit": "on", "fsync": "off", "max_connections": "150"}
    waiting = {"synchronous_standby_names": "*"} if synchronous else {}
    primary = prepare_postgres(folder / "primary", free_port(), settings={**keeping, **waiting})
    source = f"host=127.0.0.1 port={primary.port} user=vpm password={primary.password}"
    following = {**keeping, "primary_conninfo": source}
    standby = prepare_postgres(folder / "standby", free_port(), settings=following)
    # The primary never ran yet, so its files are those of a clean shutdown: a copy is a backup.
    owner = standby.data_dir.stat()
    shutil.rmtree(standby.data_dir)
    subprocess.run(["cp", "-a", str(primary.data_dir), str(standby.data_dir)], check=True)
    signal = standby.data_dir / "standby.signal"
    signal.touch()
    os.chown(signal, owner.st_uid, owner.st_gid)
    with ExitStack() as stack:
        for each in (folder / "primary", folder / "standby"):
            stack.callback(forget_postgres, each)
        running = start_postgres(primary, folder / "primary.log")
        stack.callback(running.stop)
        # The standby has the roles of the primary, and so its password.
        followed = PostgresServer(standby.plan, standby.data_dir, standby.port, primary.password)
        stack.callback(start_postgres(followed, folder / "standby.log").stop)
        pair = Pair(primary, followed, running)
        if synchronous:
            pair.wait_until_synchronous()
        yield pair
