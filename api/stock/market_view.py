"""The functions that build the bodies of markets and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from api.head import Head
from api.operations import body_from
from api.stock import words
from api.stock.bodies import (
    BookBody,
    ChangeBody,
    FinderBody,
    HeadBody,
    LimitsBody,
    MarketBody,
    MarketDetailBody,
    OutcomeName,
    OwnedPositionBody,
    PositionBody,
    PreviewBody,
    ResolutionBody,
    RoundBody,
    SettlementBody,
    TotalsBody,
    UpDown,
    VoidReasonName,
)
from api.stock.facts import (
    FAMILIES,
    SIDES,
    HeldPosition,
    ListedMarket,
    MarketReadings,
    MarketResult,
    MarketsSnapshot,
    Oracle,
    Phase,
    ResolverPreview,
)
from api.stock.quoting import example_quotes
from core.contracts.statuses import PreviewStatus, StockOutcome, StockReason
from core.feeds.rounds import TOO_HIGH, Round, judge
from core.money import change_bps
from core.stock.vested import DOWN, UP, MarketView, Moment, PositionView, market_view, position_view

# Of each reason for which a market is void: its name, the preview that shows it, and its description.
_VOIDS: dict[StockReason, tuple[VoidReasonName, PreviewStatus, str]] = {
    StockReason.FLAT: ("flat", PreviewStatus.FLAT, "Both readings are equal."),
    StockReason.STALE: ("stale", PreviewStatus.STALE, "A reading was older than the market allows."),
    StockReason.PAUSED: ("paused", PreviewStatus.PAUSED, "The stock's oracle was paused at the time of a reading."),
    StockReason.BAD_ANSWER: ("stale", PreviewStatus.BAD_ANSWER, "A reading in effect was not a price."),
    StockReason.MULTIPLIER: (
        "paused",
        PreviewStatus.PAUSED,
        "The stock's multiplier changed between strike and bell, as after a split or a dividend.",
    ),
    StockReason.OUTAGE: ("stale", PreviewStatus.STALE, "A reading was made while the chain's sequencer was down."),
}
_NO_ROUND = RoundBody(answer="0", round_id="0", at=0)


@dataclass(frozen=True, slots=True)
class Prices:
    """The readings that a market shows: at its strike, at its final time (None before the bell), and the latest."""

    strike: Round | None
    strike_problem: str | None
    live: Round | None
    final: Round | None
    final_problem: str | None


def listed_body(market: ListedMarket, snapshot: MarketsSnapshot, oracle: Oracle) -> MarketBody:
    return _listed(market, snapshot, oracle, market_view(market.market, snapshot.head.moment))


def detail_body(
    market: ListedMarket,
    snapshot: MarketsSnapshot,
    oracle: Oracle,
    positions: list[PositionBody],
    *,
    read_at: int,
    stale: bool,
) -> MarketDetailBody:
    now = snapshot.head.moment
    view = market_view(market.market, now)
    prices = prices_of(market, oracle, market.phase(now.timestamp))
    preview = _preview(market, oracle.readings.get(market.id)) if now.timestamp > market.final_time else None
    listed = _listed(market, snapshot, oracle, view)
    return MarketDetailBody(
        market=listed,
        headroom=_pair(view.headroom),
        positions=positions,
        resolution=_resolution(market),
        head=head_body(snapshot.head),
        entries_paused=snapshot.entries_paused,
        vintage_block=None if view.vintage_block is None else str(view.vintage_block),
        kappa=str(market.market.terms.kappa),
        books=[body_from(BookBody, book) for book in view.books],
        finder=None if preview is None else _finder(market, prices, preview),
        preview=preview,
        activity=True,
        read_at=read_at,
        stale=stale or has_stale_feed(listed, oracle),
    )


def has_stale_feed(listed: MarketBody, oracle: Oracle) -> bool:
    """Return whether an unsettled market shows only the last good round, because its feed is unreadable."""
    return listed.feed in oracle.unreadable and listed.phase not in (Phase.RESOLVED.value, Phase.VOID.value)


def prices_of(market: ListedMarket, oracle: Oracle, phase: Phase) -> Prices:
    latest, is_unreadable = oracle.latest.get(market.feed), market.feed in oracle.unreadable
    settled = market.result
    reading = oracle.readings.get(market.id)
    strike: Round | None = None
    final: Round | None = None
    strike_missing: str | None = None
    final_missing: str | None = None
    if settled is not None and settled.strike is not None:
        strike, final = settled.strike, settled.final
    elif phase is Phase.OPENS:
        missing = "the feed has no round yet" if latest is None else words.UNREADABLE if is_unreadable else None
        return Prices(latest, missing, latest, None, None)
    elif reading is not None:
        strike, final = reading.strike, reading.final
        strike_missing = words.problem(reading.strike_problem) if strike is None else None
        final_missing = words.problem(reading.final_problem) if final is None else None
    else:
        strike_missing = final_missing = "the reading has not been loaded from the chain yet"
    if strike is not None:
        age = market.strike_time - strike.updated_at
        strike_missing = words.reading_problem(strike.answer, age, market.max_strike_age)
    if final is not None:
        age = market.final_time - final.updated_at
        final_missing = words.reading_problem(final.answer, age, market.max_final_age)
    live = final if market.market.settled and final is not None else latest
    return Prices(strike, strike_missing, live, final, final_missing)


def round_body(the_round: Round | None) -> RoundBody | None:
    if the_round is None:
        return None
    return RoundBody(answer=str(the_round.answer), round_id=str(the_round.id), at=the_round.updated_at)


def outcome_name(market: ListedMarket, settled: MarketResult) -> OutcomeName:
    if settled.outcome is None:
        return "VOID" if market.market.winner is None else SIDES[market.market.winner]
    return cast("OutcomeName", StockOutcome(settled.outcome).name)


def void_reason(settled: MarketResult) -> VoidReasonName | None:
    """Return why a market is void, or None if its rounds decided it."""
    if settled.reason is None:
        return "timeout"
    void = _VOIDS.get(StockReason(settled.reason))
    return None if void is None else void[0]


def _listed(market: ListedMarket, snapshot: MarketsSnapshot, oracle: Oracle, view: MarketView) -> MarketBody:
    now = snapshot.head.timestamp
    phase = market.phase(now)
    terms = market.market.terms
    winner = market.market.winner
    prices = prices_of(market, oracle, phase)
    up, down = view.books
    halted = oracle.halts.get(market.feed) if phase in (Phase.OPENS, Phase.LIVE) else None
    accepting = phase in (Phase.OPENS, Phase.LIVE) and not snapshot.entries_paused and halted is None
    never_null = phase is not Phase.OPENS  # as the specification demands of strike, live and change
    return body_from(
        MarketBody,
        market,
        family=FAMILIES[market.family],
        question=words.question(market),
        phase=phase.value,
        status=words.status(phase, winner),
        winner=None if winner is None else SIDES[winner],
        strike=round_body(prices.strike) or (_NO_ROUND if never_null else None),
        strike_problem=prices.strike_problem,
        live=round_body(prices.live) or (_NO_ROUND if never_null else None),
        change=_change(prices.strike, prices.live, never_null=never_null),
        pool=_pair((up.principal, down.principal)),
        totals=TotalsBody(
            pool=str(view.pool),
            up=str(up.principal),
            down=str(down.principal),
            pending_up=str(view.books[UP].demand),
            pending_down=str(view.books[DOWN].demand),
            paid_out=str(market.market.paid),
        ),
        headroom=_pair(view.headroom),
        limits=body_from(LimitsBody, terms),
        quotes=example_quotes(market, snapshot, accepting=accepting),
        accepting_bets=accepting,
        bets_halted=halted,
        seed_per_leg=str(terms.seed_per_leg),
        rules=words.rules(market),
    )


def _change(strike: Round | None, live: Round | None, *, never_null: bool) -> ChangeBody | None:
    if strike is None or live is None or not 0 < strike.answer < TOO_HIGH:
        return ChangeBody(direction="FLAT", bps=0, text="unknown") if never_null else None
    difference = live.answer - strike.answer
    bps = change_bps(strike.answer, live.answer)
    direction = "FLAT" if difference == 0 else SIDES[UP if difference > 0 else DOWN]
    return ChangeBody(direction=direction, bps=bps, text=words.change_text(bps, difference))


def head_body(head: Head) -> HeadBody:
    return HeadBody(block_number=str(head.number), l1_block_number=str(head.l1_number), timestamp=head.timestamp)


def _resolution(market: ListedMarket) -> ResolutionBody | None:
    settled = market.result
    if settled is None:
        return None
    if settled.reason is None:
        detail = f"No one settled the market by {words.utc(market.voidable_at)}."
    else:
        void = _VOIDS.get(StockReason(settled.reason))
        detail = "The final reading decided." if void is None else void[2]
    return ResolutionBody(
        outcome=outcome_name(market, settled),
        reason=void_reason(settled),
        detail=detail,
        strike_round=None if settled.strike is None else str(settled.strike.id),
        final_round=None if settled.final is None else str(settled.final.id),
        strike=round_body(settled.strike),
        final=round_body(settled.final),
        tx=settled.tx,
        at=settled.at,
    )


def _finder(market: ListedMarket, prices: Prices, preview: PreviewBody) -> FinderBody:
    """Build the body with the two rounds that the finder proved. The resolver's preview is needed, because only the
    resolver knows of pauses, splits and outages between the rounds."""
    strike, final = prices.strike, prices.final
    missing = strike is None or final is None
    expected: OutcomeName | None = None
    if strike is not None and final is not None:
        interrupted = preview.status in (PreviewStatus.PAUSED, PreviewStatus.STALE)
        verdict = judge(market.spec, strike, final, paused=interrupted)
        decides = verdict in (PreviewStatus.UP, PreviewStatus.DOWN, PreviewStatus.FLAT)
        expected = cast("OutcomeName", verdict.name) if decides else "VOID"
    problem = None
    if prices.strike_problem is not None:
        problem = f"strike: {prices.strike_problem}"
    elif prices.final_problem is not None:
        problem = f"final: {prices.final_problem}"
    return FinderBody(
        ok=not missing,
        strike_round=None if strike is None else str(strike.id),
        final_round=None if final is None else str(final.id),
        strike=round_body(strike),
        final=round_body(final),
        expected=expected,
        problem=problem,
    )


def _preview(market: ListedMarket, reading: MarketReadings | None) -> PreviewBody:
    """Build the resolver's preview. For a market that rounds settled, build the preview from its result."""
    settled = market.result
    if settled is not None and settled.strike is not None and settled.final is not None:
        preview = ResolverPreview(
            _settled_status(settled.outcome, settled.reason),
            settled.strike.id,
            settled.strike.answer,
            settled.strike.updated_at,
            settled.final.id,
            settled.final.answer,
            settled.final.updated_at,
        )
    elif reading is not None and reading.preview is not None:
        preview = reading.preview
    else:  # the chain has not been read since the bell
        preview = ResolverPreview(PreviewStatus.NOT_READY)
    return body_from(PreviewBody, preview, name=PreviewStatus(preview.status).name.replace("_", " "))


def _settled_status(outcome: int | None, reason: int | None) -> PreviewStatus:
    void = _VOIDS.get(StockReason(reason or 0))
    if void is not None:
        return void[1]
    return PreviewStatus.UP if outcome == StockOutcome.UP else PreviewStatus.DOWN


def _pair(values: tuple[int, int]) -> UpDown:
    return UpDown(up=str(values[UP]), down=str(values[DOWN]))


# ---------------------------------------------------------------- positions


def position_body(market: ListedMarket, entry: HeldPosition, now: Moment) -> PositionBody:
    return _position(market, entry, position_view(market.market, entry.position, entry.vintage, now))


def owner_bodies(
    positions: Sequence[HeldPosition], markets: Mapping[int, ListedMarket], now: Moment
) -> list[OwnedPositionBody]:
    rows = []
    for entry in positions:
        market = markets.get(entry.position.market_id)
        if market is None:
            continue
        view = position_view(market.market, entry.position, entry.vintage, now)
        phase = market.phase(now.timestamp)
        winner = market.market.winner
        rows.append(
            body_from(
                OwnedPositionBody,
                _position(market, entry, view),
                market,
                view,
                question=words.question(market),
                phase=phase.value,
                status=words.status(phase, winner),
                winner=None if winner is None else SIDES[winner],
            )
        )
    return rows


def _position(market: ListedMarket, entry: HeldPosition, view: PositionView) -> PositionBody:
    position = entry.position
    return body_from(
        PositionBody,
        view,
        entry,
        position,
        id=str(position.position_id),
        side=SIDES[position.outcome],
        opener=entry.entered_by == market.opener,
        finalized=view.accepted is not None,
        vintage=str(position.vintage),
        settlement=body_from(SettlementBody, view.settlement),
    )
