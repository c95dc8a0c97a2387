"""The steps that change a chain's tables, one transaction each: append pages of blocks, rewind to an ancestor, insert
missing logs. Each step loads the rows that its logs touch, folds the logs, and stores what changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg.errors import UniqueViolation
from sqlalchemy import Table

from core.agent.notices.log import undo_above
from core.contracts.events import Role, layouts_of
from core.contracts.events.agent import AGENT_MARKET, AGENT_VENUE
from core.contracts.events.shared import PAUSER
from core.contracts.events.stock import STOCK_MARKET, STOCK_VENUE
from core.db.channels import CHAIN_INDEXED, IndexStep, notify
from core.db.engine import Connection
from core.db.schema.index import chain_block
from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from core.db.schema.index_stock import stock_market, stock_position, stock_vintage
from core.service.cancelling import cancel_and_wait
from indexer import notices
from indexer.errors import Contradiction, CursorMoved
from indexer.fold.agent import AgentFold
from indexer.fold.rows import AffectedRows, BlockInfo, LogRecord, Page, Write
from indexer.fold.single import APPENDED, authorizations, rounds
from indexer.fold.stock import StockFold
from indexer.fold.venues import APPEND_ONLY, VENUE_KINDS, VenueFold
from indexer.sources import FeedRounds, Sources
from indexer.store.cursor import Cursor, SeenHead, enters_range, lock_cursor, make_ranges, move_cursor
from indexer.store.payments import warn_of_unpaid
from indexer.store.sums import sums_updated
from indexer.store.tables import all_rows, begin_writing, clear, copy_rows, remove, rows_by_key, store, write_logs

SLICE = 100  # logs folded before other tasks run


@dataclass(frozen=True, slots=True)
class Part:
    """The projections of one contract and its helpers: a venue and its markets. `market` is the first byte of a
    market's entity, `tables` are the tables with the market's rows, and `key` turns an entity into its key in those
    tables."""

    role: Role
    venue: bytes
    market: bytes = b""
    tables: tuple[Table, ...] = ()
    key: Callable[[bytes], Any] = lambda entity: entity[1:]


PARTS = (
    Part(
        Role.SETTLER,
        STOCK_VENUE,
        STOCK_MARKET,
        (stock_market, stock_vintage, stock_position),
        lambda entity: int.from_bytes(entity[1:]),
    ),
    Part(Role.WALLET, AGENT_VENUE, AGENT_MARKET, (agent_market, agent_outcome, agent_stake)),
    Part(Role.PAUSER, PAUSER),
)


def projections(sources: Sources) -> list[Table]:
    tables = [*APPENDED]
    for part in PARTS:
        if part.role in sources.contracts:
            tables += [*part.tables, *(kind.table for kind in VENUE_KINDS[part.venue])]
    return tables


Changes = tuple[list[Write], dict[Role, AffectedRows]]
"""The rows that a run of logs changed, and the rows whose share of the sums may change, by the contract that holds the
money."""


class Folding:
    """Folds consecutive runs of logs in one transaction. For each run, call `load`, `run` and `take_changes` in this
    order.

    Rows stay in memory until the end, so a run may be folded before the changes of earlier runs are stored. `run` does
    not use the database. It pauses between slices so that other tasks can store those changes.
    """

    def __init__(self, chain_id: int, feeds: Mapping[bytes, FeedRounds]) -> None:
        self._chain_id = chain_id
        self._feeds = feeds
        self._stock: list[LogRecord] = []
        self._agent: list[LogRecord] = []
        self._venues: list[LogRecord] = []
        self._single: list[LogRecord] = []
        self._stock_fold = StockFold()
        self._agent_fold = AgentFold()
        self._venue_fold = VenueFold(chain_id)
        self._loaded_venues: set[bytes] = set()

    async def load(self, connection: Connection, logs: Iterable[LogRecord]) -> None:
        """Begin a run: load the rows that its logs touch, unless they are in memory."""
        self._stock, self._agent, self._venues, self._single = [], [], [], []
        of_markets = {STOCK_MARKET: self._stock, AGENT_MARKET: self._agent}
        for log in logs:
            (self._single if log.entity is None else of_markets.get(log.entity[:1], self._venues)).append(log)
        for fold, some in ((self._stock_fold, self._stock), (self._agent_fold, self._agent)):
            for need in fold.needs(some):
                for row in await rows_by_key(connection, need.kind, need.columns, need.values):
                    fold.add_row(need.kind, row)
        for entity in {log.entity for log in self._venues if log.entity is not None} - self._loaded_venues:
            self._loaded_venues.add(entity)
            for kind in VENUE_KINDS[entity]:
                if kind not in APPEND_ONLY:
                    for row in await all_rows(connection, kind):
                        self._venue_fold.add_row(kind, row)

    async def run(self) -> None:
        """Apply every log. Raise Contradiction if a log does not follow from the earlier ones."""
        for logs, apply in (
            (self._stock, self._stock_fold.apply),
            (self._agent, self._agent_fold.apply),
            (self._venues, self._venue_fold.apply),
        ):
            for at in range(0, len(logs), SLICE):
                for log in logs[at : at + SLICE]:
                    apply(log)
                await asyncio.sleep(0)
        self._agent_fold.finish()

    def take_changes(self) -> Changes:
        affected = {Role.SETTLER: self._stock_fold.affected_rows(), Role.WALLET: self._agent_fold.affected_rows()}
        writes = self._stock_fold.take_writes() + self._agent_fold.take_writes() + self._venue_fold.take_writes()
        writes += rounds(self._chain_id, self._single, self._feeds)
        writes.append(authorizations(self._chain_id, self._single))
        return writes, affected


async def fold_logs(
    connection: Connection, chain_id: int, feeds: Mapping[bytes, FeedRounds], logs: list[LogRecord]
) -> None:
    """Apply logs to the stored projections. The logs must be in chain order, and must directly follow the logs already
    folded for the same entities."""
    folding = Folding(chain_id, feeds)
    await folding.load(connection, logs)
    await folding.run()
    await _store_writes(connection, folding.take_changes()[0])


async def _store_writes(connection: Connection, writes: Iterable[Write]) -> None:
    """Store the rows that logs changed. Raise Contradiction if a log adds a row a second time, for example because the
    token broke EIP-3009 and let an authorization be used twice."""
    try:
        for write in writes:
            await store(connection, write)
    except UniqueViolation as error:
        raise Contradiction(f"A log repeats a row of {error.diag.table_name}: {error.diag.message_detail}") from error


def affected_markets(entities: Iterable[bytes]) -> dict[Role, AffectedRows]:
    """Return the affected rows of each contract that holds money: the given entities that are its markets, and all
    positions or stakes in these markets."""
    keys = {part.role: [part.key(each) for each in entities if each[:1] == part.market] for part in PARTS}
    return {role: AffectedRows(whole=some, markets=some) for role, some in keys.items() if some}


async def delete_entities(connection: Connection, chain_id: int, entities: list[bytes]) -> None:
    markets = affected_markets(entities)
    for part in PARTS:
        if part.role in markets:
            keys = [(each,) for each in markets[part.role].whole]
            for table in part.tables:
                await remove(connection, table, ("market_id",), keys)
        if part.venue in entities:
            for kind in VENUE_KINDS[part.venue]:
                await clear(connection, kind.table, chain_id)


REFOLD_BATCH = 20_000
"""Logs of refolded entities in memory at once. Rows are written once for each batch: a position that is entered and
paid within it is a single insert."""
FETCHED_AT_ONCE = 2_000


async def append(
    connection: Connection,
    sources: Sources,
    cursor: Cursor,
    pages: Sequence[Page],
    *,
    durable: bool = True,
    head: SeenHead | None = None,
) -> Cursor:
    """Write consecutive pages that start right after the cursor, and move the cursor to the end of the last page. If
    `head` is given, the last page ends at that head. While a page is folded, the database stores that page's logs and
    the rows of the page before."""
    chain_id, first, end = sources.chain_id, pages[0].first, pages[-1].end
    assert first == cursor.number + 1
    async with connection.transaction():
        await begin_writing(connection, durable=durable)
        moved = await move_cursor(connection, cursor, end, head)
        if enters_range(first, end.number):
            await make_ranges(connection, chain_id, first, end.number)
        folding = Folding(chain_id, sources.feeds)
        changes: Changes | None = None
        for page in pages:
            await folding.load(connection, page.logs)
            storing = asyncio.create_task(_store(connection, moved, changes, page))
            try:
                await folding.run()
            except BaseException:
                await cancel_and_wait(storing)
                raise
            await storing
            changes = folding.take_changes()
        await _store(connection, moved, changes, None)
        logs = [log for page in pages for log in page.logs]
        await warn_of_unpaid(connection, sources, logs)
        hashes = {block.number: block.hash for page in pages for block in page.blocks}
        await notices.append_events(connection, sources, logs, hashes)
    return moved


async def _store(connection: Connection, cursor: Cursor, changes: Changes | None, page: Page | None) -> None:
    """Store the changed rows of one page, and the blocks and raw logs of the page after it."""
    if changes is not None:
        writes, affected = changes
        async with sums_updated(connection, cursor, affected):
            await _store_writes(connection, writes)
    if page is not None:
        blocks = ((cursor.chain_id, b.number, b.hash, b.timestamp, b.l1_number) for b in page.blocks)
        await copy_rows(connection, chain_block, blocks)
        await write_logs(connection, cursor.chain_id, page.logs)


async def rewind(connection: Connection, sources: Sources, cursor: Cursor, ancestor: BlockInfo | None) -> Cursor:
    """Remove the blocks above the ancestor, or all blocks if the ancestor is None. Then refold every entity that the
    removed logs touched, from its remaining logs."""
    chain_id = sources.chain_id
    async with connection.transaction():
        await begin_writing(connection)
        moved = await move_cursor(connection, cursor, ancestor)
        entities = await _remove_logs(connection, cursor, moved.number)
        await connection.execute(
            "DELETE FROM chain_block WHERE chain_id = %s AND number > %s", (chain_id, moved.number)
        )
        for table in APPENDED:
            await connection.execute(
                f"DELETE FROM {table.name} WHERE chain_id = %s AND block_number > %s",  # noqa: S608 - our own names
                (chain_id, moved.number),
            )
        async with sums_updated(connection, moved, affected_markets(entities)):
            await delete_entities(connection, chain_id, entities)
            await fold_stored(connection, sources, "l.entity = ANY(%(entities)s)", entities=entities)
        if Role.WALLET in sources.contracts:
            await undo_above(connection, moved.number)
    return moved


async def prune_blocks(connection: Connection, cursor: Cursor, below: int) -> None:
    """Delete blocks without logs below `below`, since no reorganization goes back that far. Raise CursorMoved if
    another process leads, since that process may be adding logs to one of these blocks."""
    async with connection.transaction():
        await begin_writing(connection)
        await lock_cursor(connection, cursor)
        await connection.execute(
            "DELETE FROM chain_block b WHERE b.chain_id = %s AND b.number < %s AND NOT EXISTS (SELECT FROM chain_log l"
            " WHERE l.chain_id = b.chain_id AND l.block_number = b.number)",
            (cursor.chain_id, below),
        )


async def insert_missing(
    connection: Connection, sources: Sources, cursor: Cursor, page: Page, missing: Sequence[LogRecord]
) -> None:
    """Insert logs into blocks below the cursor, then refold the entities that these logs touch."""
    chain_id, numbers = sources.chain_id, {log.block for log in missing}
    async with connection.transaction():
        await begin_writing(connection)
        kept = await lock_cursor(connection, cursor)
        for block in page.blocks:
            if block.number in numbers:
                await store_block(connection, chain_id, block)
        await write_logs(connection, chain_id, missing)
        entities = sorted({log.entity for log in missing if log.entity is not None})
        async with sums_updated(connection, kept, affected_markets(entities)):
            await delete_entities(connection, chain_id, entities)
            await fold_stored(connection, sources, "l.entity = ANY(%(entities)s)", entities=entities)
        rounds = [log for log in missing if log.entity is None and log.address != sources.token]
        await fold_logs(connection, chain_id, sources.feeds, rounds)
        token_blocks = {log.block for log in missing if log.address == sources.token}
        await _pair_again(connection, sources, token_blocks)
        await notices.append_events(connection, sources, missing, page.hashes)
        await notify(connection, CHAIN_INDEXED, IndexStep(chain_id, page.end.number, everything=True))


async def _pair_again(connection: Connection, sources: Sources, blocks: set[int]) -> None:
    """Pair authorizations with transfers again in these blocks. The transfer of an unpaired authorization may be stored
    by now."""
    if not blocks:
        return
    await connection.execute(
        "DELETE FROM token_authorization WHERE chain_id = %s AND block_number = ANY(%s)",
        (sources.chain_id, list(blocks)),
    )
    chosen = "l.address = %(token)s AND l.block_number = ANY(%(blocks)s)"
    await fold_stored(connection, sources, chosen, token=sources.token, blocks=list(blocks))


async def store_block(connection: Connection, chain_id: int, block: BlockInfo) -> None:
    """Store a block below the cursor. The caller holds the cursor's lock."""
    stored = await connection.fetch_value(
        "INSERT INTO chain_block (chain_id, number, hash, timestamp, l1_block_number) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (chain_id, number) DO UPDATE SET number = excluded.number RETURNING hash",
        (chain_id, block.number, block.hash, block.timestamp, block.l1_number),
    )
    if stored != block.hash:
        raise CursorMoved(f"The stored block {block.number} has another hash.")


async def fold_stored(connection: Connection, sources: Sources, chosen: LiteralString = "true", **values: Any) -> None:
    """Fold all stored logs, or only those that match `chosen`, an SQL condition on the log `l`. No rows made from these
    logs may be stored yet."""
    async with aclosing(stored_batches(connection, sources, chosen, **values)) as batches:
        async for batch in batches:
            await fold_logs(connection, sources.chain_id, sources.feeds, batch)


async def stored_batches(
    connection: Connection, sources: Sources, chosen: LiteralString = "true", **values: Any
) -> AsyncGenerator[list[LogRecord]]:
    """Decode a chain's stored logs and yield them in chain order, in batches of about REFOLD_BATCH logs. `chosen` is an
    SQL condition on the log `l`. Each batch ends at the end of a block, so that a transaction's logs stay together."""
    query = (
        "SELECT l.block_number, l.log_index, b.timestamp, l.tx_hash, l.address, l.topics, l.data, l.entity"  # noqa: S608
        " FROM chain_log l JOIN chain_block b ON b.chain_id = l.chain_id AND b.number = l.block_number"
        f" WHERE l.chain_id = %(chain)s AND {chosen} ORDER BY l.block_number, l.log_index"
    )
    roles = {each.address: layouts_of(each.role) for each in sources.emitters.values()}
    batch: list[LogRecord] = []
    async with connection.cursor(name="stored_logs", binary=True) as reader:
        reader.itersize = FETCHED_AT_ONCE
        await reader.execute(query.encode(), {"chain": sources.chain_id, **values})
        async for block, index, at, tx, address, topics, data, entity in reader:
            if address not in roles:
                continue  # of a feed that was removed while its past was read
            if len(batch) >= REFOLD_BATCH and block != batch[-1].block:
                yield batch
                batch = []
            event = roles[address][topics[:32]].decode(topics, data)
            batch.append(LogRecord(block, index, at, tx, address, topics, data, entity, event))
    if batch:
        yield batch


async def _remove_logs(connection: Connection, cursor: Cursor, down_to: int) -> list[bytes]:
    """Delete the logs above the block `down_to`, and record the reorganization. Return the entities that these logs
    touched."""
    if cursor.hash is None:
        raise CursorMoved(f"Chain {cursor.chain_id} has no blocks to rewind.")
    rows = await connection.fetch_all(
        "DELETE FROM chain_log WHERE chain_id = %s AND block_number > %s RETURNING entity", (cursor.chain_id, down_to)
    )
    await connection.execute(
        "INSERT INTO chain_reorg (chain_id, from_number, from_hash, ancestor_number, removed_logs)"
        " VALUES (%s, %s, %s, %s, %s)",
        (cursor.chain_id, cursor.number, cursor.hash, down_to, len(rows)),
    )
    return list({entity for (entity,) in rows if entity is not None})
