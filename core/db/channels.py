"""LISTEN / NOTIFY that survives a lost connection.

PostgreSQL keeps no signals for a listener who is away. So after every (re)connection the first thing delivered is a
signal with `missed=True`: whoever listens must then read the present state again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import psycopg
from psycopg import sql

from core.db.engine import Connection, connect
from core.errors import DatabaseError, DatabaseRefused
from core.log import get_logger
from core.service.cancelling import end, heed_cancellation

log = get_logger(__name__)

# How long silence may last before the connection is asked whether it still lives.
IDLE_SECONDS = 5.0
MAX_PAUSE_SECONDS = 2.0
PAYLOAD_MAX_BYTES = 7999  # PostgreSQL's limit; a longer payload is an error in the sender


class Channel(StrEnum):
    """The channels of the product. A payload only says where to look: whoever hears it reads the tables again."""

    AGENT_EVENT = "agent_event"
    """Wallets with news in the log, 40 hex digits each, joined by commas; `*`: any."""
    CHAIN_INDEXED = "chain_indexed"
    """What a step of an index changed, as the JSON of `indexer.store.steps.payload`."""
    KEEPER_JOB = "keeper_job"
    """The id of a job that somebody asks for."""
    KEEPER_JOB_DONE = "keeper_job_done"
    """The id of a job whose report is there."""
    OPERATOR_SWITCH = "operator_switch"
    """The name of a switch that was changed."""
    OUTBOX_QUEUED = "outbox_queued"
    """`<chain id>:<lane group>` with something new to send."""
    OUTBOX_STATE = "outbox_state"
    """`<intent id>:<state>` joined by commas."""


@dataclass(frozen=True, slots=True)
class Signal:
    """What one NOTIFY carries, or (`missed`) the news that some may have been lost."""

    channel: str
    payload: str
    missed: bool = False


async def listen(url: str, channels: Sequence[str]) -> AsyncGenerator[Signal, None]:
    """Signals for ever, reconnecting as needed. Close it (`contextlib.aclosing`) to let go of the connection."""
    pause = 0.1
    while True:
        heed_cancellation()
        try:
            connection = await connect(url, application_name="vpm-listen")
        except DatabaseRefused:
            raise
        except DatabaseError as error:
            log.warning(error.message, action="notify.no_database")
            await asyncio.sleep(pause)
            pause = min(pause * 2, MAX_PAUSE_SECONDS)
            continue
        try:
            for channel in channels:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            pause = 0.1
            heed_cancellation()
            yield Signal("", "", missed=True)
            while True:
                async for message in connection.notifies(timeout=IDLE_SECONDS):
                    yield Signal(message.channel, message.payload)
                    heed_cancellation()
                heed_cancellation()
                async with asyncio.timeout(IDLE_SECONDS):
                    await connection.execute("SELECT 1")
        except (psycopg.Error, TimeoutError, OSError) as error:
            log.warning("the LISTEN connection was lost", action="notify.lost", why=error)
        finally:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()
        await asyncio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


class News:
    """Whether something was told since it was last forgotten: for a loop that reads, and waits for a reason to read."""

    def __init__(self) -> None:
        self._announced = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    def forget(self) -> None:
        """To be called before reading: what is told during the reading is a reason for the next."""
        self._announced.clear()

    def announce(self) -> None:
        self._announced.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Until something is told, or time is up. Raises whatever ended the listener."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._announced.wait()
        if self._listening is not None and self._listening.done():
            self._listening.result()

    @contextlib.asynccontextmanager
    async def of(
        self, url: str, channel: str, hear: Callable[[Signal], bool] = lambda _signal: True
    ) -> AsyncIterator[None]:
        """Listens meanwhile; `hear` says of each signal whether it is told, or somebody else's news."""
        self._listening = asyncio.create_task(self._listen(url, channel, hear), name=f"news of {channel}")
        try:
            yield
        finally:
            await end(self._listening)

    async def _listen(self, url: str, channel: str, hear: Callable[[Signal], bool]) -> None:
        async with contextlib.aclosing(listen(url, [channel])) as signals:
            async for signal in signals:
                if hear(signal):
                    self.announce()


async def notify(connection: Connection, channel: str, payload: str = "") -> None:
    """Sends a signal; inside a transaction it goes out with the commit, or not at all."""
    await connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))
