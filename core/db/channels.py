"""LISTEN / NOTIFY that survives lost connections, and all channels with their payloads.

A signal only says that something changed; its receiver then reads the tables. PostgreSQL does not queue signals for
disconnected listeners, so the first event after every connection or reconnection is `RESYNC`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
import psycopg
from psycopg import sql

from core.db.engine import Connection, connect
from core.errors import DatabaseError, DatabaseRefused
from core.log import get_logger
from core.service.cancelling import cancel_and_wait, raise_if_cancelled

log = get_logger(__name__)

IDLE_SECONDS = 5.0  # after this long without signals, the connection is checked
MAX_PAUSE_SECONDS = 2.0
PAYLOAD_MAX_BYTES = 7999  # PostgreSQL's limit

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class Resync:
    """Signals may have been lost, so the listener must read the current state again."""


RESYNC: Final = Resync()


@dataclass(frozen=True)
class Channel(Generic[P_co]):
    name: str
    read: Callable[[str], P_co | Resync]  # decodes a payload


@dataclass(frozen=True)
class WrittenChannel(Channel[P]):
    """A channel that `notify` can send on. Only database triggers send on the other channels."""

    write: Callable[[P], str]


class IndexStep(msgspec.Struct, frozen=True):
    chain_id: int
    block: int
    everything: bool = False  # rows of earlier blocks changed too


class LaneGroup(NamedTuple):
    chain_id: int
    group: str


def _wallets_text(wallets: Collection[bytes]) -> str:
    text = ",".join(each.hex() for each in wallets)
    return text if len(text) <= PAYLOAD_MAX_BYTES else "*"


def _wallets_of(text: str) -> Collection[bytes] | Resync:
    return RESYNC if text == "*" else [bytes.fromhex(each) for each in text.split(",")]


def _lane_group_of(text: str) -> LaneGroup:
    chain_id, _, group = text.partition(":")
    return LaneGroup(int(chain_id), group)


def _intent_states_of(text: str) -> Mapping[int, str]:
    """Parse `<intent id>:<state>` pairs separated by commas."""
    return {int(intent_id): state for intent_id, state in (each.split(":") for each in text.split(","))}


# Wallets with new events
AGENT_EVENT: Final = WrittenChannel[Collection[bytes]]("agent_event", _wallets_of, _wallets_text)
CHAIN_INDEXED: Final = WrittenChannel[IndexStep](
    "chain_indexed", msgspec.json.Decoder(IndexStep).decode, lambda step: msgspec.json.encode(step).decode()
)
KEEPER_JOB: Final = Channel[int]("keeper_job", int)  # the id of a requested job
OPERATOR_SWITCH: Final = Channel[str]("operator_switch", str)  # the name of a changed switch
OUTBOX_QUEUED: Final = Channel[LaneGroup]("outbox_queued", _lane_group_of)
OUTBOX_STATE: Final = Channel[Mapping[int, str]]("outbox_state", _intent_states_of)  # new states by intent id


async def listen(url: str, channel: Channel[P]) -> AsyncGenerator[P | Resync, None]:
    """Yield a channel's signals forever, reconnecting as needed. Close it with `contextlib.aclosing`."""
    pause = 0.1
    while True:
        raise_if_cancelled()
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
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel.name)))
            pause = 0.1
            raise_if_cancelled()
            yield RESYNC
            while True:
                async for message in connection.notifies(timeout=IDLE_SECONDS):
                    yield _read(channel, message.payload)
                    raise_if_cancelled()
                raise_if_cancelled()
                async with asyncio.timeout(IDLE_SECONDS):
                    await connection.execute("SELECT 1")
        except (psycopg.Error, TimeoutError, OSError) as error:
            log.warning("lost the LISTEN connection", action="notify.lost", why=error)
        finally:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.close()
        await asyncio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE_SECONDS)


def _read(channel: Channel[P], text: str) -> P | Resync:
    """Decode a signal. Any database role may send one, so a malformed signal causes a resync, not a crash."""
    try:
        return channel.read(text)
    except (ValueError, msgspec.MsgspecError) as error:
        log.warning("failed to decode a signal", action="notify.unreadable", channel=channel.name, why=error)
        return RESYNC


class Subscription:
    """A subscription for a loop that reads the tables, then waits for a signal before it reads again."""

    def __init__(self) -> None:
        self._signalled = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    def clear(self) -> None:
        """Clear the flag that a signal sets. Call this before a read, so that a signal that arrives during the read
        causes another read."""
        self._signalled.clear()

    def set(self) -> None:
        self._signalled.set()

    async def wait(self, timeout_seconds: float) -> None:
        """Wait for a signal until the timeout. If the listener has failed, raise its error."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._signalled.wait()
        if self._listening is not None and self._listening.done():
            self._listening.result()

    @contextlib.asynccontextmanager
    async def listening(
        self, url: str, channel: Channel[P], accepts: Callable[[P | Resync], bool] = lambda _signal: True
    ) -> AsyncIterator[None]:
        """Listen to the channel inside the block. `accepts` returns whether a signal should set the flag."""
        self._listening = asyncio.create_task(
            self._listen(url, channel, accepts), name=f"subscription to {channel.name}"
        )
        try:
            yield
        finally:
            await cancel_and_wait(self._listening)

    async def _listen(self, url: str, channel: Channel[P], accepts: Callable[[P | Resync], bool]) -> None:
        async with contextlib.aclosing(listen(url, channel)) as signals:
            async for signal in signals:
                if accepts(signal):
                    self.set()


async def notify(connection: Connection, channel: WrittenChannel[P], payload: P) -> None:
    """Send a signal. In a transaction, PostgreSQL sends it on commit."""
    await connection.execute("SELECT pg_notify(%s, %s)", (channel.name, channel.write(payload)))
