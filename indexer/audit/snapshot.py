"""The parts of an audit. A stage compares a page of rows at a time, in a snapshot of the tables and at its block. The
chain moves on between pages, so rows that have to agree with each other are compared within one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from core.chain import ChainClient, Contract
from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events import Role
from core.db.engine import Connection
from core.hexadecimal import hex_of
from core.stock.vested import Moment
from indexer.errors import NodeFault
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

MAX_DETAILS = 100  # mismatches described in full; the rest are only counted

Place = list[Any]  # where a page ended; each stage has its own form


@dataclass(slots=True)
class Comparison:
    """An audit's findings. `compared` counts single values, not rows; `block` is the block being compared."""

    compared: int = 0
    mismatches: int = 0
    detail: list[dict[str, str]] = field(default_factory=list)
    block: int = 0

    def fields(self, what: str, key: object, ours: Mapping[str, Any], chain: Mapping[str, Any] | RpcError) -> None:
        """Compare every field of `ours` with the chain's. A view that reverted is one mismatch; raise other errors."""
        if isinstance(chain, RpcError):
            if chain.kind is not RpcErrorKind.REVERTED:
                raise chain
            self.compared += 1
            self._differs(what, key, "view", "a row", chain.message)
            return
        for name, value in ours.items():
            self.compared += 1
            if chain[name] != value:
                self._differs(what, key, name, value, chain[name])

    def value(self, what: str, key: object, name: str, ours: Any, chain: Any) -> None:
        self.fields(what, key, {name: ours}, chain if isinstance(chain, RpcError) else {name: chain})

    def keys(self, what: str, ours: Iterable[Any], chain: Iterable[Any]) -> None:
        """Compare the keys of existing rows (`ours`) with those of the rows that should exist (`chain`)."""
        ours_there, chain_there = set(ours), set(chain)
        self.compared += len(ours_there | chain_there)
        for key in sorted(ours_there ^ chain_there, key=_text):
            present = key in ours_there
            self._differs(what, key, "row", "there" if present else "missing", "there" if not present else "missing")

    def _differs(self, what: str, key: object, name: str, ours: Any, chain: Any) -> None:
        self.mismatches += 1
        if len(self.detail) < MAX_DETAILS:
            mismatch = {"what": what, "key": key, "field": name, "ours": ours, "chain": chain, "block": self.block}
            self.detail.append({word: _text(value) for word, value in mismatch.items()})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tables as a page's transaction sees them, and the chain at their cursor's block."""

    connection: Connection
    client: ChainClient
    fetcher: Fetcher
    sources: Sources  # with the feeds whose rounds are in the tables
    contracts: Mapping[Role, Contract]
    number: int
    digest: bytes
    now: Moment  # what contracts see in that block
    comparison: Comparison

    @property
    def block(self) -> str:
        return hex_of(self.digest)

    async def read(self, *calls: Any) -> list[Any]:
        return await self.client.read_many(calls, self.block)

    async def row(self, query: bytes, values: Any = None) -> tuple[Any, ...]:
        """Return the row of a query that always has one."""
        row = await self.connection.fetch_one(query, values)
        assert row is not None
        return row


@dataclass(frozen=True, slots=True)
class AuditStage:
    """One kind of comparison. `page` compares the rows after a place (None is the start) and returns the place where it
    ended, or None if nothing is left. `of_views` is whether it reads contracts' views."""

    name: str
    page: Callable[[Snapshot, Place | None], Awaitable[Place | None]]
    of_views: bool = False


async def take_snapshot(
    connection: Connection, client: ChainClient, sources: Sources, comparison: Comparison
) -> Snapshot:
    """Return a snapshot for the caller's transaction. Raise NodeFault if the node does not have its block."""
    await connection.execute("SET LOCAL statement_timeout = 0")
    row = await connection.fetch_one(
        "SELECT number, hash, l1_block_number, block_time FROM chain_cursor WHERE chain_id = %s", (sources.chain_id,)
    )
    if row is None or row[1] is None:
        raise NodeFault(f"Chain {sources.chain_id} has not been indexed yet, so there is nothing to audit.")
    number, digest, l1_number, time = row
    comparison.block = number
    sources = replace(sources, feeds=await known_feeds(connection, sources.chain_id))
    addresses = {**sources.contracts} | ({} if sources.token is None else {Role.TOKEN: sources.token})
    contracts = {role: Contract(hex_of(addresses[role]), abi(name)) for role, name in ABIS.items() if role in addresses}
    fetcher, now = Fetcher(RpcNode(client.provider), sources), Moment(l1_number, time)
    snapshot = Snapshot(connection, client, fetcher, sources, contracts, number, digest, now, comparison)
    try:
        header = await client.block(snapshot.block)
    except RpcError as error:
        if error.kind is not RpcErrorKind.BLOCK_NOT_FOUND:
            raise
        header = None
    if header is None:
        raise NodeFault(
            f"The node does not have the indexed block {number} ({snapshot.block}). Let the indexer catch up first."
        )
    return snapshot


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return "/".join(_text(each) for each in value)
    return hex_of(value) if isinstance(value, bytes) else str(value)
