"""Markets as bodies: the listed form, and what a single market's page adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from api.head import Head
from api.stock import words
from api.stock.facts import FAMILIES, SIDES, ListedMarket, MarketReadings, Oracle, Phase, ResolverPreview, Venue
from core.contracts.statuses import PreviewStatus, StockOutcome, StockReason
from core.feeds.rounds import TOO_HIGH, Round, judge
from core.money import change_bps
from core.stock.vested import DOWN, UP
from core.stock.vested_views import MarketView, market_view

_OUTCOMES = {
    StockOutcome.UP: "UP",
    StockOutcome.DOWN: "DOWN",
    StockOutcome.FLAT: "FLAT",
    StockOutcome.VOID: "VOID",
}
_REASONS = {
    StockReason.ROUNDS: None,
    StockReason.FLAT: "flat",
    StockReason.STALE: "stale",
    StockReason.PAUSED: "paused",
    StockReason.BAD_ANSWER: "stale",
}
_DETAILS = {
    StockReason.STALE: "A reading was older than the market allows.",
    StockReason.BAD_ANSWER: "A reading in effect was not a price.",
    StockReason.PAUSED: "The stock's oracle stayed paused for 24 hours after the bell.",
    StockReason.FLAT: "Both readings are the same.",
}
NOTHING_READ = Oracle()
_NO_ROUND = {"answer": "0", "roundId": "0", "at": 0}


@dataclass(frozen=True, slots=True)
class Prices:
    """The three readings a market shows: at its strike, at its final time (None before the bell), and the latest."""

    strike: Round | None
    strike_problem: str | None
    live: Round | None
    final: Round | None
    final_problem: str | None


def listed_body(market: ListedMarket, venue: Venue, oracle: Oracle) -> dict[str, Any]:
    """One market as /api/markets lists it."""
    return _listed(market, venue, oracle, market_view(market.market, venue.head.moment))


def detail_body(
    market: ListedMarket, venue: Venue, oracle: Oracle, positions: object, *, read_at: int, stale: bool
) -> dict[str, Any]:
    """One market with its books, every position (rendered before) and, after the bell, both rounds."""
    now = venue.head.moment
    view = market_view(market.market, now)
    phase = market.phase(now.timestamp)
    reading = oracle.readings.get(market.id)
    prices = prices_of(market, oracle, phase)
    after_bell = now.timestamp > market.final_time
    return {
        "market": _listed(market, venue, oracle, view),
        "headroom": _pair(view.headroom),
        "positions": positions,
        "resolution": _resolution(market),
        "head": head_body(venue.head),
        "entriesPaused": venue.entries_paused,
        "vintageBlock": None if view.vintage_block is None else str(view.vintage_block),
        "kappa": str(market.market.terms.kappa),
        "books": [
            {
                "principal": str(book.principal),
                "acc": str(book.acc),
                "capacity": str(book.capacity),
                "vested": str(book.vested),
                "demand": str(book.demand),
                "live": str(book.live),
            }
            for book in view.books
        ],
        "finder": _finder(market, prices, reading) if after_bell else None,
        "preview": _preview(_preview_of(market, reading)) if after_bell else None,
        "activity": True,
        "readAt": read_at,
        "stale": stale,
    }


def prices_of(market: ListedMarket, oracle: Oracle, phase: Phase) -> Prices:
    latest = oracle.latest.get(market.feed)
    settled = market.settlement
    reading = oracle.readings.get(market.id)
    strike: Round | None = None
    final: Round | None = None
    strike_missing: str | None = None
    final_missing: str | None = None
    if settled is not None and settled.strike is not None:
        strike, final = settled.strike, settled.final
    elif phase is Phase.OPENS:
        return Prices(latest, None if latest is not None else "the feed has no round yet", latest, None, None)
    elif reading is not None:
        strike, final = reading.strike, reading.final
        strike_missing = words.problem(reading.strike_problem) if strike is None else None
        final_missing = words.problem(reading.final_problem) if final is None else None
    else:
        strike_missing = final_missing = "the reading could not be read from the chain yet"
    if strike is not None:
        age = market.strike_time - strike.updated_at
        strike_missing = words.reading_problem(strike.answer, age, market.max_strike_age)
    if final is not None:
        age = market.final_time - final.updated_at
        final_missing = words.reading_problem(final.answer, age, market.max_final_age)
    live = final if market.market.settled and final is not None else latest
    return Prices(strike, strike_missing, live, final, final_missing)


def round_body(the_round: Round | None) -> dict[str, Any] | None:
    if the_round is None:
        return None
    return {"answer": str(the_round.answer), "roundId": str(the_round.id), "at": the_round.updated_at}


def outcome_name(market: ListedMarket) -> str | None:
    """`UP`, `DOWN`, `FLAT` or `VOID` once settled."""
    if not market.market.settled:
        return None
    settled = market.settlement
    if settled is None or settled.outcome is None:
        return "VOID" if market.market.winner is None else SIDES[market.market.winner]
    return _OUTCOMES[StockOutcome(settled.outcome)]


def _listed(market: ListedMarket, venue: Venue, oracle: Oracle, view: MarketView) -> dict[str, Any]:
    now = venue.head.timestamp
    phase = market.phase(now)
    terms = market.market.terms
    winner = market.market.winner
    prices = prices_of(market, oracle, phase)
    up, down = view.books
    must = phase is not Phase.OPENS  # then strike, live and change are never null
    return {
        "id": str(market.id),
        "href": market.href,
        "ticker": market.ticker,
        "family": FAMILIES[market.family],
        "question": words.question(market),
        "phase": phase.value,
        "status": words.status(phase, winner),
        "winner": None if winner is None else SIDES[winner],
        "strikeTime": market.strike_time,
        "finalTime": market.final_time,
        "strike": round_body(prices.strike) or (_NO_ROUND if must else None),
        "strikeProblem": prices.strike_problem,
        "live": round_body(prices.live) or (_NO_ROUND if must else None),
        "change": _change(prices.strike, prices.live, must),
        "pool": {"up": str(up.principal), "down": str(down.principal)},
        "totals": {
            "pool": str(view.pool),
            "up": str(up.principal),
            "down": str(down.principal),
            "pendingUp": str(view.pending[UP]),
            "pendingDown": str(view.pending[DOWN]),
            "paidOut": str(view.paid),
        },
        "headroom": _pair(view.headroom),
        "limits": {"minEntry": str(terms.min_entry), "maxEntry": str(terms.max_entry), "feeBps": terms.fee_bps},
        "acceptingBets": phase in (Phase.OPENS, Phase.LIVE) and not venue.entries_paused,
        "maxStrikeAge": market.max_strike_age,
        "maxFinalAge": market.max_final_age,
        "voidableAt": market.voidable_at,
        "seedPerLeg": str(terms.seed_per_leg),
        "opener": market.opener,
        "openedAt": market.opened_at,
        "openedTx": market.opened_tx,
        "specId": market.spec_id,
        "feed": market.feed,
        "stockToken": market.stock_token,
        "positions": market.positions,
        "rules": words.rules(market),
    }


def _change(strike: Round | None, live: Round | None, must: bool) -> dict[str, Any] | None:
    if strike is None or live is None or not 0 < strike.answer < TOO_HIGH:
        return {"direction": "FLAT", "bps": 0, "text": "unknown"} if must else None
    difference = live.answer - strike.answer
    bps = change_bps(strike.answer, live.answer)
    direction = "FLAT" if difference == 0 else SIDES[UP if difference > 0 else DOWN]
    return {"direction": direction, "bps": bps, "text": words.change_text(bps, difference)}


def head_body(head: Head) -> dict[str, Any]:
    return {"blockNumber": str(head.number), "l1BlockNumber": str(head.l1_number), "timestamp": head.timestamp}


def _resolution(market: ListedMarket) -> dict[str, Any] | None:
    settled = market.settlement
    if settled is None:
        return None
    if settled.outcome is None:
        reason: str | None = "timeout"
        detail = f"Nobody could settle it by {words.utc(market.voidable_at)}."
    else:
        reason = _REASONS[StockReason(settled.reason or 0)]
        detail = _DETAILS.get(StockReason(settled.reason or 0), "The final reading decided.")
    return {
        "outcome": outcome_name(market),
        "reason": reason,
        "detail": detail,
        "strikeRound": None if settled.strike is None else str(settled.strike.id),
        "finalRound": None if settled.final is None else str(settled.final.id),
        "strike": round_body(settled.strike),
        "final": round_body(settled.final),
        "tx": settled.tx,
        "at": settled.at,
    }


def _finder(market: ListedMarket, prices: Prices, reading: MarketReadings | None) -> dict[str, Any]:
    """The two rounds the finder proved and what they say; `expected` is null while they say nothing."""
    strike, final = prices.strike, prices.final
    missing = strike is None or final is None
    expected: str | None = None
    if strike is not None and final is not None:
        verdict = judge(market.spec, strike, final, paused=False)
        expected = {PreviewStatus.UP: "UP", PreviewStatus.DOWN: "DOWN", PreviewStatus.FLAT: "FLAT"}.get(verdict, "VOID")
    problem = None
    if prices.strike_problem is not None:
        problem = f"strike: {prices.strike_problem}"
    elif prices.final_problem is not None:
        problem = f"final: {prices.final_problem}"
    return {
        "ok": not missing,
        "strikeRound": None if strike is None else str(strike.id),
        "finalRound": None if final is None else str(final.id),
        "strike": round_body(strike),
        "final": round_body(final),
        "expected": expected,
        "problem": problem,
    }


def _preview_of(market: ListedMarket, reading: MarketReadings | None) -> ResolverPreview | None:
    settled = market.settlement
    if settled is not None and settled.strike is not None and settled.final is not None:
        return ResolverPreview(
            _settled_status(settled.outcome, settled.reason),
            settled.strike.id,
            settled.strike.answer,
            settled.strike.updated_at,
            settled.final.id,
            settled.final.answer,
            settled.final.updated_at,
        )
    return None if reading is None else reading.preview


def _settled_status(outcome: int | None, reason: int | None) -> PreviewStatus:
    match StockReason(reason or 0):
        case StockReason.STALE:
            return PreviewStatus.STALE
        case StockReason.BAD_ANSWER:
            return PreviewStatus.BAD_ANSWER
        case StockReason.PAUSED:
            return PreviewStatus.PAUSED
        case StockReason.FLAT:
            return PreviewStatus.FLAT
        case StockReason.ROUNDS:
            return PreviewStatus.UP if outcome == StockOutcome.UP else PreviewStatus.DOWN


def _preview(preview: ResolverPreview | None) -> dict[str, Any]:
    if preview is None:  # the chain could not be asked since the bell
        preview = ResolverPreview(PreviewStatus.NOT_READY, 0, 0, 0, 0, 0, 0)
    return {
        "status": preview.status,
        "name": words.PREVIEW_NAMES[PreviewStatus(preview.status)],
        "strikeRound": str(preview.strike_round),
        "strikeAnswer": str(preview.strike_answer),
        "strikeAt": preview.strike_at,
        "finalRound": str(preview.final_round),
        "finalAnswer": str(preview.final_answer),
        "finalAt": preview.final_at,
    }


def _pair(values: tuple[int, int]) -> dict[str, str]:
    return {"up": str(values[UP]), "down": str(values[DOWN])}
