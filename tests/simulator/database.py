"""PostgreSQL, real, and yet in virtual time.

A statement is sent and answered while the loop stands still, so that only one runs at a time and its answer never
races anything; the time it takes, before and after, is drawn. One that waits for another's lock is parked until it is
granted. Notifications are collected from every listener at one point, between two moments, behind a last one of ours.
"""

from __future__ import annotations

import asyncio
import random
import select
from typing import Any

import psycopg
from psycopg import errors, waiting
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from tests.simulator.clock import REAL_SLEEP, VirtualClock
from tests.simulator.loop import PROCESS, Process, VirtualLoop

WAIT_R, WAIT_W = 1, 2
LOCK_LOOK_SECONDS = 0.02
NOTICE_GRID_SECONDS = 0.004
_BARRIER = b"simulated_barrier"


class _Link:
    """One connection of a simulated process."""

    def __init__(self, connection: Any, process: Process) -> None:
        self.connection = connection
        self.process = process
        self.inbox: list[Any] = []
        self.news: asyncio.Event | None = None
        process.on_kill.append(self.cut)

    def cut(self) -> None:
        """The process is gone: so is its socket. A server that works for it notices, and rolls back."""
        if not self.connection.closed:
            pid = self.connection.pgconn.backend_pid
            self.connection.pgconn.finish()
            DATABASE[0].gone(pid)


DATABASE: list[SimulatedDatabase] = []


class SimulatedDatabase:
    """How this process's asynchronous connections reach PostgreSQL."""

    def __init__(self, url: str, loop: VirtualLoop, clock: VirtualClock, dice: random.Random) -> None:
        self.loop = loop
        self.clock = clock
        self.dice = dice
        self.statements = 0
        self.parked = 0
        self._links: dict[int, _Link] = {}
        self._monitor = psycopg.connect(url, autocommit=True)
        self._dirty = False  # something may have been committed since we looked
        self._looked_at = b""  # which transactions were over then
        self._barriers = 0
        self._collected_at = 0.0
        DATABASE[:] = [self]
        waiting.wait_async = self._wait  # type: ignore[assignment]
        waiting.wait_conn_async = self._wait_connection
        loop.on_jump(self.collect)

    def _delay(self) -> float:
        return self.dice.uniform(0.0002, 0.003) if self.dice.random() < 0.98 else self.dice.uniform(0.003, 0.12)

    async def _wait_connection(self, gen: Any, interval: float = 0.0, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        await asyncio.sleep(self._delay())
        self.clock.write()
        try:
            file, state = next(gen)
            while True:
                file, state = gen.send(_poll(file, state, 10.0))
        except StopIteration as end:
            connection = end.value
        if connection is not None:  # None: a statement's cancellation was sent
            self._links[connection.fileno()] = _Link(connection, PROCESS.get())
        return connection

    async def _wait(self, gen: Any, file: int, interval: float = 0.0, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        if getattr(gen, "__name__", "") == "notifies":
            return await self._listen(gen, file, timeout)
        link = self._links.get(file)
        if link is not None and _says_nothing(gen, link.connection):
            return _run_dry(gen)
        await asyncio.sleep(self._delay())
        if link is not None and link.news is not None and self._dirty:
            self._collect()
        self.clock.write()
        self.statements += 1
        self.loop.note(PROCESS.get().name, "sql")
        try:
            state = next(gen)
            while True:
                ready = _poll(file, state, LOCK_LOOK_SECONDS)
                while not ready:
                    if link is not None and self._waits_for_lock(link):
                        self.parked += 1
                        await asyncio.sleep(0.01)
                        ready = _poll(file, state, 0)
                    else:
                        ready = _poll(file, state, LOCK_LOOK_SECONDS)
                state = gen.send(ready)
        except StopIteration as end:
            result: Any = end.value
        except OSError as error:
            raise errors.OperationalError("connection socket closed") from error
        finally:
            if link is None or link.connection.pgconn.transaction_status == TransactionStatus.IDLE:
                self._dirty = True
        await asyncio.sleep(self._delay())
        return result

    def _waits_for_lock(self, link: _Link) -> bool:
        found = self._monitor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = %s AND NOT granted)", (link.connection.pgconn.backend_pid,)
        ).fetchone()
        if not found or not found[0]:
            return False
        REAL_SLEEP(0.03)  # longer than deadlock_timeout: two that wait for each other are told so
        return not _poll(link.connection.fileno(), WAIT_R, 0)

    async def _listen(self, gen: Any, file: int, seconds: float | None) -> Any:
        link = self._links[file]
        if link.news is None:
            link.news = asyncio.Event()
            link.connection.pgconn.exec_(b"LISTEN " + _BARRIER)
        gen.close()
        if not link.inbox:
            link.news.clear()
            try:
                await asyncio.wait_for(link.news.wait(), seconds)
            except TimeoutError:
                raise errors._WaitTimeout("wait timeout expired") from None
        taken, link.inbox = link.inbox, []
        return taken

    def collect(self, seconds: float | None) -> bool:
        """Before time moves on by so much: brings what was notified to who listens. True when somebody has news."""
        if not self._dirty:
            return False
        if seconds is not None and self.clock.monotonic + seconds < self._collected_at + NOTICE_GRID_SECONDS:
            return False  # it is soon asked again
        return self._collect()

    def _collect(self) -> bool:
        self._dirty, self._collected_at = False, self.clock.monotonic
        listening = [each for each in self._links.values() if each.news is not None and not each.connection.closed]
        listening = [each for each in listening if not each.process.dead]
        if not listening or self._committed() == self._looked_at:
            return False
        self._barriers += 1
        mark = str(self._barriers).encode()
        self._quick(b"NOTIFY " + _BARRIER + b", '" + mark + b"'")
        self._looked_at = self._committed()
        told = False
        for link in listening:
            pgconn = link.connection.pgconn
            while True:
                note = pgconn.notifies()
                if note is None:
                    if not _poll(pgconn.socket, WAIT_R, 5.0):
                        raise RuntimeError("a listener was told nothing")
                    try:
                        pgconn.consume_input()
                    except psycopg.Error:
                        break
                elif note.relname != _BARRIER:
                    link.inbox.append(note)
                elif note.extra == mark:
                    break
            if link.inbox:
                link.news.set()  # type: ignore[union-attr]
                told = True
        return told

    def _committed(self) -> bytes:
        """Changes with every transaction that wrote or notified, when it begins to and when it ends."""
        return self._quick(b"SELECT pg_current_snapshot()").get_value(0, 0) or b""

    def _quick(self, query: bytes) -> PGresult:
        return self._monitor.pgconn.exec_(query)

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """By the world itself, past the clock and the dice."""
        self.clock.write()
        return self._monitor.execute(query.encode(), values).fetchall()

    def gone(self, pid: int) -> None:
        """Returns when the backend has ended, so that its locks are free at a moment that is always the same."""
        self._monitor.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        while self._monitor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone():
            REAL_SLEEP(0.001)
        self._dirty = True


def _says_nothing(gen: Any, connection: Any) -> bool:
    """Whether PostgreSQL is not asked at all: the driver notes how the next transaction is to begin, or ends none."""
    name: str = getattr(gen, "__name__", "")
    ends = name in ("_commit_gen", "_rollback_gen")
    idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
    return (ends and idle) or (name.startswith("_set_") and name.endswith("_gen"))


def _run_dry(gen: Any) -> Any:
    try:
        next(gen)
    except StopIteration as end:
        return end.value
    raise RuntimeError(f"{gen} was to ask nothing of the server")


def _poll(file: int, state: int, seconds: float) -> int:
    read, write, _ = select.select([file] if state & WAIT_R else [], [file] if state & WAIT_W else [], [], seconds)
    return (WAIT_R if read else 0) | (WAIT_W if write else 0)
