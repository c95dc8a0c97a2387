"""Real PostgreSQL in virtual time.

A statement is sent and completed while the loop stands still, so only one runs at a time and its result races nothing.
The delay before it is random; after a statement that ends a transaction there is another delay until its sender knows.
(Within a transaction nothing has happened yet, so dying then is the same as dying before.) A statement that waits for
another's lock is parked. When a transaction has ended, the statements that it released complete before anything else
continues.

Signals are collected from all listeners at one point, between two moments, after a last signal of ours. PostgreSQL's
own timeouts would follow the machine's clock, so statement and lock timeouts are counted here.
"""

from __future__ import annotations

import asyncio
import random
import select
from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import errors, waiting
from psycopg._pipeline_base import BasePipeline
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from core.agent.notices import submitted
from core.db.engine import STATEMENT_TIMEOUT_MS
from relayer import leases
from tests.simulator.clock import REAL_SLEEP, VirtualClock
from tests.simulator.loop import PROCESS, Process, VirtualLoop

WAIT_R, WAIT_W = 1, 2
LOCK_LOOK_SECONDS = 0.005
NOTICE_GRID_SECONDS = 0.004
_BARRIER = b"simulated_barrier"
_NOTHING = ("", ";")  # what a pool asks to see whether a connection is alive
_OF_TRANSACTIONS = frozenset({"_enter_gen", "_exit_gen", "_commit_gen", "_rollback_gen"})
_ENDS = _OF_TRANSACTIONS | {"_fetch_gen"}  # of what was said before
_LOCK_TIMEOUT = "SET LOCAL lock_timeout = "


class _Link:
    def __init__(self, connection: Any, process: Process) -> None:
        self.connection = connection
        self.process = process
        self.inbox: list[Any] = []
        self.news: asyncio.Event | None = None
        self.lock_seconds: float | None = None  # how long this transaction waits for a lock
        self.may_notify = False  # this transaction may have notified a listener
        self.is_cancelled = False  # PostgreSQL was asked to cancel its statement
        self.waited_too_long = False  # for a lock
        process.on_kill.append(self.cut)

    def cut(self) -> None:
        """Close a dead process's socket. Its server process notices and rolls back."""
        DATABASE[0].forget(self)
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
        self._links: dict[int, _Link] = {}  # in order of creation, which is the order of notification
        self._parked: dict[_Link, asyncio.Event] = {}  # in the order in which they began to wait
        self._monitor = psycopg.connect(url, autocommit=True)
        self._dirty = False  # something may have been committed since we looked
        self._looked_at = b""  # which transactions were over then
        self._barriers = 0
        self._collected_at = 0.0
        self._lock_seconds = submitted._LOCK_TIMEOUT_MS / 1000
        submitted._LOCK_TIMEOUT_MS = leases.PATIENCE_MS = 0  # PostgreSQL's word for never
        DATABASE[:] = [self]
        waiting.wait_async = self._wait  # type: ignore[assignment]
        waiting.wait_conn_async = self._wait_connection
        loop.on_jump(self.collect)

    def _delay(self) -> float:
        return self.dice.uniform(0.0002, 0.003) if self.dice.random() < 0.98 else self.dice.uniform(0.003, 0.12)

    async def _wait_connection(self, gen: Any, interval: float = 0.0, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        await asyncio.sleep(self._delay())
        self.clock.write()
        if getattr(gen, "__name__", "") == "_cancel_gen":
            self._links[gen.gi_frame.f_locals["self"].fileno()].is_cancelled = True
        try:
            file, state = next(gen)
            while True:
                file, state = gen.send(_poll(file, state, 10.0))
        except StopIteration as end:
            connection = end.value
        if connection is not None:  # None: a statement's cancellation was sent
            connection.pgconn.exec_(b"SET statement_timeout = 0")
            self._links.pop(connection.fileno(), None)
            self._links[connection.fileno()] = _Link(connection, PROCESS.get())
        return connection

    async def _wait(self, gen: Any, file: int, interval: float = 0.0, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        if getattr(gen, "__name__", "") == "notifies":
            return await self._listen(gen, file, timeout)
        link = self._links.get(file)
        if link is not None and _says_nothing(gen, link.connection):
            return _run_dry(gen)
        query = _query(gen)
        given_up: asyncio.CancelledError | None = None
        if query not in _NOTHING:
            try:
                await asyncio.sleep(self._delay())
            except asyncio.CancelledError as error:
                if not _counts(gen):
                    raise  # nothing was sent yet
                given_up = error
        if link is not None and link.news is not None and self._dirty:
            self._collect()
        self.clock.write()
        self.statements += 1
        said = query or str(getattr(gen, "__name__", ""))
        self.loop.note(PROCESS.get().name, f"sql {said[:60]!r}")
        if link is not None:
            link.may_notify |= _may_notify(gen, query)
        try:
            result = await self._asked(gen, file, link)
            if given_up is not None:
                raise given_up
            if link is not None and link.connection.pgconn.pipeline_status and query is not None:
                # PostgreSQL is at it as soon as it is sent: what comes of it is not left to be seen later.
                await self._asked(link.connection._pipeline._fetch_gen(flush=True), file, link)
        except errors.QueryCanceled as error:
            if link is not None and link.waited_too_long:
                raise errors.LockNotAvailable("canceling statement due to lock timeout") from error
            raise
        except OSError as error:
            raise given_up or errors.OperationalError("connection socket closed") from error
        except errors.Error as error:
            if given_up is not None:
                raise given_up from error
            raise
        finally:
            status = TransactionStatus.IDLE if link is None else link.connection.pgconn.transaction_status
            if link is not None:
                link.is_cancelled = link.waited_too_long = False
            if status in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                self._ended(link)
        if link is not None and query is not None and query.startswith(_LOCK_TIMEOUT):
            link.lock_seconds = None if query.endswith("DEFAULT") else self._lock_seconds
        if status != TransactionStatus.INTRANS and query not in _NOTHING:
            await asyncio.sleep(self._delay())
        return result

    async def _asked(self, gen: Any, file: int, link: _Link | None) -> Any:
        """Send a statement and wait for its result while everything else stands still, unless it waits for a lock."""
        try:
            state = next(gen)
            while True:
                ready = _poll(file, state, LOCK_LOOK_SECONDS)
                while not ready:
                    if link is not None and not link.is_cancelled and self._waits_for_lock(link):
                        await self._park(link)
                    ready = _poll(file, state, LOCK_LOOK_SECONDS)
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _ended(self, link: _Link | None) -> None:
        if link is None or link.may_notify:
            self._dirty = True
        if link is not None:
            link.may_notify, link.lock_seconds = False, None
        self._settle()

    def _settle(self) -> None:
        """Wait until each parked statement is done or waits again, so that none runs next to the loop. A statement that
        is done may have released others. All are reported in the order in which they came."""
        waiting, free = list(self._parked), []
        while found := [link for link in waiting if not self._still_waits(link)]:
            free += found
            waiting = [link for link in waiting if link not in found]
        for link, granted in self._parked.items():
            if link in free:
                self._dirty |= link.may_notify
                granted.set()
        self._parked = {link: granted for link, granted in self._parked.items() if link not in free}

    def _still_waits(self, link: _Link) -> bool:
        while not _poll(link.connection.fileno(), WAIT_R, 0):
            if self._waits_for_lock(link):
                return True
            _poll(link.connection.fileno(), WAIT_R, LOCK_LOOK_SECONDS)
        return False

    async def _park(self, link: _Link) -> None:
        """Wait until the lock is granted or the statement's timeout is over."""
        self.parked += 1
        self.loop.note(link.process.name, "parked")
        self._parked[link] = granted = asyncio.Event()
        try:
            await asyncio.wait_for(granted.wait(), link.lock_seconds or STATEMENT_TIMEOUT_MS / 1000)
        except TimeoutError:
            link.is_cancelled, link.waited_too_long = True, link.lock_seconds is not None
            self._monitor.execute("SELECT pg_cancel_backend(%s)", (link.connection.pgconn.backend_pid,))
        finally:
            self._parked.pop(link, None)

    def _waits_for_lock(self, link: _Link) -> bool:
        """Return whether the statement waits for another to end. Of two that wait for each other, PostgreSQL fails the
        later one after a moment."""
        pid = link.connection.pgconn.backend_pid
        blocking = self._blocking(pid)
        seen, ahead = set[int](), list(blocking)
        while ahead:
            each = ahead.pop()
            if each == pid:
                return False
            if each not in seen:
                seen.add(each)
                ahead += self._blocking(each)
        return bool(blocking)

    def _blocking(self, pid: int) -> Iterable[int]:
        found = self._monitor.execute("SELECT pg_blocking_pids(%s)", (pid,)).fetchone()
        return found[0] if found else ()

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
        """Deliver notifications to their listeners before time moves by so many seconds. Return whether there were
        any."""
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
        delivered = False
        for link in listening:
            pgconn = link.connection.pgconn
            while True:
                signal = pgconn.notifies()
                if signal is None:
                    if not _poll(pgconn.socket, WAIT_R, 5.0):
                        raise RuntimeError("a listener got no notification")
                    try:
                        pgconn.consume_input()
                    except psycopg.Error:
                        break
                elif signal.relname != _BARRIER:
                    link.inbox.append(signal)
                elif signal.extra == mark:
                    break
            if link.inbox:
                link.news.set()  # type: ignore[union-attr]
                delivered = True
        return delivered

    def _committed(self) -> bytes:
        """Return the current snapshot. It changes when a transaction that writes or notifies gets its id, and when that
        transaction ends."""
        return self._quick(b"SELECT pg_current_snapshot()").get_value(0, 0) or b""

    def _quick(self, query: bytes) -> PGresult:
        return self._monitor.pgconn.exec_(query)

    def ask(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Query as the world itself, outside virtual time and without a delay."""
        self.clock.write()
        return self._monitor.execute(query.encode(), values).fetchall()

    def forget(self, link: _Link) -> None:
        self._parked.pop(link, None)

    def gone(self, pid: int) -> None:
        """Wait until the backend has ended, so that its locks are always freed at the same moment."""
        self._monitor.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        while self._monitor.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone():
            REAL_SLEEP(0.001)
        self._settle()


def _query(gen: Any) -> str | None:
    frame = getattr(gen, "gi_frame", None)
    query = frame.f_locals.get("query") if frame is not None else None
    if isinstance(query, bytes):
        return query.decode()
    return query if isinstance(query, str) else None


def _may_notify(gen: Any, query: str | None) -> bool:
    if query is None:
        return getattr(gen, "__name__", "") not in _ENDS
    return query not in _NOTHING and (not query.startswith(("SELECT ", "SET ")) or "pg_notify(" in query)


def _counts(gen: Any) -> bool:
    """Return whether the driver counts what this begins or ends before its first wait. Then it is sent even if the
    caller is cancelled. A pipeline's steps that begin and end have the same names."""
    if getattr(gen, "__name__", "") not in _OF_TRANSACTIONS:
        return False
    frame = gen.gi_frame
    return frame is not None and not isinstance(frame.f_locals.get("self"), BasePipeline)


def _says_nothing(gen: Any, connection: Any) -> bool:
    """Return whether this asks PostgreSQL nothing, because the driver only notes how the next transaction begins, or
    ends none."""
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
