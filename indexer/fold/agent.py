"""Agent markets, outcome books and stakes, folded from the settlement wallet's logs.

Pure, like `indexer.fold.stock`. What a stake meets and what it is owed is worked out by `core.mirror.settlement`; a log
that says otherwise is a Contradiction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson
from psycopg.types.json import Jsonb

from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from core.events import agent as ev
from core.events.agent import AGENT_MARKET
from core.mirror.settlement import Book
from indexer.errors import Contradiction
from indexer.fold.rows import Removal, RowKind, Write
from indexer.logs import LogRecord

MARKET = RowKind(agent_market)
OUTCOME = RowKind(agent_outcome)
STAKE = RowKind(agent_stake)

OPEN, RESOLVED, VOID = 1, 2, 3
IN_BOOK, OWED_BACK, PAID, REFUNDED = 1, 2, 3, 4

NOBODY = bytes(20)
NO_REF = bytes(32)


class AgentFold:
    """Markets touched by one run of logs, with all their outcomes; and the stakes that were paid."""

    def __init__(self) -> None:
        self._markets: dict[bytes, Any] = {}
        self._outcomes: dict[bytes, list[Any]] = {}
        self._stakes: dict[int, Any] = {}
        self._touched_markets: set[bytes] = set()
        self._touched_stakes: set[int] = set()
        self._handlers: dict[type, Callable[[LogRecord, Any], None]] = {
            ev.MarketListed: self._listed,
            ev.Staked: self._staked,
            ev.RefundBooked: self._refund_booked,
            ev.MarketResolved: self._resolved,
            ev.MarketVoided: self._voided,
            ev.Paid: self._paid,
            ev.PayoutFailed: self._payout_failed,
        }

    # ---------------------------------------------------------------- what is needed, and giving it

    @staticmethod
    def needed_markets(logs: Iterable[LogRecord]) -> list[bytes]:
        return list({log.entity[1:] for log in logs if log.entity is not None and log.entity[:1] == AGENT_MARKET})

    @staticmethod
    def needed_stakes(logs: Iterable[LogRecord]) -> list[int]:
        return list({log.event.stake_id for log in logs if isinstance(log.event, ev.Paid | ev.PayoutFailed)})

    def give_market(self, row: Any) -> None:
        self._markets[row.market_id] = row
        self._outcomes[row.market_id] = [None] * row.outcomes

    def give_outcome(self, row: Any) -> None:
        self._outcomes[row.market_id][row.outcome] = row

    def give_stake(self, row: Any) -> None:
        self._stakes[row.stake_id] = row

    # ---------------------------------------------------------------- applying

    def apply(self, log: LogRecord) -> None:
        """The next log in chain order. Contradiction when it does not follow from those before it."""
        self._handlers[type(log.event)](log, log.event)

    def _listed(self, log: LogRecord, e: ev.MarketListed) -> None:
        _require(log, e.market_id not in self._markets, "a market was listed twice")
        spec = {name: getattr(e.spec, name) for name in e.spec.__struct_fields__}
        spec["bounds"] = list(e.spec.bounds)
        document = _document(e.metadata)
        slug = document.get("slug") if document is not None else None
        self._markets[e.market_id] = MARKET.new(
            market_id=e.market_id,
            **spec,
            metadata=e.metadata,
            document=None if document is None else Jsonb(document, dumps=orjson.dumps),
            slug=slug if isinstance(slug, str) else None,
            staked=0,
            net_pool=0,
            stakes=0,
            late_payments=0,
            paid_out=0,
            paid_shares=0,
            given_back=0,
            status=OPEN,
            listed_block=log.block,
            listed_log_index=log.index,
            listed_at=log.at,
            listed_tx=log.tx,
        )
        self._outcomes[e.market_id] = [
            OUTCOME.new(e.market_id, outcome, net=0, shares=0, stakes=0) for outcome in range(e.spec.outcomes)
        ]
        self._touch(log, e.market_id)

    def _staked(self, log: LogRecord, e: ev.Staked) -> None:
        market = self._market(log, e.market_id)
        outcomes = self._outcomes[e.market_id]
        _require(log, market.status == OPEN and e.outcome < len(outcomes), "a stake on a settled market or no outcome")
        got = self._book(market, outcomes).quote(e.outcome, e.amount)
        _require(log, (got.fee, got.shares) == (e.fee, e.shares), "a stake got other shares than the book gives")
        market.staked += e.amount
        market.net_pool += got.net
        market.stakes += 1
        book = outcomes[e.outcome]
        book.net += got.net
        book.shares += got.shares
        book.stakes += 1
        self._new_stake(
            log,
            e,
            outcome=e.outcome,
            fee=e.fee,
            shares=e.shares,
            price_before=got.price_before,
            price_after=got.price_after,
            builder=None if e.builder == NOBODY else e.builder,
            ref=None if e.ref == NO_REF else e.ref,
            status=IN_BOOK,
        )

    def _refund_booked(self, log: LogRecord, e: ev.RefundBooked) -> None:
        self._market(log, e.market_id).late_payments += 1
        self._new_stake(log, e, fee=0, shares=0, refund_reason=e.reason, status=OWED_BACK)

    def _new_stake(self, log: LogRecord, e: ev.Staked | ev.RefundBooked, **fields: Any) -> None:
        _require(log, e.stake_id not in self._stakes, f"stake {e.stake_id} was booked twice")
        self._stakes[e.stake_id] = STAKE.new(
            stake_id=e.stake_id,
            market_id=e.market_id,
            ordinal=e.stake_id & 0xFFFFFFFF,
            wallet=e.wallet,
            amount=e.amount,
            intent_hash=e.intent_hash,
            idem_hash=e.idem_hash,
            staked_block=log.block,
            staked_log_index=log.index,
            staked_at=log.at,
            staked_tx=log.tx,
            paid_amount=0,
            failed_payouts=0,
            **fields,
        )
        self._touched_stakes.add(e.stake_id)
        self._touch(log, e.market_id)

    def _resolved(self, log: LogRecord, e: ev.MarketResolved) -> None:
        market = self._close(log, e.market_id, RESOLVED)
        _require(log, e.outcome < market.outcomes, f"outcome {e.outcome} won, of {market.outcomes}")
        market.winner, market.observed = e.outcome, e.observed
        market.round_id, market.observed_at = e.round_id, e.observed_at

    def _voided(self, log: LogRecord, e: ev.MarketVoided) -> None:
        self._close(log, e.market_id, VOID).void_reason = e.reason

    def _close(self, log: LogRecord, market_id: bytes, status: int) -> Any:
        market = self._market(log, market_id)
        _require(log, market.status == OPEN, "a market was settled twice")
        market.status = status
        market.closed_block, market.closed_at, market.closed_tx = log.block, log.at, log.tx
        self._touch(log, market_id)
        return market

    def _paid(self, log: LogRecord, e: ev.Paid) -> None:
        stake, market = self._stake(log, e.stake_id), self._market(log, e.market_id)
        _require(log, stake.wallet == e.wallet, f"stake {e.stake_id} was paid to another wallet")
        owed, refund = self._owed(market, stake)
        _require(
            log, (owed, refund) == (e.amount, e.refund), f"stake {e.stake_id} was paid {e.amount}, it is owed {owed}"
        )
        if refund:
            market.given_back += e.amount
        else:
            market.paid_out += e.amount
            market.paid_shares += stake.shares
        stake.status = REFUNDED if refund else PAID
        stake.paid_amount = e.amount
        stake.paid_block, stake.paid_at, stake.paid_tx = log.block, log.at, log.tx
        self._touched_stakes.add(e.stake_id)
        self._touch(log, e.market_id)

    def _payout_failed(self, log: LogRecord, e: ev.PayoutFailed) -> None:
        stake = self._stake(log, e.stake_id)
        stake.failed_payouts += 1
        stake.failed_tx = log.tx
        self._touched_stakes.add(e.stake_id)
        self._touch(log, e.market_id)

    def _owed(self, market: Any, stake: Any) -> tuple[int, bool]:
        """What a stake is owed now, and whether it is its own amount given back."""
        if stake.status == OWED_BACK:
            return stake.amount, True
        if stake.status != IN_BOOK or market.status == OPEN:
            return 0, False
        book = self._book(market, self._outcomes[market.market_id])
        owed = book.owed(market.winner, stake.outcome, stake.amount, stake.shares)
        return owed, book.refunds(market.winner)

    # ---------------------------------------------------------------- results

    def writes(self) -> list[Write]:
        """What to store after the last log."""
        return [
            MARKET.write(self._markets[each] for each in self._touched_markets),
            OUTCOME.write(row for each in self._touched_markets for row in self._outcomes[each]),
            STAKE.write(self._stakes[each] for each in self._touched_stakes),
        ]

    @property
    def changed(self) -> set[bytes]:
        return self._touched_markets

    @staticmethod
    def removals(market_ids: Iterable[bytes]) -> list[Removal]:
        """Everything stored of some markets."""
        keys = [(each,) for each in market_ids]
        return [Removal(table, ("market_id",), keys) for table in (agent_market, agent_outcome, agent_stake)]

    # ---------------------------------------------------------------- helpers

    @staticmethod
    def _book(market: Any, outcomes: list[Any]) -> Book:
        return Book(
            market.virtual_liquidity,
            market.fee_bps,
            tuple(row.net for row in outcomes),
            tuple(row.shares for row in outcomes),
        )

    def _market(self, log: LogRecord, market_id: bytes) -> Any:
        _require(log, market_id in self._markets, "a market was never listed")
        return self._markets[market_id]

    def _stake(self, log: LogRecord, stake_id: int) -> Any:
        _require(log, stake_id in self._stakes, f"stake {stake_id} was never booked")
        return self._stakes[stake_id]

    def _touch(self, log: LogRecord, market_id: bytes) -> None:
        self._markets[market_id].updated_block = log.block
        self._touched_markets.add(market_id)


def _document(metadata: str) -> dict[str, Any] | None:
    """The metadata as a JSON object, or None; anybody with the lister's key may have written anything."""
    try:
        found = orjson.loads(metadata)
    except orjson.JSONDecodeError:
        return None
    # jsonb takes no NUL, which an escape may have smuggled past the text.
    return found if isinstance(found, dict) and "\\u0000" not in metadata else None


def _require(log: LogRecord, holds: bool, otherwise: str) -> None:
    if not holds:
        market = log.entity[1:].hex() if log.entity else ""
        raise Contradiction(f"In block {log.block}, log {log.index}, market 0x{market}: {otherwise}.")
