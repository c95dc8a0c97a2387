"""One audit of one chain: page after page, each a snapshot of the tables against views at the snapshot's block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from psycopg.types.json import Jsonb

from core.chain import ChainClient, Contract
from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events import Role
from core.db.engine import Connection, ConnectionPool
from core.db.leader import lock_key
from core.hexadecimal import hex_of
from core.stock.vested import Moment
from indexer.audit import chain, feeds, folded, views
from indexer.audit.compare import Comparison
from indexer.audit.pages import AuditStage, Place, Snapshot
from indexer.errors import AuditRuns, NodeFault
from indexer.fetch import Fetcher
from indexer.node import RpcNode
from indexer.sources import Sources
from indexer.store.cursor import known_feeds

ABIS = {
    Role.SETTLER: "VestedMarkets",
    Role.RESOLVER: "RoundResolver",
    Role.LISTER: "MarketLister",
    Role.WALLET: "SettlementWallet",
    Role.AGENT_RESOLVER: "FeedResolver",
    Role.AGENT_LISTER: "AgentLister",
    Role.PAUSER: "Pauser",
    Role.TOKEN: "IERC3009",
}
PAGE_TRIES = 3
"""A page whose block a reorganization took is compared again, at another."""
RETRY_SECONDS = 1.0

_KEEP = """
INSERT INTO chain_audit (chain_id, began_at, first_block, block_number, block_hash, compared, mismatches, detail)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
"""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A finished audit: between which blocks its pages lay, and what they found."""

    first_block: int
    last_block: int
    comparison: Comparison


def stages_of(sources: Sources) -> list[AuditStage]:
    """Return the stages in the order they are gone through."""
    roles = list(sources.contracts)
    return chain.stages() + folded.stages(roles) + views.stages() + feeds.stages()


async def audit(
    pool: ConnectionPool,
    client: ChainClient,
    sources: Sources,
    *,
    progress: Callable[[str, Comparison], None] = lambda _stage, _so_far: None,
) -> AuditReport:
    """Compare a chain stage by stage, calling `progress` after each page; record the result in `chain_audit`."""
    began_at, found, first_block = datetime.now(UTC), Comparison(), None
    async with _audit_lock(pool, sources) as connection:
        for stage in stages_of(sources):
            place, ended = None, False
            while not ended:
                snapshot, place = await _page(connection, client, sources, stage, place, found)
                found, ended = snapshot.comparison, place is None
                first_block = snapshot.number if first_block is None else first_block
                progress(stage.name, found)
        assert first_block is not None
        report = AuditReport(first_block, snapshot.number, found)
        counted = (found.compared, found.mismatches, Jsonb(found.detail))
        values = (sources.chain_id, began_at, first_block, snapshot.number, snapshot.digest, *counted)
        await connection.execute(_KEEP, values)
        return report


async def _page(
    connection: Connection,
    client: ChainClient,
    sources: Sources,
    stage: AuditStage,
    after: Place | None,
    found: Comparison,
) -> tuple[Snapshot, Place | None]:
    """Compare a page in its own snapshot; return what it saw, with what was found so far, and where it ended."""
    tries = 0
    while True:
        try:
            async with connection.transaction():
                await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                snapshot = await take_snapshot(connection, client, sources, replace(found, detail=[*found.detail]))
                return snapshot, await compare_page(stage, snapshot, after)
        except (NodeFault, RpcError):
            tries += 1
            if tries == PAGE_TRIES:
                raise
            await asyncio.sleep(RETRY_SECONDS)


async def compare_page(stage: AuditStage, snapshot: Snapshot, after: Place | None) -> Place | None:
    """Compare a page, but skip views after a mismatch: rows that differ from their logs have to be rebuilt first."""
    if stage.of_views and snapshot.comparison.mismatches:
        return None
    return await stage.page(snapshot, after)


@asynccontextmanager
async def _audit_lock(pool: ConnectionPool, sources: Sources) -> AsyncIterator[Connection]:
    """Yield a connection on which only a page opens a transaction. AuditRuns while another audit of the chain runs: two
    would ask the node for everything twice."""
    key = (lock_key(f"audit:{sources.name}"),)
    async with pool.connection() as connection:
        before = connection.autocommit
        await connection.set_autocommit(True)
        try:
            if not await connection.fetch_value("SELECT pg_try_advisory_lock(%s)", key):
                raise AuditRuns(f"Another audit of the {sources.name} chain is running on this database.")
            try:
                yield connection
            finally:
                if not connection.closed:
                    await connection.execute("SELECT pg_advisory_unlock(%s)", key)
        finally:
            if not connection.closed:
                await connection.set_autocommit(before)


async def take_snapshot(
    connection: Connection, client: ChainClient, sources: Sources, comparison: Comparison
) -> Snapshot:
    """Return the tables as the caller's transaction sees them, and the chain at their cursor's block."""
    await connection.execute("SET LOCAL statement_timeout = 0")
    number, digest, now = await _moment(connection, sources)
    comparison.block = number
    sources = replace(sources, feeds=await known_feeds(connection, sources.chain_id))
    fetcher = Fetcher(RpcNode(client.provider), sources)
    addresses = dict(sources.contracts)
    if sources.token is not None:
        addresses[Role.TOKEN] = sources.token
    contracts = {role: Contract(hex_of(addresses[role]), abi(name)) for role, name in ABIS.items() if role in addresses}
    snapshot = Snapshot(connection, client, fetcher, sources, contracts, number, digest, now, comparison)
    await _check_node(client, number, snapshot.block)
    return snapshot


async def _moment(connection: Connection, sources: Sources) -> tuple[int, bytes, Moment]:
    row = await connection.fetch_one(
        "SELECT number, hash, l1_block_number, block_time FROM chain_cursor WHERE chain_id = %s", (sources.chain_id,)
    )
    if row is None or row[1] is None:
        raise NodeFault(f"Chain {sources.chain_id} has not been indexed yet; there is nothing to audit.")
    number, digest, l1_number, time = row
    return number, digest, Moment(l1_number, time)


async def _check_node(client: ChainClient, number: int, block: str) -> None:
    """Require the node to have the very block the tables are at."""
    try:
        header = await client.block(block)
    except RpcError as error:
        if error.kind is not RpcErrorKind.BLOCK_NOT_FOUND:
            raise
        header = None
    if header is None:
        raise NodeFault(f"The node does not have block {number} as indexed ({block}); let the indexer catch up first.")
