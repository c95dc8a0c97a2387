"""One audit of one chain: a snapshot of the tables against views at the snapshot's block."""

from __future__ import annotations

import psycopg
from psycopg.types.json import Jsonb

from core.chain import ChainClient, Contract
from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events import Role
from core.db.engine import Pool
from core.stock.vested import Moment
from indexer.audit.agent import audit_agent
from indexer.audit.compare import Comparison
from indexer.audit.shared import audit_shared
from indexer.audit.stock import audit_stock
from indexer.errors import NodeFault
from indexer.sources import Sources
from indexer.store.tables import Connection

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


async def audit(pool: Pool, client: ChainClient, sources: Sources) -> tuple[int, Comparison]:
    """The block compared at and what was found; the outcome is also kept in `chain_audit`."""
    async with pool.connection() as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        try:
            async with connection.transaction():
                number, digest, comparison = await compare(connection, client, sources)
        finally:
            await connection.set_isolation_level(None)
        await connection.execute(
            "INSERT INTO chain_audit (chain_id, block_number, block_hash, compared, mismatches, detail)"
            " VALUES (%s, %s, %s, %s, %s, %s)",
            (sources.chain_id, number, digest, comparison.compared, comparison.mismatches, Jsonb(comparison.detail)),
        )
    return number, comparison


async def compare(connection: Connection, client: ChainClient, sources: Sources) -> tuple[int, bytes, Comparison]:
    """The tables as the caller's transaction sees them against the chain at their cursor's block, which is named."""
    comparison = Comparison()
    await connection.execute("SET LOCAL statement_timeout = 0")
    number, digest, now = await _moment(connection, sources)
    block = "0x" + digest.hex()
    await _check_node(client, number, block)
    addresses = dict(sources.contracts)
    if sources.token is not None:
        addresses[Role.TOKEN] = sources.token
    contracts = {
        role: Contract("0x" + addresses[role].hex(), abi(name)) for role, name in ABIS.items() if role in addresses
    }
    if Role.SETTLER in contracts:
        await audit_stock(connection, client, contracts, sources, block, now, comparison)
    if Role.WALLET in contracts:
        await audit_agent(connection, client, contracts, sources, block, comparison)
    await audit_shared(connection, client, contracts, sources, block, comparison)
    return number, digest, comparison


async def _moment(connection: Connection, sources: Sources) -> tuple[int, bytes, Moment]:
    row = await (
        await connection.execute(
            "SELECT number, hash, l1_block_number, block_time FROM chain_cursor WHERE chain_id = %s",
            (sources.chain_id,),
        )
    ).fetchone()
    if row is None or row[1] is None:
        raise NodeFault(f"Chain {sources.chain_id} has not been indexed yet; there is nothing to audit.")
    number, digest, l1_number, time = row
    assert isinstance(number, int)
    assert isinstance(digest, bytes)
    assert isinstance(l1_number, int)
    assert isinstance(time, int)
    return number, digest, Moment(l1_number, time)


async def _check_node(client: ChainClient, number: int, block: str) -> None:
    """The node must have the very block the tables are at."""
    try:
        header = await client.block(block)
    except RpcError as error:
        if error.kind is not RpcErrorKind.BLOCK_NOT_FOUND:
            raise
        header = None
    if header is None:
        raise NodeFault(f"The node does not have block {number} as indexed ({block}); let the indexer catch up first.")
