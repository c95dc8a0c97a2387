"""The event log of the agent API: what happened to a wallet's bets, in one numbered sequence per wallet.

An event is added in the same transaction as the change that it reports. The transaction locks the wallet's row until it
ends. So only one transaction at a time adds to a wallet's events, and the sequence numbers have no gaps and follow the
commit order. Each transaction locks all its wallets at once, in ascending order, so writers cannot deadlock.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, LiteralString

from prometheus_client import Counter

from core.db.channels import AGENT_EVENT
from core.db.engine import Connection

SOURCE_BYTES = 16


class EventType(StrEnum):
    BET_SUBMITTED = "bet.settlement_submitted"
    BET_PLACED = "bet.placed"
    MARKET_RESOLVED = "market.resolved"
    POSITION_WON = "position.won"
    POSITION_LOST = "position.lost"
    PAYOUT_SUBMITTED = "payout.submitted"
    PAYOUT_PAID = "payout.paid"
    PAYOUT_FAILED = "payout.failed"
    WEBHOOK_VERIFY = "webhook.verify"
    DELIVERY_FAILED = "webhook.delivery_failed"
    TEST = "test"


# The types that `/resolved` lists.
RESOLUTIONS = (EventType.MARKET_RESOLVED, EventType.POSITION_WON, EventType.POSITION_LOST)


def source_of(event_type: EventType, *parts: bytes | int | str) -> bytes:
    """Return 16 bytes that identify the fact that an event reports. The bytes are the same in every database."""
    digest = hashlib.sha256(event_type.value.encode())
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(2) + raw)
    return digest.digest()[:SOURCE_BYTES]


def event_id(source: bytes, occurrence: int) -> str:
    """Return the public id of an event. An event that occurs again after a reorganization gets a different id."""
    return f"evt_{source.hex()}" + (f"_{occurrence}" if occurrence else "")


# ---------------------------------------------------------------- appending

WRITTEN = Counter("vpm_agent_events_written", "Events added to the agent event log", ("type",))

ROWS_AT_ONCE = 5_000
MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to add.

    chain_at: the time of the event's block, or the chain's time when the transaction was sent; None for an event
    unrelated to a chain.
    block: the event's block; None if the event does not come from a block.
    """

    wallet: bytes
    type: EventType
    source: bytes
    payload: str
    market_id: str | None = None
    trade_id: bytes | None = None
    chain_at: int | None = None
    block: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    draft: Draft
    seq: int
    occurrence: int
    at_micros: int
    corrects: bytes | None = None


@dataclass(slots=True)
class _Wallet:
    """A locked wallet: its next sequence number, and the time of its newest chain event."""

    next_seq: int
    chain_micros: int

    def tick(self, chain_at: int) -> int:
        """Return the time of the next chain event: the time of its block, or one microsecond after the previous event,
        whichever is later. So times ascend with sequence numbers. A reader who asks for all events after a given event
        misses none, even if blocks are recorded late or more than once."""
        self.chain_micros = max(chain_at * MICROS, self.chain_micros + 1)
        return self.chain_micros


async def append(connection: Connection, drafts: Sequence[Draft]) -> None:
    """Append the drafts that are not in the log yet, in the order given. Call this within a transaction.

    Only wallets that get a new event are locked. Reindexing a chain may lock no wallet at all.
    """
    if not drafts:
        return
    keys = [each.wallet for each in drafts], [each.source for each in drafts]
    wallets = await _lock(connection, _WALLETS_OF_NEW_EVENTS, *keys)
    drafts = [each for each in drafts if each.wallet in wallets]
    for start in range(0, len(drafts), ROWS_AT_ONCE):
        await _append(connection, wallets, drafts[start : start + ROWS_AT_ONCE])


async def lock_wallet(connection: Connection, wallet: bytes) -> int:
    """Lock the wallet's events until the transaction ends, and return the sequence number of the next event."""
    return (await _lock(connection, _WALLETS, [wallet]))[wallet].next_seq


async def undo_above(connection: Connection, block: int) -> None:
    """Add a correction for every valid event of the blocks above `block`, newest first."""
    query = (
        "SELECT DISTINCT wallet FROM agent_event e WHERE block_number > %s AND NOT EXISTS"
        " (SELECT FROM agent_event u WHERE u.corrects = e.source AND u.occurrence = e.occurrence)"
    )
    affected = await (await connection.execute(query, (block,))).fetchall()
    if not affected:
        return
    wallets = await _lock(connection, _WALLETS, [bytes(wallet) for (wallet,) in affected])
    query = (
        "SELECT wallet, source, occurrence, type, market_id, trade_id, payload FROM agent_event e"
        " WHERE block_number > %s AND NOT EXISTS"
        " (SELECT FROM agent_event u WHERE u.corrects = e.source AND u.occurrence = e.occurrence)"
        " ORDER BY wallet, seq DESC"
    )
    rows = []
    for wallet, source, occurrence, kind, market_id, trade_id, payload in await (
        await connection.execute(query, (block,))
    ).fetchall():
        # Joined without parsing, so that numbers stay unchanged.
        mark = f'{{"undone":true,"corrects":"{event_id(source, occurrence)}","reason":"reorg"'
        correction = mark + ("}" if payload == "{}" else "," + payload[1:])
        new_source = hashlib.sha256(b"undone" + source).digest()[:SOURCE_BYTES]
        draft = Draft(wallet, EventType(kind), new_source, correction, market_id, trade_id)
        at = wallets[wallet]
        rows.append(_Row(draft, at.next_seq, occurrence, at.tick(0), source))
        at.next_seq += 1
    await _insert(connection, rows, wallets)


async def _append(connection: Connection, wallets: dict[bytes, _Wallet], drafts: Sequence[Draft]) -> None:
    occurrences = await _next_occurrences(connection, [each.source for each in drafts])
    rows = []
    now = time.time_ns() // MICROS * 1000  # this machine's clock, to the millisecond
    for draft in drafts:
        occurrence = occurrences.get(draft.source, 0)
        if occurrence is None:
            continue
        occurrences[draft.source] = None
        wallet = wallets[draft.wallet]
        at = now if draft.chain_at is None else wallet.tick(draft.chain_at)
        rows.append(_Row(draft, wallet.next_seq, occurrence, at))
        wallet.next_seq += 1
    await _insert(connection, rows, wallets)


async def _next_occurrences(connection: Connection, sources: list[bytes]) -> dict[bytes, int | None]:
    """Map each source that is in the log to None if its event is valid, or to the number of its next occurrence if the
    event was corrected."""
    query = (
        "SELECT e.source, max(e.occurrence), (SELECT max(u.occurrence) FROM agent_event u WHERE u.corrects = e.source)"
        " FROM agent_event e WHERE e.source = ANY(%b) GROUP BY e.source"
    )
    rows = await (await connection.execute(query, (sources,))).fetchall()
    return {bytes(source): newest + 1 if corrected == newest else None for source, newest, corrected in rows}


_WALLETS = "SELECT unnest(%b::bytea[])"
_WALLETS_OF_NEW_EVENTS = (
    "SELECT DISTINCT k.wallet FROM unnest(%b::bytea[], %b::bytea[]) AS k (wallet, source) WHERE NOT EXISTS"
    " (SELECT FROM agent_event e WHERE e.source = k.source AND NOT EXISTS"
    " (SELECT FROM agent_event u WHERE u.corrects = e.source AND u.occurrence = e.occurrence))"
)


async def _lock(connection: Connection, chosen: LiteralString, *values: list[bytes]) -> dict[bytes, _Wallet]:
    """Lock the chosen wallets' rows in ascending order, and create missing rows. The query's update changes no value;
    it makes one statement both lock and return the existing rows."""
    rows = await connection.fetch_all(
        f"INSERT INTO agent_event_wallet AS w (wallet) {chosen} ORDER BY 1"
        " ON CONFLICT (wallet) DO UPDATE SET next_seq = w.next_seq RETURNING wallet, next_seq, chain_micros",
        values,
    )
    return {bytes(wallet): _Wallet(seq, micros) for wallet, seq, micros in rows}


async def _insert(connection: Connection, rows: Sequence[_Row], wallets: Mapping[bytes, _Wallet]) -> None:
    """Insert events, store their wallets' next sequence numbers, wake webhooks that had caught up, and signal the
    events.

    This makes the commit durable even during a backfill, when a database crash may lose other commits. A reader
    continues after the last sequence number it has seen. If a crash lost this commit, a later event would get the same
    number, and the reader would miss that event.
    """
    if not rows:
        return
    changed = sorted({each.draft.wallet for each in rows})
    await connection.execute(
        # In binary (%b): as text, the driver scans each array element for characters to escape, which took half of the
        # indexer's time on agent markets.
        "WITH woken AS (UPDATE agent_webhook SET attempt_at = now() WHERE wallet = ANY(%b) AND attempt_at = 'infinity'"
        " AND (trade_id IS NULL OR trade_id = ANY(%b))),"
        " stored AS (UPDATE agent_event_wallet w SET next_seq = u.seq, chain_micros = u.micros"
        " FROM unnest(%b::bytea[], %b::bigint[], %b::bigint[]) AS u (wallet, seq, micros) WHERE w.wallet = u.wallet),"
        " added AS (INSERT INTO agent_event (wallet, seq, source, occurrence, corrects, type, market_id, trade_id,"
        " at_micros, block_number, payload) SELECT * FROM unnest(%b::bytea[], %b::bigint[], %b::bytea[],"
        " %b::smallint[], %b::bytea[], %b::text[], %b::text[], %b::bytea[], %b::bigint[], %b::bigint[], %b::text[]))"
        " SELECT set_config('synchronous_commit', 'on', true), pg_notify(%s, %s)",
        (
            changed,
            list({each.draft.trade_id for each in rows if each.draft.trade_id is not None}),
            changed,
            [wallets[each].next_seq for each in changed],
            [wallets[each].chain_micros for each in changed],
            [each.draft.wallet for each in rows],
            [each.seq for each in rows],
            [each.draft.source for each in rows],
            [each.occurrence for each in rows],
            [each.corrects for each in rows],
            [each.draft.type.value for each in rows],
            [each.draft.market_id for each in rows],
            [each.draft.trade_id for each in rows],
            [each.at_micros for each in rows],
            [each.draft.block for each in rows],
            [each.draft.payload for each in rows],
            AGENT_EVENT.name,
            AGENT_EVENT.write(changed),
        ),
    )
    for each in rows:
        WRITTEN.labels(each.draft.type.value).inc()


# ---------------------------------------------------------------- reading

_COLUMNS = "wallet, seq, source, occurrence, type, market_id, trade_id, at_micros, payload"


@dataclass(frozen=True, slots=True)
class Notice:
    """An event of the log. `at_micros` is in microseconds since 1970; `payload` is the JSON text exactly as sent."""

    id: str
    wallet: bytes
    seq: int
    type: EventType
    market_id: str | None
    trade_id: bytes | None
    at_micros: int
    payload: str


async def next_seq(connection: Connection, wallet: bytes) -> int:
    rows = await connection.execute("SELECT next_seq FROM agent_event_wallet WHERE wallet = %s", (wallet,))
    row = await rows.fetchone()
    return 0 if row is None else int(row[0])


async def newest_seq(connection: Connection, wallet: bytes) -> int:
    """Return the wallet's newest sequence number, or 0 if it has no events."""
    return max(await next_seq(connection, wallet) - 1, 0)


async def notices_from(
    connection: Connection, wallet: bytes, seq: int, limit: int, *, trade_id: bytes | None = None
) -> list[Notice]:
    """Read up to `limit` of the wallet's events in order, starting at sequence number `seq`. If `trade_id` is given,
    read only that trade's events."""
    narrowed = "" if trade_id is None else " AND trade_id = %(trade)s"
    query = (
        f"SELECT {_COLUMNS} FROM agent_event WHERE wallet = %(wallet)s AND seq >= %(seq)s{narrowed}"  # noqa: S608
        " ORDER BY seq LIMIT %(limit)s"
    )
    values = {"wallet": wallet, "seq": seq, "limit": limit, "trade": trade_id}
    return _notices(await (await connection.execute(query.encode(), values, prepare=True)).fetchall())


async def resolutions_after(connection: Connection, wallet: bytes, micros: int, limit: int) -> list[Notice]:
    """Read up to `limit` of the wallet's market results whose time is after `micros`, in microseconds since 1970."""
    query = (
        f"SELECT {_COLUMNS} FROM agent_event WHERE wallet = %s AND at_micros > %s AND type = ANY(%s)"  # noqa: S608
        " ORDER BY at_micros, seq LIMIT %s"
    )
    kinds = [each.value for each in RESOLUTIONS]
    return _notices(await (await connection.execute(query.encode(), (wallet, micros, kinds, limit))).fetchall())


def _notices(rows: Sequence[tuple[Any, ...]]) -> list[Notice]:
    return [
        Notice(
            event_id(source, occurrence), bytes(wallet), seq, EventType(kind), market_id, trade_id, at_micros, payload
        )
        for wallet, seq, source, occurrence, kind, market_id, trade_id, at_micros, payload in rows
    ]
