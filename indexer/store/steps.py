"""The steps of a chain's tables, one transaction each: append a page of blocks, rewind to an ancestor, insert logs that
were missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, LiteralString

from core.agent.notices.log import undo_above
from core.contracts.events import Role, layouts_of
from core.db.channels import CHAIN_INDEXED, IndexStep, notify
from core.db.engine import Connection
from core.db.schema.index import chain_block
from core.service.cancelling import cancel_and_wait
from indexer import notices
from indexer.errors import CursorMoved
from indexer.fold.shared import APPENDED
from indexer.logs import BlockInfo, LogRecord, Page
from indexer.sources import Sources
from indexer.store.cursor import Cursor, lock_cursor, move_cursor
from indexer.store.folding import Folding, affected_markets, delete_entities, fold_logs
from indexer.store.log_ranges import enters_range, make_ranges
from indexer.store.payments import warn_of_unpaid
from indexer.store.raw_logs import write_logs
from indexer.store.sums import sums_updated
from indexer.store.tables import begin_writing, copy_rows

REFOLD_BATCH = 20_000
"""Logs of refolded entities held in memory together. Rows are written once for each batch: a position that is entered
and paid within one is a single insert."""
FETCHED_AT_ONCE = 2_000


async def append(
    connection: Connection, sources: Sources, cursor: Cursor, page: Page, *, durable: bool = True
) -> Cursor:
    """Write a page's blocks, raw logs and projections and move the cursor, directly before the page, to its end."""
    assert page.first == cursor.number + 1
    async with connection.transaction():
        await begin_writing(connection, durable=durable)
        moved = await move_cursor(connection, cursor, page.end)
        if enters_range(page.first, page.end.number):
            await make_ranges(connection, sources.chain_id, page.first, page.end.number)
        await _write_blocks(connection, sources.chain_id, page.blocks)
        folding = Folding(sources.chain_id, sources.feeds, page.logs)
        await folding.load(connection)
        # The database stores the raw logs while they are folded here.
        writing = asyncio.create_task(write_logs(connection, sources.chain_id, page.logs))
        try:
            await folding.run()
        except BaseException:
            await cancel_and_wait(writing)
            raise
        await writing
        async with sums_updated(connection, moved, folding.affected_rows()):
            await folding.store(connection)
        await warn_of_unpaid(connection, sources, page.logs)
        await notices.append_events(connection, sources, page.logs, page.hashes)
        await notify(connection, CHAIN_INDEXED, IndexStep(sources.chain_id, page.end.number))
    return moved


async def rewind(connection: Connection, sources: Sources, cursor: Cursor, ancestor: BlockInfo | None) -> Cursor:
    """Remove every block above the ancestor (None: all blocks): move their logs to `chain_log_removed`, and fold every
    entity they touched again from the remaining logs."""
    chain_id = sources.chain_id
    async with connection.transaction():
        await begin_writing(connection)
        moved = await move_cursor(connection, cursor, ancestor)
        removed = await _take_back_logs(connection, chain_id, cursor, moved.number)
        await connection.execute(
            "DELETE FROM chain_block WHERE chain_id = %s AND number > %s", (chain_id, moved.number)
        )
        for table in APPENDED:
            await connection.execute(
                f"DELETE FROM {table.name} WHERE chain_id = %s AND block_number > %s",  # noqa: S608 - our own names
                (chain_id, moved.number),
            )
        entities = [entity for entity in removed if entity is not None]
        async with sums_updated(connection, moved, affected_markets(entities)):
            await delete_entities(connection, chain_id, entities)
            await refold(connection, sources, entities)
        if Role.WALLET in sources.contracts:
            await undo_above(connection, moved.number)
        await notify(connection, CHAIN_INDEXED, IndexStep(chain_id, moved.number))
    return moved


async def prune_blocks(connection: Connection, cursor: Cursor, below: int) -> None:
    """Delete blocks without logs below `below`: no reorganization goes back that far. CursorMoved if another process
    leads, which may be adding logs to one."""
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
    """Insert logs into blocks the cursor has passed, and fold every entity they touch again."""
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
            await refold(connection, sources, entities)
        rounds = [log for log in missing if log.entity is None and log.address != sources.token]
        await fold_logs(connection, chain_id, sources.feeds, rounds)
        token_blocks = {log.block for log in missing if log.address == sources.token}
        await _pair_again(connection, sources, token_blocks)
        await notices.append_events(connection, sources, missing, page.hashes)
        await notify(connection, CHAIN_INDEXED, IndexStep(chain_id, page.end.number, everything=True))


async def _pair_again(connection: Connection, sources: Sources, blocks: set[int]) -> None:
    """Pair the authorizations in some blocks again: the transfer of an unpaired one may be stored now."""
    if not blocks:
        return
    await connection.execute(
        "DELETE FROM token_authorization WHERE chain_id = %s AND block_number = ANY(%s)",
        (sources.chain_id, list(blocks)),
    )
    chosen = "l.address = %(token)s AND l.block_number = ANY(%(blocks)s)"
    async with aclosing(stored_logs(connection, sources, chosen, token=sources.token, blocks=list(blocks))) as logs:
        await fold_logs(connection, sources.chain_id, sources.feeds, [log async for log in logs])


async def store_block(connection: Connection, chain_id: int, block: BlockInfo) -> None:
    """Store a block that the cursor has passed, while the caller holds the cursor's lock."""
    stored = await connection.fetch_value(
        "INSERT INTO chain_block (chain_id, number, hash, timestamp, l1_block_number) VALUES (%s, %s, %s, %s, %s)"
        " ON CONFLICT (chain_id, number) DO UPDATE SET number = excluded.number RETURNING hash",
        (chain_id, block.number, block.hash, block.timestamp, block.l1_number),
    )
    if stored != block.hash:
        raise CursorMoved(f"The stored block {block.number} has another hash.")


async def refold(connection: Connection, sources: Sources, entities: Sequence[bytes]) -> None:
    """Fold some entities, which have no rows yet, from all their logs."""
    if entities:
        await _fold_stored(connection, sources, "l.entity = ANY(%(entities)s)", entities=list(entities))


async def refold_rows(connection: Connection, sources: Sources, first: int, last: int) -> None:
    """Fold the logs of some blocks that make a row each; none of these rows may be stored yet."""
    chosen = "l.entity IS NULL AND l.block_number BETWEEN %(first)s AND %(last)s"
    await _fold_stored(connection, sources, chosen, first=first, last=last)


async def _fold_stored(connection: Connection, sources: Sources, chosen: LiteralString, **values: Any) -> None:
    async with aclosing(stored_batches(connection, sources, chosen, **values)) as batches:
        async for batch in batches:
            await fold_logs(connection, sources.chain_id, sources.feeds, batch)


async def stored_batches(
    connection: Connection, sources: Sources, chosen: LiteralString = "true", **values: Any
) -> AsyncGenerator[list[LogRecord]]:
    """Yield `stored_logs` in batches of about REFOLD_BATCH that end with a block, so transactions stay together."""
    batch: list[LogRecord] = []
    async with aclosing(stored_logs(connection, sources, chosen, **values)) as logs:
        async for log in logs:
            if len(batch) >= REFOLD_BATCH and log.block != batch[-1].block:
                yield batch
                batch = []
            batch.append(log)
    if batch:
        yield batch


async def stored_logs(
    connection: Connection, sources: Sources, chosen: LiteralString = "true", **values: Any
) -> AsyncGenerator[LogRecord]:
    """Yield a chain's raw logs in chain order, decoded again: those that match a condition on `l`."""
    query = (
        "SELECT l.block_number, l.log_index, b.timestamp, l.tx_hash, l.address, l.topics, l.data, l.entity"  # noqa: S608
        " FROM chain_log l JOIN chain_block b ON b.chain_id = l.chain_id AND b.number = l.block_number"
        f" WHERE l.chain_id = %(chain)s AND {chosen} ORDER BY l.block_number, l.log_index"
    )
    roles = {each.address: layouts_of(each.role) for each in sources.emitters.values()}
    async with connection.cursor(name="stored_logs", binary=True) as reader:
        reader.itersize = FETCHED_AT_ONCE
        await reader.execute(query.encode(), {"chain": sources.chain_id, **values})
        async for block, index, at, tx, address, topics, data, entity in reader:
            if address not in roles:
                continue  # of a feed that was removed while its past was read
            event = roles[address][topics[:32]].decode(topics, data)
            yield LogRecord(block, index, at, tx, address, topics, data, entity, event)


async def _write_blocks(connection: Connection, chain_id: int, blocks: Sequence[BlockInfo]) -> None:
    if blocks:
        await copy_rows(
            connection,
            chain_block,
            ((chain_id, each.number, each.hash, each.timestamp, each.l1_number) for each in blocks),
        )


async def _take_back_logs(connection: Connection, chain_id: int, cursor: Cursor, down_to: int) -> set[bytes | None]:
    """Move the logs above `down_to` to `chain_log_removed`; return their entities."""
    if cursor.hash is None:
        raise CursorMoved(f"Chain {chain_id} has no blocks to rewind.")
    reorg = await connection.fetch_value(
        "INSERT INTO chain_reorg (chain_id, from_number, from_hash, ancestor_number, removed_logs)"
        " SELECT %(chain)s, %(from)s, %(hash)s, %(to)s, count(*) FROM chain_log"
        " WHERE chain_id = %(chain)s AND block_number > %(to)s RETURNING id",
        {"chain": chain_id, "from": cursor.number, "hash": cursor.hash, "to": down_to},
    )
    moved = await connection.fetch_all(
        "WITH gone AS (DELETE FROM chain_log WHERE chain_id = %(chain)s AND block_number > %(to)s RETURNING *)"
        " INSERT INTO chain_log_removed"
        " (reorg_id, chain_id, block_number, block_hash, log_index, tx_hash, address, topics, data, entity)"
        " SELECT %(reorg)s, g.chain_id, g.block_number, b.hash, g.log_index, g.tx_hash, g.address, g.topics, g.data,"
        " g.entity FROM gone g JOIN chain_block b ON b.chain_id = g.chain_id AND b.number = g.block_number"
        " RETURNING entity",
        {"chain": chain_id, "to": down_to, "reorg": reorg},
    )
    return {entity for (entity,) in moved}
