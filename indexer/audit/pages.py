"""An audit in pages: each compares a bounded number of rows, in a snapshot of the tables and at that snapshot's block.

A page says where it ended; that is all the next one needs, so an audit goes on wherever it was stopped, and holds a
page in memory however long the history is. The chain moves on between pages: what a page finds is of its own block,
and whatever has to agree across rows is compared within one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.chain import ChainClient, Contract
from core.contracts.events import Role
from core.db.engine import Connection
from core.hexadecimal import hex_of
from core.stock.vested import Moment
from indexer.audit.compare import Comparison
from indexer.fetch import Fetcher
from indexer.sources import Sources

Place = list[Any]
"""Where a page ended, in the stage's own terms, as JSON keeps it."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a page compares: the tables as its transaction sees them, and the chain at their cursor's block."""

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
        """Its hash, as a node is asked by."""
        return hex_of(self.digest)

    async def read(self, *calls: Any) -> list[Any]:
        return await self.client.read_many(calls, self.block)

    async def rows(self, query: bytes, values: Any = None) -> list[tuple[Any, ...]]:
        return await (await self.connection.execute(query, values)).fetchall()

    async def row(self, query: bytes, values: Any = None) -> tuple[Any, ...]:
        """Of a query that always has one."""
        row = await (await self.connection.execute(query, values)).fetchone()
        assert row is not None
        return row


@dataclass(frozen=True, slots=True)
class AuditStage:
    """One kind of comparison. `page` compares what follows a place (None: from the start), and returns where it ended,
    None when nothing is left. `of_views`: it reads the contracts' views, which is of use only where the rows are what
    their logs make."""

    name: str
    page: Callable[[Scene, Place | None], Awaitable[Place | None]]
    of_views: bool = False


def whole(name: str, compare: Callable[[Scene], Awaitable[None]], *, of_views: bool = False) -> AuditStage:
    """A stage that is one page."""

    async def page(scene: Scene, _after: Place | None) -> None:
        await compare(scene)

    return AuditStage(name, page, of_views)
