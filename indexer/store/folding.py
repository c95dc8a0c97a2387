"""Folds one run of logs into the projections: load the rows they touch, fold, store what changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table

from core.contracts.events import Role
from core.contracts.events.agent import AGENT_MARKET, AGENT_VENUE
from core.contracts.events.shared import PAUSER
from core.contracts.events.stock import STOCK_MARKET, STOCK_VENUE
from core.db.engine import Connection
from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from core.db.schema.index_stock import stock_market, stock_position, stock_vintage
from indexer.fold import payments, shared
from indexer.fold.agent import AgentFold
from indexer.fold.rows import AffectedRows, Removal
from indexer.fold.shared import FeedRounds
from indexer.fold.stock import StockFold
from indexer.fold.venues import APPEND_ONLY, VENUE_KINDS, VenueFold
from indexer.logs import LogRecord
from indexer.store.tables import all_rows, remove, rows_by_key, store

SLICE = 100
"""Logs folded before other tasks run."""


@dataclass(frozen=True, slots=True)
class Part:
    """The rows made from the logs of a contract and its helpers: those of a venue, and those of markets. `market` is
    the first byte of a market's entity, `tables` hold its rows, and `key` turns the entity into its key there."""

    role: Role
    name: str
    venue: bytes
    market: bytes = b""
    tables: tuple[Table, ...] = ()
    key: Callable[[bytes], Any] = lambda entity: entity[1:]


PARTS = (
    Part(
        Role.SETTLER,
        "stock",
        STOCK_VENUE,
        STOCK_MARKET,
        (stock_market, stock_vintage, stock_position),
        lambda entity: int.from_bytes(entity[1:]),
    ),
    Part(Role.WALLET, "agent", AGENT_VENUE, AGENT_MARKET, (agent_market, agent_outcome, agent_stake)),
    Part(Role.PAUSER, "pauser", PAUSER),
)


class Folding:
    """One run of logs on its way into the projections: call `load`, `run` and `store` in this order.

    `run` does not use the database, and yields to other tasks between slices, so that the raw logs can be written
    meanwhile.
    """

    def __init__(self, chain_id: int, feeds: Mapping[bytes, FeedRounds], logs: list[LogRecord]) -> None:
        self._chain_id = chain_id
        self._feeds = feeds
        self._stock: list[LogRecord] = []
        self._agent: list[LogRecord] = []
        self._venues: list[LogRecord] = []
        self._single: list[LogRecord] = []
        of_markets = {STOCK_MARKET: self._stock, AGENT_MARKET: self._agent}
        for log in logs:
            (self._single if log.entity is None else of_markets.get(log.entity[:1], self._venues)).append(log)
        self._stock_fold = StockFold()
        self._agent_fold = AgentFold()
        self._venue_fold = VenueFold(chain_id)
        self._authorizations: list[tuple[int, bytes, bytes]] = []

    async def load(self, connection: Connection) -> None:
        """Load the rows that the logs touch."""
        for fold, logs in ((self._stock_fold, self._stock), (self._agent_fold, self._agent)):
            for need in fold.needs(logs):
                for row in await rows_by_key(connection, need.kind, need.columns, need.values):
                    fold.add_row(need.kind, row)
        for entity in {log.entity for log in self._venues if log.entity is not None}:
            for kind in VENUE_KINDS[entity]:
                if kind not in APPEND_ONLY:
                    for row in await all_rows(connection, kind):
                        self._venue_fold.add_row(kind, row)
        keys = payments.authorization_keys(self._chain_id, self._single)
        for row in await rows_by_key(connection, payments.AUTHORIZATION, payments.AUTHORIZATION.key, keys):
            self._authorizations.append((row.chain_id, row.authorizer, row.nonce))

    async def run(self) -> None:
        """Apply every log. Contradiction if one does not follow from the earlier ones."""
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

    def affected_rows(self) -> dict[Role, AffectedRows]:
        """Return the rows whose share of the sums may change, by the contract that holds the money."""
        return {Role.SETTLER: self._stock_fold.affected_rows(), Role.WALLET: self._agent_fold.affected_rows()}

    async def store(self, connection: Connection) -> None:
        """Write the changed rows."""
        writes = self._stock_fold.writes() + self._agent_fold.writes() + self._venue_fold.writes()
        writes += shared.rounds(self._chain_id, self._single, self._feeds)
        writes.append(payments.authorizations(self._chain_id, self._single, self._authorizations))
        for write in writes:
            await store(connection, write)


async def fold_logs(
    connection: Connection, chain_id: int, feeds: Mapping[bytes, FeedRounds], logs: list[LogRecord]
) -> None:
    """Apply logs to the stored projections, inside the caller's transaction.

    The logs are in chain order and directly follow those already folded of the same entities.
    """
    folding = Folding(chain_id, feeds, logs)
    await folding.load(connection)
    await folding.run()
    await folding.store(connection)


def affected_markets(entities: Iterable[bytes]) -> dict[Role, AffectedRows]:
    """Return the markets among entities, with all their positions or stakes, by the contract that holds the money."""
    keys = {part.role: [part.key(each) for each in entities if each[:1] == part.market] for part in PARTS}
    return {role: AffectedRows(whole=some, markets=some) for role, some in keys.items() if some}


async def delete_entities(connection: Connection, chain_id: int, entities: list[bytes]) -> None:
    """Delete all projection rows of some of a chain's entities."""
    markets = affected_markets(entities)
    for part in PARTS:
        if part.role in markets:
            keys = [(each,) for each in markets[part.role].whole]
            for table in part.tables:
                await remove(connection, Removal(table, ("market_id",), keys))
        if part.venue in entities:
            for removal in VenueFold.removals(part.venue, chain_id):
                await remove(connection, removal)
