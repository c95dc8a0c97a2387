"""An audit in pages: each compares a bounded number of rows, in a snapshot of the tables and at that snapshot's block.

A page says where it ended; that is all the next one needs, so an audit holds a page in memory however long the history
is. The chain moves on between pages: a page's findings are about its own block, and rows that have to agree are
compared within one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from core.chain import ChainClient, Contract, RpcError
from core.contracts.events import Role
from core.db.engine import Connection
from core.hexadecimal import hex_of
from core.stock.vested import Moment
from indexer.audit.compare import Comparison
from indexer.fetch import Fetcher
from indexer.fold.rows import RowKind
from indexer.sources import Sources
from indexer.store.tables import rows_after

ROWS_AT_ONCE = 250

Place = list[Any]
"""Where a page ended, in the stage's own terms."""


@dataclass(frozen=True, slots=True)
class Snapshot:
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

    async def row(self, query: bytes, values: Any = None) -> tuple[Any, ...]:
        """Return the row of a query that always has one."""
        row = await self.connection.fetch_one(query, values)
        assert row is not None
        return row


@dataclass(frozen=True, slots=True)
class AuditStage:
    """One kind of comparison. `page` compares what follows a place (None: from the start), and returns where it ended,
    None when nothing is left. `of_views`: it reads the contracts' views, which is of use only where the rows are what
    their logs make."""

    name: str
    page: Callable[[Snapshot, Place | None], Awaitable[Place | None]]
    of_views: bool = False


def whole(name: str, compare: Callable[[Snapshot], Awaitable[None]], *, of_views: bool = False) -> AuditStage:
    """Make a stage of one page."""

    async def page(snapshot: Snapshot, _after: Place | None) -> None:
        await compare(snapshot)

    return AuditStage(name, page, of_views)


class View(NamedTuple):
    """The answer that a contract's view must give. `ours` is a mapping of its fields by name, a list of such mappings,
    or the whole answer."""

    what: str
    key: object
    role: Role
    function: str
    arguments: tuple[Any, ...]
    ours: Any


def of_rows(
    name: str, kind: RowKind, column: str, views: Callable[[Snapshot, list[Any]], Awaitable[list[View]]], role: Role
) -> AuditStage:
    """Return a stage that asks for the views of a table's rows, in the order of a column with an index, where the chain
    has the contract that they are of."""

    async def page(snapshot: Snapshot, after: Place | None) -> Place | None:
        if role not in snapshot.contracts:
            return None
        rows = await rows_after(snapshot.connection, kind, (column,), after, ROWS_AT_ONCE)
        if not rows:
            return None
        await compare_views(snapshot, await views(snapshot, rows))
        return [getattr(rows[-1], column)]

    return AuditStage(name, page, of_views=True)


async def compare_views(snapshot: Snapshot, views: Iterable[View]) -> None:
    """Ask for the views of those contracts that the chain has, and compare their answers."""
    asked = [each for each in views if each.role in snapshot.contracts]
    answers = await snapshot.read(
        *(snapshot.contracts[each.role].call(each.function, *each.arguments) for each in asked)
    )
    for view, answer in zip(asked, answers, strict=True):
        if isinstance(view.ours, Mapping):
            snapshot.comparison.fields(view.what, view.key, view.ours, answer)
        elif isinstance(view.ours, list):
            for at, ours in enumerate(view.ours):
                part = answer if isinstance(answer, RpcError) else answer[at]
                snapshot.comparison.fields(view.what, f"{view.key}/{at}", ours, part)
        else:
            snapshot.comparison.value(view.what, view.key, view.function, view.ours, answer)
