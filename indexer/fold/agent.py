"""Agent markets, outcome books and stakes, folded from the logs of the settlement wallet, the resolver and the lister.

`core.agent.book` computes shares and payouts; a log that disagrees is a Contradiction. An action is also a
Contradiction if only some of its contracts have logged it. Opening a market takes one log from each of the three
contracts in one transaction; settling it takes a log of the wallet and a log of the resolver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from psycopg.types.json import Jsonb

from core.agent.bet import market_key
from core.agent.book import Book
from core.contracts.events import agent as ev
from core.contracts.events.agent import AGENT_MARKET
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.schema.index_agent import agent_market, agent_outcome, agent_stake
from indexer.errors import Contradiction
from indexer.fold.rows import AffectedRows, LogRecord, Need, RowKind, Write, fields_of

MARKET = RowKind(agent_market)
OUTCOME = RowKind(agent_outcome)
STAKE = RowKind(agent_stake)

ZERO_ADDRESS = bytes(20)
NO_REFERENCE = bytes(32)


@dataclass(slots=True)
class _Act:
    """One action on a market, as logged by several contracts. The logs are keyed by event."""

    last: LogRecord
    events: dict[type, Any] = field(default_factory=dict)


COUNTERS = ("staked", "net_pool", "stakes", "late_payments", "paid_out", "paid_shares", "given_back", "unpaid")
OPENING = (ev.MarketOpened, ev.MarketRegistered, ev.MarketListed)


class AgentFold:
    """Folds runs of logs into agent markets, their outcomes and stakes. Load the rows that `needs` yields before
    calling `apply`."""

    def __init__(self) -> None:
        self._markets: dict[bytes, Any] = {}
        self._outcomes: dict[bytes, list[Any]] = {}
        self._touched_outcomes: set[tuple[bytes, int]] = set()
        self._stakes: dict[int, Any] = {}
        self._touched_markets: set[bytes] = set()
        self._touched_stakes: set[int] = set()
        self._closed: set[bytes] = set()
        self._openings: dict[bytes, _Act] = {}
        self._settlings: dict[bytes, _Act] = {}
        self._handlers: dict[type, Callable[[LogRecord, Any], None]] = {
            ev.MarketOpened: self._opening,
            ev.MarketRegistered: self._opening,
            ev.MarketListed: self._opening,
            ev.Staked: self._staked,
            ev.RefundBooked: self._refund_booked,
            ev.MarketResolved: self._resolved,
            ev.MarketVoided: self._voided,
            ev.MarketDecided: self._decided,
            ev.Paid: self._paid,
            ev.PayoutFailed: self._payout_failed,
        }

    # ---------------------------------------------------------------- loading

    def needs(self, logs: Iterable[LogRecord]) -> Iterator[Need]:
        """Yield the rows to load. The caller adds the rows of each `Need` before asking for the next `Need`."""
        seen = {log.entity for log in logs if log.entity is not None and log.entity[:1] == AGENT_MARKET}
        markets = [(key,) for entity in seen if (key := entity[1:]) not in self._markets]
        yield Need(MARKET, ("market_id",), markets)
        yield Need(OUTCOME, ("market_id",), markets)
        ids = {log.event.stake_id for log in logs if isinstance(log.event, ev.Paid | ev.PayoutFailed)}
        yield Need(STAKE, ("stake_id",), [(each,) for each in ids if each not in self._stakes])

    def add_row(self, kind: RowKind, row: Any) -> None:
        if kind is STAKE:
            self._stakes[row.stake_id] = row
        elif kind is OUTCOME:
            self._outcomes[row.market_id][row.outcome] = row
        else:
            self._markets[row.market_id] = row
            self._outcomes[row.market_id] = [None] * row.outcomes

    # ---------------------------------------------------------------- applying

    def apply(self, log: LogRecord) -> None:
        """Apply the next log in chain order. Raise Contradiction if the log does not follow from the earlier ones."""
        self._handlers[type(log.event)](log, log.event)

    def finish(self) -> None:
        """Raise Contradiction if not all contracts logged each action. Call this after the last log of a run."""
        for act in self._openings.values():
            missing = ", ".join(each.__name__ for each in OPENING if each not in act.events)
            _require(act.last, not missing, f"a market was opened without {missing}")
        for act in self._settlings.values():
            _require(act.last, len(act.events) == 2, "the wallet and the resolver did not both log a market's result")
        self._openings.clear()
        self._settlings.clear()

    def _opening(self, log: LogRecord, e: ev.MarketOpened | ev.MarketRegistered | ev.MarketListed) -> None:
        _require(log, e.market_id not in self._markets, "a market was opened twice")
        act = self._act(self._openings, log, e.market_id)
        if len(act.events) == len(OPENING):
            self._open(*(act.events[each] for each in OPENING))

    def _act(self, acts: dict[bytes, _Act], log: LogRecord, market_id: bytes) -> _Act:
        """Add this log to its action, and return the action."""
        act = acts.setdefault(market_id, _Act(log))
        _require(log, act.last.tx == log.tx, "one action on a market was logged in two transactions")
        _require(log, type(log.event) not in act.events, f"{type(log.event).__name__} was logged twice for one action")
        act.last, act.events[type(log.event)] = log, log
        return act

    def _open(self, opening: LogRecord, registering: LogRecord, listing: LogRecord) -> None:
        opened: ev.MarketOpened = opening.event
        listed: ev.MarketListed = listing.event
        spec, terms = listed.spec, listed.terms
        _require(listing, spec.feed == listed.feed == registering.event.feed, "a market was registered on another feed")
        _require(
            listing,
            (spec.opens_at, spec.closes_at, terms.fee_bps, terms.pot_cap, spec.weights)
            == (opened.opens_at, opened.closes_at, opened.fee_bps, opened.pot_cap, opened.weights),
            "a market was opened with other terms than it was listed with",
        )
        document = _document(listed.metadata)
        self._markets[listed.market_id] = MARKET.new(
            market_id=listed.market_id,
            index=opened.index,
            **fields_of(spec),
            **fields_of(terms),
            outcomes=len(spec.weights),
            lister=listed.lister,
            metadata=listed.metadata,
            document=None if document is None else Jsonb(document, dumps=orjson.dumps),
            slug=_slug(document, listed.market_id),
            **dict.fromkeys(COUNTERS, 0),
            status=AgentMarketStatus.OPEN,
            listed_block=listing.block,
            listed_log_index=listing.index,
            listed_at=listing.at,
            listed_tx=listing.tx,
        )
        self._outcomes[listed.market_id] = [
            OUTCOME.new(listed.market_id, outcome, net=0, shares=0, excess=0, stakes=0)
            for outcome in range(len(spec.weights))
        ]
        self._touched_outcomes |= {(listed.market_id, outcome) for outcome in range(len(spec.weights))}
        self._touch(listing, listed.market_id)

    def _staked(self, log: LogRecord, e: ev.Staked) -> None:
        market = self._market(log, e.market_id)
        outcomes = self._outcomes[e.market_id]
        _require(
            log,
            market.status == AgentMarketStatus.OPEN and e.outcome < len(outcomes),
            "a stake was placed on a settled market or an unknown outcome",
        )
        got = Book.from_rows(market, outcomes).quote(e.outcome, e.amount)
        _require(log, (got.fee, got.shares) == (e.fee, e.shares), "a stake's fee or shares differ from the book's")
        market.staked += e.amount
        market.net_pool += got.net
        market.stakes += 1
        book = outcomes[e.outcome]
        book.net += got.net
        book.shares += got.shares
        book.excess += max(0, got.shares - got.net)
        book.stakes += 1
        self._touched_outcomes.add((e.market_id, e.outcome))
        self._new_stake(
            log,
            e,
            outcome=e.outcome,
            fee=e.fee,
            shares=e.shares,
            price_before=got.price_before,
            price_after=got.price_after,
            builder=None if e.builder == ZERO_ADDRESS else e.builder,
            ref=None if e.ref == NO_REFERENCE else e.ref,
            status=StakeStatus.IN_BOOK,
        )

    def _refund_booked(self, log: LogRecord, e: ev.RefundBooked) -> None:
        market = self._market(log, e.market_id)
        market.late_payments += 1
        market.unpaid += 1
        self._new_stake(log, e, fee=0, shares=0, refund_reason=e.reason, status=StakeStatus.OWED_BACK)

    def _new_stake(self, log: LogRecord, e: ev.Staked | ev.RefundBooked, **fields: Any) -> None:
        _require(log, e.stake_id not in self._stakes, f"stake {e.stake_id} was booked twice")
        self._stakes[e.stake_id] = STAKE.new(
            stake_id=e.stake_id,
            market_id=e.market_id,
            ordinal=e.stake_id & 0xFFFFFFFF,
            wallet=e.wallet,
            amount=e.amount,
            nonce=e.nonce,
            bet_hash=e.bet_hash,
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
        market = self._close(log, e.market_id, AgentMarketStatus.RESOLVED)
        _require(log, e.outcome < market.outcomes, f"outcome {e.outcome} won in a market with {market.outcomes}")
        market.winner = e.outcome
        outcomes = self._outcomes[e.market_id]
        is_refund = Book.from_rows(market, outcomes).refunds(e.outcome)
        market.unpaid += market.stakes if is_refund else outcomes[e.outcome].stakes
        self._require_agreement(log, e.market_id)

    def _voided(self, log: LogRecord, e: ev.MarketVoided) -> None:
        market = self._close(log, e.market_id, AgentMarketStatus.VOID)
        market.void_reason = e.reason
        market.unpaid += market.stakes
        self._require_agreement(log, e.market_id)

    def _close(self, log: LogRecord, market_id: bytes, status: AgentMarketStatus) -> Any:
        market = self._market(log, market_id)
        _require(log, market.status == AgentMarketStatus.OPEN, "a market was settled twice")
        market.status = status
        market.closed_block, market.closed_at, market.closed_tx = log.block, log.at, log.tx
        self._closed.add(market_id)
        self._touch(log, market_id)
        return market

    def _decided(self, log: LogRecord, e: ev.MarketDecided) -> None:
        market = self._market(log, e.market_id)
        if _has_reading(e.end):
            market.end_round, market.end_answer, market.end_updated_at = msgspec.structs.astuple(e.end)
        if _has_reading(e.start):
            market.start_round, market.start_answer, market.start_updated_at = msgspec.structs.astuple(e.start)
        self._require_agreement(log, e.market_id)
        self._touch(log, e.market_id)

    def _require_agreement(self, log: LogRecord, market_id: bytes) -> None:
        """Raise Contradiction if the wallet and the resolver have logged different results. Either may log first."""
        events = self._act(self._settlings, log, market_id).events
        if ev.MarketDecided in events and len(events) == 2:
            decided, market = events[ev.MarketDecided].event, self._markets[market_id]
            result = (True, market.void_reason) if decided.is_void else (False, market.winner)
            _require(
                log, result == (decided.is_void, decided.code), "the wallet and the resolver logged different results"
            )

    def _paid(self, log: LogRecord, e: ev.Paid) -> None:
        stake, market = self._stake(log, e.stake_id), self._market(log, e.market_id)
        _require(log, stake.wallet == e.wallet, f"stake {e.stake_id} was paid to another wallet")
        owed, refund = self._owed(market, stake)
        _require(
            log, (owed, refund) == (e.amount, e.refund), f"stake {e.stake_id} was paid {e.amount} instead of {owed}"
        )
        if refund:
            market.given_back += e.amount
        else:
            market.paid_out += e.amount
            market.paid_shares += stake.shares
        market.unpaid -= 1
        stake.status = StakeStatus.REFUNDED if refund else StakeStatus.PAID
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
        """Return the amount now due to a stake, and whether the amount is a refund of the stake's payment."""
        if stake.status == StakeStatus.OWED_BACK:
            return stake.amount, True
        if stake.status != StakeStatus.IN_BOOK or market.status == AgentMarketStatus.OPEN:
            return 0, False
        book = Book.from_rows(market, self._outcomes[market.market_id])
        owed = book.owed(market.winner, stake.outcome, stake.amount, stake.shares)
        return owed, book.refunds(market.winner)

    # ---------------------------------------------------------------- results

    def take_writes(self) -> list[Write]:
        writes = [
            MARKET.write(self._markets[each] for each in self._touched_markets),
            OUTCOME.write(self._outcomes[market_id][outcome] for market_id, outcome in self._touched_outcomes),
            STAKE.write(self._stakes[each] for each in self._touched_stakes),
        ]
        self._touched_markets.clear()
        self._touched_outcomes.clear()
        self._touched_stakes.clear()
        self._closed.clear()
        return writes

    def affected_rows(self) -> AffectedRows:
        """Return the rows that may have changed the sums since the last write: touched markets, new stakes, and all
        stakes of settled markets."""
        booked = [each for each in self._touched_stakes if not self._stakes[each].stored]
        return AffectedRows(added=booked, whole=list(self._closed), markets=list(self._touched_markets))

    # ---------------------------------------------------------------- helpers

    def _market(self, log: LogRecord, market_id: bytes) -> Any:
        _require(log, market_id in self._markets, "a market was never opened")
        return self._markets[market_id]

    def _stake(self, log: LogRecord, stake_id: int) -> Any:
        _require(log, stake_id in self._stakes, f"stake {stake_id} was never booked")
        return self._stakes[stake_id]

    def _touch(self, log: LogRecord, market_id: bytes) -> None:
        self._markets[market_id].updated_block = log.block
        self._touched_markets.add(market_id)


def _has_reading(reading: ev.Reading) -> bool:
    return reading.round_id != 0 or reading.updated_at != 0


def _slug(document: dict[str, Any] | None, key: bytes) -> str | None:
    """Return the market's id from its metadata. Return None if the id does not hash to the market's key, because a
    lister can write any id."""
    claimed = None if document is None else document.get("id")
    return claimed if isinstance(claimed, str) and market_key(claimed) == key else None


def _document(metadata: str) -> dict[str, Any] | None:
    """Return the metadata as a JSON object. Return None if the metadata is anything else, because a lister can write
    any text."""
    try:
        document = orjson.loads(metadata)
    except orjson.JSONDecodeError:
        return None
    # jsonb rejects NUL, which an escape sequence can hide in the text.
    return document if isinstance(document, dict) and "\\u0000" not in metadata else None


def _require(log: LogRecord, holds: bool, otherwise: str) -> None:
    if not holds:
        market = log.entity[1:].hex() if log.entity else ""
        raise Contradiction(f"In block {log.block}, log {log.index}, market 0x{market}: {otherwise}.")
