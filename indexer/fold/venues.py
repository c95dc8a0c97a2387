"""Rows that belong to no market: feeds, bounds, openers, roles, guardians, pauses and fee sweeps."""

from __future__ import annotations

from typing import Any

from eth_utils.crypto import keccak

from core.contracts.events import agent, shared, stock
from core.db.schema.index_agent import agent_fee_sweep, agent_feed, agent_role, agent_venue
from core.db.schema.index_shared import pauser_act, pauser_guardian
from core.db.schema.index_stock import stock_fee_sweep, stock_feed, stock_opener, stock_venue
from indexer.errors import Contradiction
from indexer.fold.rows import LogRecord, RowKind, Write, copy_fields

STOCK_VENUE = RowKind(stock_venue)
STOCK_FEED = RowKind(stock_feed)
STOCK_OPENER = RowKind(stock_opener)
STOCK_SWEEP = RowKind(stock_fee_sweep)
AGENT_VENUE = RowKind(agent_venue)
AGENT_ROLE = RowKind(agent_role)
AGENT_FEED = RowKind(agent_feed)
AGENT_SWEEP = RowKind(agent_fee_sweep)
GUARDIAN = RowKind(pauser_guardian)
PAUSER_ACT = RowKind(pauser_act)

LISTER = keccak(text="LISTER")

VENUE_KINDS = {
    stock.STOCK_VENUE: (STOCK_VENUE, STOCK_FEED, STOCK_OPENER, STOCK_SWEEP),
    agent.AGENT_VENUE: (AGENT_VENUE, AGENT_ROLE, AGENT_FEED, AGENT_SWEEP),
    shared.PAUSER: (GUARDIAN, PAUSER_ACT),
}
"""Each entity's tables. All are small, so a fold loads them completely, except those that only grow."""

APPEND_ONLY = (STOCK_SWEEP, AGENT_SWEEP, PAUSER_ACT)


class VenueFold:
    def __init__(self, chain_id: int) -> None:
        self._chain_id = chain_id
        self._rows: dict[tuple[str, Any], Any] = {}
        self._touched: dict[tuple[str, Any], RowKind] = {}

    def add_row(self, kind: RowKind, row: Any) -> None:
        self._rows[kind.table.name, tuple(getattr(row, name) for name in kind.key)] = row

    def apply(self, log: LogRecord) -> None:
        match e := log.event:
            case stock.FeedSet():
                copy_fields(self._row(STOCK_FEED, e.feed), e)
            case stock.OpenerSet():
                copy_fields(self._row(STOCK_OPENER, e.opener), e)
            case stock.EntriesPaused():
                self._stock_venue().entries_paused = e.paused
            case stock.FeesSwept():
                self._stock_venue().fees_swept += e.amount
                self._sweep(STOCK_SWEEP, log)
            case agent.RoleSet():
                copy_fields(self._row(AGENT_ROLE, e.role, e.account), e)
            case agent.StakesPaused():
                self._agent_venue().stakes_paused = e.paused
            case agent.WalletFeesSwept():
                self._agent_venue().fees_swept += e.amount
                self._sweep(AGENT_SWEEP, log)
            case agent.ListerSet():
                copy_fields(self._row(AGENT_ROLE, LISTER, e.account), e)
            case agent.BoundsSet():
                copy_fields(self._agent_venue(), e)
            case agent.AgentFeedSet():
                copy_fields(self._row(AGENT_FEED, e.feed, condemned=False), e)
            case agent.FeedCondemned():
                self._condemn(log, e)
            case shared.GuardianSet():
                copy_fields(self._row(GUARDIAN, self._chain_id, e.account), e)
            case shared.PausedBy() | shared.ResumedBy():
                row = self._row(PAUSER_ACT, self._chain_id, log.block, log.index)
                row.account, row.paused = e.account, isinstance(e, shared.PausedBy)
                row.at, row.tx = log.at, log.tx

    def take_writes(self) -> list[Write]:
        by_kind: dict[RowKind, list[Any]] = {}
        for key, kind in self._touched.items():
            by_kind.setdefault(kind, []).append(self._rows[key])
        self._touched.clear()
        return [kind.write(rows) for kind, rows in by_kind.items()]

    def _condemn(self, log: LogRecord, e: agent.FeedCondemned) -> None:
        row = self._rows.get((AGENT_FEED.table.name, (e.feed,)))
        if row is None:
            raise Contradiction(f"In block {log.block}, log {log.index}, an unknown feed was condemned.")
        row = self._row(AGENT_FEED, e.feed)
        row.condemned, row.allowed = True, False

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
