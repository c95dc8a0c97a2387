"""What belongs to no market: feeds, openers, roles, pauses, fee sweeps. Few logs, folded as plain rows."""

from __future__ import annotations

from typing import Any

from core.db.schema.index_agent import agent_fee_sweep, agent_role, agent_venue
from core.db.schema.index_stock import stock_fee_sweep, stock_feed, stock_opener, stock_venue
from core.events import agent, stock
from indexer.fold.rows import Removal, RowKind, Write
from indexer.logs import LogRecord

STOCK_VENUE = RowKind(stock_venue)
STOCK_FEED = RowKind(stock_feed)
STOCK_OPENER = RowKind(stock_opener)
STOCK_SWEEP = RowKind(stock_fee_sweep)
AGENT_VENUE = RowKind(agent_venue)
AGENT_ROLE = RowKind(agent_role)
AGENT_SWEEP = RowKind(agent_fee_sweep)

VENUE_KINDS = {
    stock.STOCK_VENUE: (STOCK_VENUE, STOCK_FEED, STOCK_OPENER, STOCK_SWEEP),
    agent.AGENT_VENUE: (AGENT_VENUE, AGENT_ROLE, AGENT_SWEEP),
}
"""Per entity the tables it owns; all of them are small and have a row for each key, so a fold is given them whole
except for the sweeps, which are only ever added to."""


class VenueFold:
    """One chain's venue rows, of both sides."""

    def __init__(self, chain_id: int) -> None:
        self._chain_id = chain_id
        self._rows: dict[tuple[str, Any], Any] = {}
        self._touched: dict[tuple[str, Any], RowKind] = {}
        self.changed: set[bytes] = set()

    def give(self, kind: RowKind, row: Any) -> None:
        self._rows[kind.table.name, tuple(getattr(row, name) for name in kind.key)] = row

    def apply(self, log: LogRecord) -> None:
        """The next log in chain order."""
        match e := log.event:
            case stock.FeedSet():
                row = self._row(STOCK_FEED, e.feed)
                row.stock_token, row.ticker = e.stock_token, e.ticker
                row.max_strike_age, row.max_final_age = e.max_strike_age, e.max_final_age
                row.allowed, row.set_tx = e.allowed, log.tx
            case stock.OpenerSet():
                row = self._row(STOCK_OPENER, e.opener)
                row.allowed, row.set_tx = e.allowed, log.tx
            case stock.EntriesPaused():
                self._stock_venue().entries_paused = e.paused
            case stock.FeesSwept():
                self._stock_venue().fees_swept += e.amount
                self._sweep(STOCK_SWEEP, log)
            case agent.RoleSet():
                row = self._row(AGENT_ROLE, e.role, e.account)
                row.allowed, row.set_tx = e.allowed, log.tx
            case agent.StakesPaused():
                self._agent_venue().stakes_paused = e.paused
            case agent.WalletFeesSwept():
                self._agent_venue().fees_swept += e.amount
                self._sweep(AGENT_SWEEP, log)
        assert log.entity is not None
        self.changed.add(log.entity)

    def writes(self) -> list[Write]:
        by_kind: dict[RowKind, list[Any]] = {}
        for key, kind in self._touched.items():
            by_kind.setdefault(kind, []).append(self._rows[key])
        return [kind.write(rows) for kind, rows in by_kind.items()]

    @staticmethod
    def removals(entity: bytes) -> list[Removal]:
        """Everything stored of a venue: its tables are emptied."""
        return [Removal(kind.table, (), []) for kind in VENUE_KINDS[entity]]

    def _stock_venue(self) -> Any:
        return self._row(STOCK_VENUE, self._chain_id, entries_paused=False, fees_swept=0)

    def _agent_venue(self) -> Any:
        return self._row(AGENT_VENUE, self._chain_id, stakes_paused=False, fees_swept=0)

    def _sweep(self, kind: RowKind, log: LogRecord) -> None:
        row = self._row(kind, log.block, log.index)
        row.amount, row.at, row.tx = log.event.amount, log.at, log.tx

    def _row(self, kind: RowKind, *key: Any, **initial: Any) -> Any:
        name = kind.table.name, key
        if name not in self._rows:
            self._rows[name] = kind.new(**dict(zip(kind.key, key, strict=True)), **initial)
        self._touched[name] = kind
        return self._rows[name]
