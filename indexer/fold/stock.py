"""Stock markets, vintages and positions, folded from the logs of the settler, the resolver and the lister.

`core.stock.vested_fold` computes what each event does to a book, and this module updates the rows. Entries are the
exception: this module adds them to the row of the pending vintage directly, because they are numerous and change
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from core.contracts.events import stock as ev
from core.contracts.events.stock import STOCK_MARKET
from core.db.schema.index_stock import stock_market, stock_position, stock_vintage
from core.stock import vested_fold as mirror
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import DOWN, SEED, UP, Position, VestedMarket, Vintage, seed_vintage
from indexer.errors import Contradiction
from indexer.fold.rows import AffectedRows, LogRecord, Need, RowKind, Write, copy_fields, fields_of

MARKET = RowKind(stock_market)
VINTAGE = RowKind(stock_vintage)
POSITION = RowKind(stock_position)
COUNTERS = ("paid_principal", "paid", "fees", "refused", "refunded", "residue_claimed", "positions", "vintages")


class _MarketState:
    """A market's row and its books. `_value` holds the books as a `VestedMarket` while consecutive events need them;
    the books are then newer than the row. Payouts are counted on the row only, because they are numerous and change no
    book."""

    __slots__ = ("_value", "_written", "row")

    def __init__(self, row: Any) -> None:
        self.row = row
        self._value: VestedMarket | None = None
        self._written = True

    def value(self) -> VestedMarket:
        if self._value is None:
            self._value = market_of(self.row)
        return self._value

    def become(self, value: VestedMarket) -> None:
        self._value = value
        self._written = False

    def current_row(self) -> Any:
        """Return the row after bringing it up to date. The caller may change the row."""
        row, value = self.row, self._value
        if value is not None:
            if not self._written:
                row.principal_up, row.acc_up = value.books[UP].principal, value.books[UP].acc
                row.principal_down, row.acc_down = value.books[DOWN].principal, value.books[DOWN].acc
                pending = value.vintage
                row.pending_vintage = None if pending is None else pending.number
                row.pending_up, row.pending_down = (0, 0) if pending is None else pending.offered
                row.winner, row.voided = value.winner, value.voided
                self._written = True
            self._value = None
        return row


class StockFold:
    """Folds runs of logs into stock markets. Load the rows that `needs` yields before calling `apply`."""

    def __init__(self) -> None:
        self._markets: dict[int, _MarketState] = {}
        self._vintages: dict[tuple[int, int], Any] = {}
        self._positions: dict[int, Any] = {}
        # Entered positions that were not touched again, as column values: since the last write, and before.
        self._entries: dict[int, tuple[Any, ...]] = {}
        self._written_entries: dict[int, tuple[Any, ...]] = {}
        self._matched: dict[tuple[int, int], Vintage] = {}
        self._touched_markets: set[int] = set()
        self._acted_on: set[int] = set()  # markets with logs other than entries, which change only positions' sums
        self._touched_vintages: set[tuple[int, int]] = set()
        self._touched_positions: set[int] = set()
        self._affected_markets: set[int] = set()
        self._handlers: dict[type, Callable[[LogRecord, Any], None]] = {
            ev.Entered: self._entered,
            ev.VintageFinalized: self._vintage_finalized,
            ev.Delivered: self._delivered,
            ev.MarketCreated: self._market_created,
            ev.Resolved: self._closed,
            ev.Voided: self._closed,
            ev.DeliveryFailed: self._delivery_failed,
            ev.PositionTransferred: self._position_transferred,
            ev.ResidueClaimed: self._residue_claimed,
            ev.SpecRegistered: self._spec_registered,
            ev.MarketOpened: self._market_opened,
            ev.Settled: self._settled,
        }

    # ---------------------------------------------------------------- loading

    def needs(self, logs: Iterable[LogRecord]) -> Iterator[Need]:
        """Yield the rows to load. The caller adds the rows of each `Need` before asking for the next `Need`."""
        seen = {log.entity for log in logs if log.entity is not None and log.entity[:1] == STOCK_MARKET}
        markets = {int.from_bytes(entity[1:]) for entity in seen}
        yield Need(MARKET, ("market_id",), [(each,) for each in markets if each not in self._markets])
        kinds = {ev.Delivered, ev.DeliveryFailed, ev.PositionTransferred}
        ids = {log.event.position_id for log in logs if type(log.event) in kinds}
        yield Need(POSITION, ("position_id",), [(each,) for each in ids if not self._is_entered(each)])
        vintages = {(row.market_id, row.vintage) for row in self._positions.values()}
        yield Need(VINTAGE, ("market_id", "vintage"), [each for each in vintages if each not in self._vintages])

    def add_row(self, kind: RowKind, row: Any) -> None:
        if kind is VINTAGE:
            self._vintages.setdefault((row.market_id, row.vintage), row)
        elif kind is POSITION:
            self._positions[row.position_id] = row
        else:
            self._markets[row.market_id] = _MarketState(row)
            if row.pending_vintage is not None:
                # A pending vintage's row always agrees with its market's.
                self._vintages[row.market_id, row.pending_vintage] = VINTAGE.new(
                    row.market_id, row.pending_vintage, row.pending_up, row.pending_down, stored=True
                )

    # ---------------------------------------------------------------- applying

    def apply(self, log: LogRecord) -> None:
        """Apply the next log in chain order. Raise Contradiction if the log does not follow from the earlier ones."""
        try:
            self._handlers[type(log.event)](log, log.event)
        except mirror.Diverged as problem:
            raise Contradiction(f"In block {log.block}, log {log.index}: {problem}.") from None

    def _market_created(self, log: LogRecord, e: ev.MarketCreated) -> None:
        if e.market_id in self._markets:
            raise mirror.Diverged(f"market {e.market_id} was created twice")
        row = MARKET.new(
            **fields_of(e),
            pending_up=0,
            pending_down=0,
            **dict.fromkeys(COUNTERS, 0),
            created_block=log.block,
            created_at=log.at,
            created_tx=log.tx,
        )
        state = self._markets[e.market_id] = _MarketState(row)
        state.become(mirror.market_created(e))
        seed = VINTAGE.new(e.market_id, SEED)
        self._write_vintage(seed, seed_vintage(e.seed_per_leg))
        self._touch(log, state)

    def _entered(self, log: LogRecord, e: ev.Entered) -> None:
        market_id, outcome, offered, vintage = e.market_id, e.outcome, e.offered, e.vintage
        state = self._state(market_id)
        row = state.current_row()
        mirror.check_entry(e, row.seed_per_leg, row.pending_vintage, settled=row.winner is not None or row.voided)
        position_id = e.position_id
        if self._is_entered(position_id):
            raise mirror.Diverged(f"position {position_id} was entered twice")
        before = 0
        if vintage != SEED:
            if row.pending_vintage != vintage:
                row.pending_vintage = vintage
                row.vintages += 1
                self._vintages[market_id, vintage] = VINTAGE.new(market_id, vintage)
            if outcome:
                before = row.pending_down
                row.pending_down = before + offered
            else:
                before = row.pending_up
                row.pending_up = before + offered
            self._touched_vintages.add((market_id, vintage))
        # The columns of stock_position in their order.
        self._entries[position_id] = (
            position_id,
            market_id,
            row.positions,
            e.owner,
            e.owner,  # entered_by
            outcome,
            offered,
            vintage,
            before,
            False,  # claimed
            False,  # refunded
            0,  # payout
            0,  # fee
            0,  # refund
            log.block,
            log.at,
            log.tx,
            None,  # payout_at
            None,  # payout_tx
            0,  # failed_deliveries
            None,  # failed_tx
        )
        row.positions += 1
        row.updated_block = log.block
        self._touched_markets.add(market_id)

    def _vintage_finalized(self, log: LogRecord, e: ev.VintageFinalized) -> None:
        state = self._state(e.market_id)
        after, vintage = mirror.match_vintage(state.value(), e)
        state.become(after)
        row = self._vintages[e.market_id, e.vintage]
        self._write_vintage(row, vintage)
        assert vintage.accepted is not None
        state.row.refused += sum(vintage.offered) - sum(vintage.accepted)
        self._touch(log, state)

    def _closed(self, log: LogRecord, e: ev.Resolved | ev.Voided) -> None:
        state = self._state(e.market_id)
        state.become(mirror.close_market(state.value(), e))
        row = state.row
        row.closed_block, row.closed_at, row.closed_tx = log.block, log.at, log.tx
        self._affected_markets.add(e.market_id)
        self._touch(log, state)

    def _delivered(self, log: LogRecord, e: ev.Delivered) -> None:
        row = self._position(e.position_id)
        state = self._state(row.market_id)
        due = mirror.check_delivery(state.value(), position_of(row), self._vintage_of(row), e)
        market = state.row
        if e.payout:
            row.claimed, row.payout, row.fee = True, e.payout, e.fee
            row.payout_at, row.payout_tx = log.at, log.tx
            market.paid_principal += row.offered - due.refund
            market.paid += e.payout
            market.fees += e.fee
        if e.refund:
            row.refunded, row.refund = True, e.refund
            market.refunded += e.refund
        self._touch(log, state)

    def _delivery_failed(self, log: LogRecord, e: ev.DeliveryFailed) -> None:
        row = self._position(e.position_id)
        row.failed_deliveries += 1
        row.failed_tx = log.tx
        self._touch(log, self._state(row.market_id))

    def _position_transferred(self, log: LogRecord, e: ev.PositionTransferred) -> None:
        row = self._position(e.position_id)
        row.owner = mirror.new_owner(row.owner, e)
        self._touch(log, self._state(row.market_id))

    def _residue_claimed(self, log: LogRecord, e: ev.ResidueClaimed) -> None:
        state = self._state(e.market_id)
        row = state.current_row()
        mirror.residue_claimed(market_of(row), e)
        row.residue_claimed, row.residue_tx = e.amount, log.tx
        self._touch(log, state)

    # Logs of the lister and the resolver change no book.

    def _spec_registered(self, log: LogRecord, e: ev.SpecRegistered) -> None:
        state = self._state(e.market_id)
        copy_fields(state.row, e)
        self._affected_markets.add(e.market_id)
        self._touch(log, state)

    def _market_opened(self, log: LogRecord, e: ev.MarketOpened) -> None:
        state = self._state(e.market_id)
        copy_fields(state.row, e, "spec_id", "feed", "ticker", "family", "strike_time", "final_time")
        self._affected_markets.add(e.market_id)
        self._touch(log, state)

    def _settled(self, log: LogRecord, e: ev.Settled) -> None:
        state = self._state(e.market_id)
        row = state.row
        copy_fields(row, e, "outcome", "reason", "strike_round", "strike_answer", "final_round", "final_answer")
        row.strike_round_at, row.final_round_at = e.strike_at, e.final_at
        self._touch(log, state)

    # ---------------------------------------------------------------- results

    def market(self, market_id: int) -> VestedMarket:
        return market_of(self._state(market_id).current_row())

    def position(self, position_id: int) -> tuple[Position, Vintage]:
        row = self._position(position_id)
        return position_of(row), self._vintage_of(row)

    def take_writes(self) -> list[Write]:
        for market_id, number in self._touched_vintages:
            row = self._vintages[market_id, number]
            market = self._markets[market_id].current_row()
            if market.pending_vintage == number:
                row.offered_up, row.offered_down = market.pending_up, market.pending_down
        writes = [
            MARKET.write(self._markets[each].current_row() for each in self._touched_markets),
            VINTAGE.write(self._vintages[each] for each in self._touched_vintages),
            POSITION.write((self._positions[each] for each in self._touched_positions), self._entries.values()),
        ]
        self._written_entries.update(self._entries)
        self._entries.clear()
        for touched in (self._touched_markets, self._touched_vintages, self._touched_positions):
            touched.clear()
        self._acted_on.clear()
        self._affected_markets.clear()
        return writes

    def affected_rows(self) -> AffectedRows:
        """Return the rows that may affect the sums: markets with logs other than entries, all positions of listed or
        closed markets and of matched vintages, and each position that was opened, paid or transferred."""
        matched = [key for key in self._touched_vintages if self._vintages[key].accepted_up is not None]
        return AffectedRows(
            ids=list(self._touched_positions),
            added=list(self._entries),
            vintages=matched,
            whole=list(self._affected_markets),
            markets=list(self._acted_on),
        )

    # ---------------------------------------------------------------- helpers

    def _state(self, market_id: int) -> _MarketState:
        state = self._markets.get(market_id)
        if state is None:
            raise mirror.Diverged(f"market {market_id} was never created")
        return state

    def _is_entered(self, position_id: int) -> bool:
        return position_id in self._entries or position_id in self._written_entries or position_id in self._positions

    def _position(self, position_id: int) -> Any:
        """Mark a position as touched, and return its row."""
        self._touched_positions.add(position_id)
        row = self._positions.get(position_id)
        if row is None:
            entry, stored = self._entries.pop(position_id, None), False
            if entry is None:
                entry, stored = self._written_entries.pop(position_id, None), True
            if entry is None:
                raise mirror.Diverged(f"position {position_id} was never entered")
            row = self._positions[position_id] = POSITION.new(*entry, stored=stored)
        return row

    def _vintage_of(self, position: Any) -> Vintage:
        key = position.market_id, position.vintage
        if (matched := self._matched.get(key)) is not None:
            return matched
        row = self._vintages.get(key)
        if row is None:
            raise mirror.Diverged(f"position {position.position_id} belongs to a vintage without entries")
        if row.accepted_up is None:
            # A refund may be sent before its finished vintage is finalized. The market still holds the offers.
            pending = self._state(position.market_id).value().vintage
            assert pending is not None
            return pending
        matched = self._matched[key] = vintage_of(row)
        return matched

    def _write_vintage(self, row: Any, vintage: Vintage) -> None:
        assert vintage.accepted is not None
        assert vintage.entry_acc is not None
        row.offered_up, row.offered_down = vintage.offered
        row.accepted_up, row.accepted_down = vintage.accepted
        row.entry_acc_up, row.entry_acc_down = vintage.entry_acc
        self._vintages[row.market_id, row.vintage] = row
        self._touched_vintages.add((row.market_id, row.vintage))

    def _touch(self, log: LogRecord, state: _MarketState) -> None:
        state.row.updated_block = log.block
        self._touched_markets.add(state.row.market_id)
        self._acted_on.add(state.row.market_id)
