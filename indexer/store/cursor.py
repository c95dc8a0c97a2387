"""A chain's cursor, its stored blocks, and the partitions of its raw logs.

The cursor only moves from the value that its owner last read. Each partition holds a range of blocks, and exists before
the cursor reaches it. A full partition is never written again, so backups copy it once, and it can be moved to other
disks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from psycopg.sql import SQL, Identifier, Literal
from psycopg.types.json import Jsonb

from core.db.channels import CHAIN_INDEXED, IndexStep
from core.db.engine import Connection
from core.log import get_logger
from indexer.errors import CursorMoved, OtherSources
from indexer.fold.rows import BlockInfo
from indexer.sources import FeedRounds, Sources

log = get_logger(__name__)
_ABOVE_ALL = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last indexed block; `hash` is None before the first."""

    chain_id: int
    start_block: int
    number: int
    hash: bytes | None
    finalized: int | None = None
    summed: bool = False  # whether the sum tables are filled, and updated by every step

    @property
    def at_start(self) -> bool:
        return self.hash is None


class SeenHead(NamedTuple):
    """A reported head as recorded for readers. `state` is `backfill`, `tail`, or None to leave it unchanged."""

    head_number: int
    head_time: int
    finalized: int | None
    state: str | None


_AT_HEAD = (
    b"head_number = %(head_number)s, head_time = %(head_time)s, head_seen_at = now(),"
    b" finalized_number = coalesce(%(finalized)s, finalized_number), state = coalesce(%(state)s, state),"
    b" problem = CASE WHEN %(state)s::text IS NULL THEN problem END"
)


async def open_cursor(connection: Connection, sources: Sources) -> Cursor:
    """Return the chain's cursor, creating its row if needed. Raise OtherSources if the database was filled from other
    contracts."""
    async with connection.transaction():
        await _ensure_row(connection, sources)
        # The wallets' events name feeds by these keys, and the deployment file may add feeds at any time.
        row = await connection.fetch_one(
            "UPDATE chain_cursor SET sources = jsonb_set(sources, '{observed}', %s) WHERE chain_id = %s"
            " RETURNING start_block, number, hash, finalized_number, summed, sources",
            (Jsonb({feed.hex(): key for feed, key in sources.observed.items()}), sources.chain_id),
        )
        assert row is not None
        start_block, number, digest, finalized, summed, filled_from = row
        if start_block != sources.start_block or any(
            filled_from[role] != ours for role, ours in sources.fingerprint().items() if role in filled_from
        ):
            raise _other_sources(sources)
        await make_ranges(connection, sources.chain_id, start_block, number + 1)
    return Cursor(sources.chain_id, start_block, number, digest, finalized, summed)


async def _ensure_row(connection: Connection, sources: Sources) -> None:
    """Insert the cursor's row if it is missing. The cursor starts before the first block or, if only the row was lost,
    at the highest stored block.

    The transaction that moves the cursor also writes or removes the blocks and logs. So all logs up to the highest
    stored block are stored, and none above it. At worst, some blocks without logs are read again.
    """
    if await connection.fetch_one("SELECT FROM chain_cursor WHERE chain_id = %s", (sources.chain_id,)) is not None:
        return
    stored = await blocks_below(connection, sources.chain_id, _ABOVE_ALL, 1)
    top, feeds = (stored[0], await _old_feeds(connection, sources)) if stored else (None, sources.feeds)
    if top is not None:
        await _require_our_logs(connection, sources)
        log.warning(
            "the chain's row in chain_cursor was missing; continuing from the highest stored block",
            action="index.cursor_rebuilt",
            chain=sources.name,
            block=top.number,
        )
    await connection.execute(
        "INSERT INTO chain_cursor (chain_id, name, start_block, number, hash, block_time, l1_block_number, sources)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (chain_id) DO NOTHING",
        (
            sources.chain_id,
            sources.name,
            sources.start_block,
            *_place(sources.start_block, top),
            Jsonb({**sources.fingerprint(), "feeds": feeds_as_json(feeds)}),
        ),
    )


async def _require_our_logs(connection: Connection, sources: Sources) -> None:
    """Raise OtherSources unless the stored logs are from the deployment file's contracts. Checking one log is enough:
    all logs with an entity came from the same contracts. Logs of feeds have no entity."""
    address = await connection.fetch_value(
        "SELECT address FROM chain_log WHERE chain_id = %s AND entity IS NOT NULL ORDER BY entity LIMIT 1",
        (sources.chain_id,),
    )
    if address is not None and address not in sources.contracts.values():
        raise _other_sources(sources)


async def _old_feeds(connection: Connection, sources: Sources) -> dict[bytes, FeedRounds]:
    """Return the emitters of stored rounds that are no longer followed. The rounds of followed emitters will be read
    again from the start, because only the lost row recorded whether all their rounds are stored."""
    rows = await connection.fetch_all(
        "SELECT DISTINCT l.address, r.feed, div(r.round_id, 18446744073709551616) FROM oracle_round r"
        " JOIN chain_log l USING (chain_id, block_number, log_index) WHERE r.chain_id = %s AND l.address <> ALL(%s)",
        (sources.chain_id, list(sources.feeds)),
    )
    return {
        bytes(emitter): FeedRounds(bytes(feed), None if emitter == feed else int(phase))
        for emitter, feed, phase in rows
    }


def _other_sources(sources: Sources) -> OtherSources:
    return OtherSources(
        f"The database was filled from contracts on chain {sources.chain_id} ({sources.name}) that are not in its"
        " deployment file."
    )


def feeds_as_json(feeds: Mapping[bytes, FeedRounds]) -> dict[str, list[str | int | None]]:
    return {emitter.hex(): [feed.proxy.hex(), feed.phase] for emitter, feed in feeds.items()}


async def known_feeds(connection: Connection, chain_id: int) -> dict[bytes, FeedRounds]:
    """Return every emitter with stored rounds, including emitters that are no longer followed."""
    feeds = await connection.fetch_value("SELECT sources->'feeds' FROM chain_cursor WHERE chain_id = %s", (chain_id,))
    return {
        bytes.fromhex(emitter): FeedRounds(bytes.fromhex(proxy), phase)
        for emitter, (proxy, phase) in (feeds or {}).items()
    }


async def lock_cursor(connection: Connection, cursor: Cursor) -> Cursor:
    """Lock the cursor without moving it, so that the caller can change blocks below it."""
    summed = await connection.fetch_value(
        "SELECT summed FROM chain_cursor"
        " WHERE chain_id = %s AND number = %s AND hash IS NOT DISTINCT FROM %s FOR UPDATE",
        (cursor.chain_id, cursor.number, cursor.hash),
    )
    return replace(cursor, summed=_require_row(summed, cursor))


async def move_cursor(
    connection: Connection, cursor: Cursor, to: BlockInfo | None, head: SeenHead | None = None
) -> Cursor:
    """Move the cursor to the block `to`, or to before the first block if `to` is None. Record `head` if it is given,
    and announce the new position. Call this first in the transaction that writes or removes the blocks in between: its
    row lock keeps other writers out until the commit."""
    number, digest, block_time, l1_number = _place(cursor.start_block, to)
    seen = _AT_HEAD if head is not None else b"head_number = greatest(head_number, %(number)s)"
    step = CHAIN_INDEXED.write(IndexStep(cursor.chain_id, number))
    summed = await connection.fetch_value(
        b"UPDATE chain_cursor SET number = %(number)s, hash = %(hash)s, block_time = %(block_time)s,"
        b" l1_block_number = %(l1_number)s, updated_at = now(), " + seen + b" WHERE chain_id = %(chain_id)s"
        b" AND number = %(before)s AND hash IS NOT DISTINCT FROM %(hash_before)s"
        b" RETURNING summed, pg_notify(%(channel)s, %(step)s)",
        {
            "number": number,
            "hash": digest,
            "block_time": block_time,
            "l1_number": l1_number,
            "chain_id": cursor.chain_id,
            "before": cursor.number,
            "hash_before": cursor.hash,
            "channel": CHAIN_INDEXED.name,
            "step": step,
        }
        | ({} if head is None else head._asdict()),
    )
    return replace(cursor, number=number, hash=digest, summed=_require_row(summed, cursor))


def _place(start_block: int, block: BlockInfo | None) -> tuple[int, bytes | None, int | None, int | None]:
    if block is None:
        return start_block - 1, None, None, None
    return block.number, block.hash, block.timestamp, block.l1_number


def _require_row(summed: bool | None, cursor: Cursor) -> bool:
    """Return `summed` from the cursor's update. Raise CursorMoved if it is None, because no row was updated."""
    if summed is None:
        raise CursorMoved(f"The cursor of chain {cursor.chain_id} is no longer at block {cursor.number}.")
    return summed


async def record_head(connection: Connection, chain_id: int, head: SeenHead) -> None:
    """Record a reported head, so that readers see how far behind the tables are."""
    query = b"UPDATE chain_cursor SET " + _AT_HEAD + b" WHERE chain_id = %(chain_id)s"
    done = await connection.execute(query, {"chain_id": chain_id, **head._asdict()})
    if done.rowcount != 1:
        raise CursorMoved(f"The row of chain {chain_id} in chain_cursor is missing.")


async def record_state(connection: Connection, chain_id: int, state: str, problem: str | None) -> None:
    """Record the state: `backfill`, `tail` or `halted`. For `halted`, `problem` is a sentence with the reason."""
    await connection.execute(
        "UPDATE chain_cursor SET state = %s, problem = %s, updated_at = now()"
        " WHERE chain_id = %s AND (state, problem) IS DISTINCT FROM (%s, %s)",
        (state, problem, chain_id, state, problem),
    )


# ---------------------------------------------------------------- stored blocks and logs


async def blocks_below(connection: Connection, chain_id: int, top: int, limit: int) -> list[BlockInfo]:
    rows = await connection.fetch_all(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number <= %s"
        " ORDER BY number DESC LIMIT %s",
        (chain_id, top, limit),
    )
    return [BlockInfo(*row) for row in rows]


async def places_of_logs(connection: Connection, chain_id: int, first: int, last: int) -> set[tuple[int, int]]:
    """Return the block number and log index of every stored log between two blocks."""
    rows = await connection.fetch_all(
        "SELECT block_number, log_index FROM chain_log WHERE chain_id = %s AND block_number BETWEEN %s AND %s",
        (chain_id, first, last),
    )
    return {(number, index) for number, index in rows}


async def first_block_after(connection: Connection, chain_id: int, number: int) -> BlockInfo | None:
    row = await connection.fetch_one(
        "SELECT number, hash, timestamp, l1_block_number FROM chain_block WHERE chain_id = %s AND number > %s"
        " ORDER BY number LIMIT 1",
        (chain_id, number),
    )
    return None if row is None else BlockInfo(*row)


async def highest_final(connection: Connection, chain_id: int) -> BlockInfo | None:
    """Return the highest stored final block, or None if the nodes do not report finality."""
    row = await connection.fetch_one(
        "SELECT b.number, b.hash, b.timestamp, b.l1_block_number FROM chain_cursor c JOIN chain_block b"
        " ON b.chain_id = c.chain_id AND b.number <= least(c.number, c.finalized_number)"
        " WHERE c.chain_id = %s AND c.finalized_number IS NOT NULL ORDER BY b.number DESC LIMIT 1",
        (chain_id,),
    )
    return None if row is None else BlockInfo(*row)


BLOCKS = 20_000_000
"""Blocks in a range: fifteen months of two-second blocks, two months of quarter-second blocks."""


def range_name(chain_id: int, number: int) -> str:
    return f"chain_log_{chain_id}_{number}"


async def make_ranges(connection: Connection, chain_id: int, first: int, last: int) -> None:
    """Make the partitions for blocks `first` to `last`, and the next partition. The caller holds the cursor's lock.

    CREATE TABLE ... PARTITION OF would lock out all readers, and would wait for an audit that takes hours. Attaching a
    separately created table does neither.
    """
    for number in range(first // BLOCKS, last // BLOCKS + 2):
        name = range_name(chain_id, number)
        if await connection.fetch_value("SELECT to_regclass(%s) IS NOT NULL", (name,)):
            continue
        await connection.execute(
            SQL("CREATE TABLE {} (LIKE chain_log INCLUDING DEFAULTS INCLUDING INDEXES)").format(Identifier(name))
        )
        await connection.execute(
            SQL("ALTER TABLE chain_log ATTACH PARTITION {} FOR VALUES FROM ({}, {}) TO ({}, {})").format(
                Identifier(name),
                Literal(chain_id),
                Literal(number * BLOCKS),
                Literal(chain_id),
                Literal((number + 1) * BLOCKS),
            )
        )


def enters_range(first: int, last: int) -> bool:
    """Return whether a partition begins among blocks `first` to `last`."""
    return (first - 1) // BLOCKS != last // BLOCKS
