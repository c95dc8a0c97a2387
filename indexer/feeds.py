"""Finds the contracts that emit feeds' rounds, and indexes the past rounds of feeds that were added later.

A Chainlink proxy emits nothing: the aggregator behind it does, numbering rounds without the phase, and the proxy may
switch to another aggregator. Our own feeds and local ones emit their rounds themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace

from eth_utils.crypto import keccak
from psycopg.types.json import Jsonb

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider
from core.chain.wire import Data
from core.db.channels import CHAIN_INDEXED, IndexStep, notify
from core.db.engine import Connection, ConnectionPool
from core.db.schema.index_shared import oracle_measure, oracle_round
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from indexer.fetch import Fetcher
from indexer.fold.rows import Page
from indexer.fold.single import rounds
from indexer.history import Width, pages
from indexer.node import RpcNode
from indexer.sources import FeedRounds, Sources
from indexer.store.cursor import Cursor, feeds_as_json, known_feeds, lock_cursor
from indexer.store.steps import store_block
from indexer.store.tables import begin_writing, store, write_logs

log = get_logger(__name__)

PHASES_BACK = 8
"""Number of phases whose aggregators are followed. Rounds of older phases no longer settle markets."""

_AGGREGATOR = hex_of(keccak(text="aggregator()")[:4])
_PHASE_ID = hex_of(keccak(text="phaseId()")[:4])
_PHASE_AGGREGATORS = hex_of(keccak(text="phaseAggregators(uint16)")[:4])


async def emitters_of(rpc: ChainProvider, proxies: Iterable[bytes]) -> dict[bytes, FeedRounds]:
    """Map every address that emits a feed's rounds to that feed and to the rounds' phase."""
    emitters: dict[bytes, FeedRounds] = {}
    for proxy in proxies:
        if await _view(rpc, proxy, _AGGREGATOR) is None:
            emitters[proxy] = FeedRounds(proxy)
            continue
        current = int.from_bytes(await _view(rpc, proxy, _PHASE_ID) or b"\1")
        for phase in range(max(1, current - PHASES_BACK + 1), current + 1):
            answer = await _view(rpc, proxy, _PHASE_AGGREGATORS + phase.to_bytes(32).hex())
            if answer is not None and any(answer):
                emitters[answer[-20:]] = FeedRounds(proxy, phase)
    return emitters


async def _view(rpc: ChainProvider, to: bytes, data: str) -> bytes | None:
    """Call a view that returns one word. Return None if the contract has no such view."""
    try:
        answer = await rpc.call("eth_call", [{"to": hex_of(to), "data": data}, "latest"], Data)
    except RpcError as error:
        if error.kind is RpcErrorKind.REVERTED:
            return None
        raise
    word = bytes_of(answer)
    return word if len(word) == 32 else None


async def backfill_feeds(pool: ConnectionPool, node: RpcNode, sources: Sources, cursor: Cursor) -> None:
    """Index the rounds of emitters that the tables have not followed from the start, up to the cursor. Each page is one
    transaction. An interrupted backfill starts again and replaces what it wrote."""
    async with pool.connection() as connection:
        followed = await known_feeds(connection, sources.chain_id)
    missing = [each for each, feed in sources.feeds.items() if followed.get(each) != feed]
    if not missing:
        return
    if cursor.number >= sources.start_block:
        log.info(
            "reading the past rounds of new feeds", action="index.new_feeds", chain=sources.name, feeds=len(missing)
        )
        added = replace(sources, contracts={}, token=None, feeds={each: sources.feeds[each] for each in missing})
        async with aclosing(pages(Fetcher(node, added), sources.start_block, cursor.number, Width())) as past:
            async for page in past:
                async with pool.connection() as connection:
                    await _write(connection, added, cursor, page)
    async with pool.connection() as connection, connection.transaction():
        await connection.execute(
            "UPDATE chain_cursor SET sources = jsonb_set(sources, '{feeds}', %s) WHERE chain_id = %s",
            (Jsonb(feeds_as_json({**followed, **sources.feeds})), sources.chain_id),
        )
        # Rows were added to blocks that the cursor has long passed.
        await notify(connection, CHAIN_INDEXED, IndexStep(sources.chain_id, cursor.number, everything=True))


async def _write(connection: Connection, added: Sources, cursor: Cursor, page: Page) -> None:
    span = (added.chain_id, page.first, page.end.number)
    async with connection.transaction():
        await begin_writing(connection, durable=False)
        await lock_cursor(connection, cursor)
        for block in page.blocks:
            await store_block(connection, added.chain_id, block)
        await connection.execute(
            "DELETE FROM chain_log WHERE chain_id = %s AND block_number BETWEEN %s AND %s AND address = ANY(%s)",
            (*span, list(added.feeds)),
        )
        for table in (oracle_round, oracle_measure):
            await connection.execute(
                f"DELETE FROM {table.name} o USING unnest(%s::bytea[]) AS k (feed) WHERE o.chain_id = %s"  # noqa: S608
                " AND o.block_number BETWEEN %s AND %s AND o.feed = k.feed AND NOT EXISTS (SELECT FROM chain_log l"
                " WHERE l.chain_id = o.chain_id AND l.block_number = o.block_number AND l.log_index = o.log_index)",
                ([each.proxy for each in added.feeds.values()], *span),
            )
        await write_logs(connection, added.chain_id, page.logs)
        for write in rounds(added.chain_id, page.logs, added.feeds):
            await store(connection, write)
