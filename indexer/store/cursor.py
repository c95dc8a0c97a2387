"""How far one chain is indexed, and advancing it from the value that was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from psycopg.types.json import Jsonb

from core.db.engine import Connection
from indexer.errors import CursorMoved, OtherSources
from indexer.fold.shared import FeedRounds
from indexer.logs import BlockInfo
from indexer.sources import Sources
from indexer.store.log_ranges import make_ranges


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last block indexed; `hash` is None before the first."""

    chain_id: int
    start_block: int
    number: int
    hash: bytes | None
    finalized: int | None = None

    @property
    def at_start(self) -> bool:
        return self.hash is None


async def open_cursor(connection: Connection, sources: Sources) -> Cursor:
    """The chain's cursor, made at its first use; OtherSources when it was filled from other contracts."""
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO chain_cursor (chain_id, name, start_block, number, sources) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT (chain_id) DO NOTHING",
            (
                sources.chain_id,
                sources.name,
                sources.start_block,
                sources.start_block - 1,
                Jsonb({**sources.fingerprint(), "feeds": feeds_json(sources.feeds)}),
            ),
        )
        # What feeds observe names markets in events, and the deployment file may add feeds at any time.
        await connection.execute(
            "UPDATE chain_cursor SET sources = jsonb_set(sources, '{observed}', %s) WHERE chain_id = %s",
            (Jsonb({feed.hex(): key for feed, key in sources.observed.items()}), sources.chain_id),
        )
        row = await (
            await connection.execute(
                "SELECT start_block, number, hash, finalized_number, sources FROM chain_cursor"
                " WHERE chain_id = %s FOR UPDATE",
                (sources.chain_id,),
            )
        ).fetchone()
        assert row is not None
        start_block, number, digest, finalized, filled_from = row
        if start_block != sources.start_block or any(
            filled_from[role] != ours for role, ours in sources.fingerprint().items() if role in filled_from
        ):
            raise OtherSources(
                f"The database holds what chain {sources.chain_id} ({sources.name}) said of other contracts than those"
                " in its deployment file."
            )
        await make_ranges(connection, sources.chain_id, start_block, number + 1)
    return Cursor(sources.chain_id, start_block, number, digest, finalized)


def feeds_json(feeds: Mapping[bytes, FeedRounds]) -> dict[str, list[str | int | None]]:
    """Whose rounds are indexed from the start: emitter -> proxy and phase."""
    return {emitter.hex(): [feed.proxy.hex(), feed.phase] for emitter, feed in feeds.items()}


async def known_feeds(connection: Connection, chain_id: int) -> dict[bytes, FeedRounds]:
    """Every emitter the tables hold rounds of, also such as are no longer followed."""
    cursor = await connection.execute("SELECT sources->'feeds' FROM chain_cursor WHERE chain_id = %s", (chain_id,))
    row = await cursor.fetchone()
    feeds = row[0] if row is not None and row[0] is not None else {}
    return {
        bytes.fromhex(emitter): FeedRounds(bytes.fromhex(proxy), phase) for emitter, (proxy, phase) in feeds.items()
    }


async def keep(connection: Connection, cursor: Cursor) -> None:
    """Locks the cursor where it is, for a change of blocks it has passed."""
    done = await connection.execute(
        "SELECT FROM chain_cursor WHERE chain_id = %s AND number = %s AND hash IS NOT DISTINCT FROM %s FOR UPDATE",
        (cursor.chain_id, cursor.number, cursor.hash),
    )
    if await done.fetchone() is None:
        raise CursorMoved(f"The cursor of chain {cursor.chain_id} is no longer at block {cursor.number}.")


async def move(connection: Connection, cursor: Cursor, to: BlockInfo | None) -> Cursor:
    """Moves the cursor to a block, or to before the first when there is none, in the transaction that writes or takes
    back what lies between; first in it: the row lock keeps every other writer out until the commit."""
    number, digest = (cursor.start_block - 1, None) if to is None else (to.number, to.hash)
    done = await connection.execute(
        "UPDATE chain_cursor SET number = %s, hash = %s, block_time = %s, l1_block_number = %s,"
        " head_number = greatest(head_number, %s), updated_at = now()"
        " WHERE chain_id = %s AND number = %s AND hash IS NOT DISTINCT FROM %s",
        (
            number,
            digest,
            None if to is None else to.timestamp,
            None if to is None else to.l1_number,
            number,
            cursor.chain_id,
            cursor.number,
            cursor.hash,
        ),
    )
    if done.rowcount != 1:
        raise CursorMoved(f"The cursor of chain {cursor.chain_id} is no longer at block {cursor.number}.")
    return replace(cursor, number=number, hash=digest)


async def note_head(
    connection: Connection, chain_id: int, head_number: int, head_time: int, finalized: int | None
) -> None:
    """What a node said of its head; readers tell from it how far behind the tables are."""
    await connection.execute(
        "UPDATE chain_cursor SET head_number = %s, head_time = %s, head_seen_at = now(),"
        " finalized_number = coalesce(%s, finalized_number) WHERE chain_id = %s",
        (head_number, head_time, finalized, chain_id),
    )


async def note_state(connection: Connection, chain_id: int, state: str, problem: str | None = None) -> None:
    """`backfill`, `tail`, or `halted` with a sentence that says why."""
    await connection.execute(
        "UPDATE chain_cursor SET state = %s, problem = %s, updated_at = now()"
        " WHERE chain_id = %s AND (state, problem) IS DISTINCT FROM (%s, %s)",
        (state, problem, chain_id, state, problem),
    )
