"""Markets in lists, details, quotes and research, and their results."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from api.agent.bodies.parts import NETWORK, AgentMarketTimes, ChainAnswer, feed_usd, pct, percents, prices, times, usd
from api.agent.facts import Ending, FeedRound, Links, ListedMarket, MarketsSnapshot
from api.operations import Body, body_from
from core.agent.document import Category
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import USD, json_ratio_down

DEFAULT_TICKET = 5 * USD
FEE_RECIPIENT = "Service treasury"


class OutcomeRef(Body):
    key: str
    label: str
    short_label: str
    lower_usd: Decimal | None
    upper_usd: Decimal | None
    prior_pct: Annotated[Decimal, Meta(description="Its price before the first bet.")]
    start_at: str | UnsetType = UNSET
    end_at: str | UnsetType = UNSET


def outcome_refs(market: ListedMarket) -> list[OutcomeRef]:
    window: dict[str, Any] = {}
    if market.kind is MarketKind.DIRECTION:
        window = {"start_at": iso(market.spec.start_at), "end_at": iso(market.spec.ends_at)}
    return [
        OutcomeRef(
            key=each.key,
            label=each.label,
            short_label=each.short_label,
            lower_usd=None if each.lower is None else feed_usd(each.lower),
            upper_usd=None if each.upper is None else feed_usd(each.upper),
            prior_pct=prior,
            **window,
        )
        for each, prior in zip(market.outcomes, percents(market.book.weights), strict=True)
    ]


class Odds(Body):
    yes_price_cents: Decimal | None
    no_price_cents: Decimal | None


def odds(market: ListedMarket) -> Odds:
    """Return the two sides' prices, which are null after the end and on range markets, whose outcomes have prices."""
    if market.kind is MarketKind.RANGE or market.ending is not None:
        return Odds(yes_price_cents=None, no_price_cents=None)
    yes, no = prices(market.book)
    return Odds(yes_price_cents=yes, no_price_cents=no)


class MarketLinks(Body):
    app: str
    quote: str
    trade: str
    research: str


class SettlementRef(Body):
    contract: str
    market_key: str


class MarketFacts(AgentMarketTimes, kw_only=True):
    """The market fields that do not change with every bet. Proofs have them, too."""

    id: str
    slug: str
    question: str
    short_title: str
    summary: str
    category: Category
    token_symbol: str
    chain_id: Literal["base"]
    deadline_label: str
    status: Literal["open", "closed", "resolved", "void"]
    fee_bps: int
    fee_recipient_label: str
    default_ticket_usd: Decimal
    virtual_liquidity_usd: Decimal
    pot_cap_usd: Decimal
    target_market_cap_usd: Decimal | None
    outcomes: list[OutcomeRef] | None
    headline: str | None
    links: MarketLinks
    series: str | None
    settlement: SettlementRef


def market_facts(market: ListedMarket, links: Links, now: int) -> dict[str, Any]:
    """Return the fields that are not attributes of the market's words or book."""
    metadata = market.metadata if market.supported else None
    return {
        **times(market),
        "slug": market.id,
        "category": market.metric,
        "chain_id": NETWORK,
        "status": market.status(now),
        "fee_recipient_label": FEE_RECIPIENT,
        "default_ticket_usd": usd(DEFAULT_TICKET),
        "virtual_liquidity_usd": usd(sum(market.book.weights)),
        "pot_cap_usd": usd(market.pot_cap),
        "target_market_cap_usd": feed_usd(market.spec.target) if market.kind is MarketKind.THRESHOLD else None,
        "outcomes": outcome_refs(market),
        "headline": None,
        "links": MarketLinks(
            app=links.app(market),
            quote=f"{links.api}/quote?marketId={market.id}",
            trade=f"{links.api}/trade",
            research=f"{links.api}/markets/{market.id}/research",
        ),
        "series": None if metadata is None else metadata.series or None,
        "settlement": SettlementRef(contract=links.settlement, market_key=hex_of(market.key)),
    }


class PricedOutcome(OutcomeRef, kw_only=True):
    implied_pct: Annotated[
        Decimal | None, Meta(description="Its price; the prices of all outcomes add up to 100. null after the end.")
    ]


class Ended(Body):
    """A market's result in short. `outcome`: the winning outcome's key, or `void`."""

    outcome: str
    label: str
    resolved_at: str
    refunded: bool


def ended(market: ListedMarket, ending: Ending) -> Ended:
    won = None if ending.winner is None else market.outcomes[ending.winner]
    return Ended(
        outcome="void" if won is None else won.key,
        label="Void, stakes refunded" if won is None else won.label,
        resolved_at=iso(ending.at),
        refunded=market.refunded(),
    )


class AgentMarketRef(MarketFacts, kw_only=True):
    outcomes: list[PricedOutcome] | None  # type: ignore[assignment]
    volume_usd: Decimal
    total_bets: int
    volume24h_usd: Decimal
    odds: Annotated[Odds | None, Meta(description="null after the end, when there is a `result`.")]
    result: Ended | None
    opens_at: Annotated[
        str | None,
        Meta(
            description="When betting begins, if the market is `closed` because betting has not begun; otherwise null."
        ),
    ]


def market_ref(market: ListedMarket, snapshot: MarketsSnapshot, links: Links) -> AgentMarketRef:
    return body_from(AgentMarketRef, market.words, market.book, **_ref(market, snapshot, links))


def _ref(market: ListedMarket, snapshot: MarketsSnapshot, links: Links) -> dict[str, Any]:
    is_over = market.ending is not None
    facts = market_facts(market, links, snapshot.now)
    facts["outcomes"] = [
        PricedOutcome(**msgspec.structs.asdict(each), implied_pct=None if is_over else price)
        for each, price in zip(facts["outcomes"], prices(market.book), strict=True)
    ]
    return {
        **facts,
        "volume_usd": usd(market.volume),
        "total_bets": market.bets,
        "volume24h_usd": usd(snapshot.volume_24h.get(market.key, 0)),
        "odds": None if is_over else odds(market),
        "result": None if market.ending is None else ended(market, market.ending),
        "opens_at": iso(market.spec.opens_at) if market.opens_later(snapshot.now) else None,
    }


class BookStats(Body):
    total_bets: int
    total_pool_usd: Decimal
    yes_pool_usd: Decimal
    no_pool_usd: Decimal
    fee_usd: Decimal


def stats(market: ListedMarket) -> BookStats:
    """Return the book's totals, net of fees. On a range market, `yes` is the leading bucket and `no` all others."""
    net = market.book.net
    yes = max(net) if market.kind is MarketKind.RANGE else net[0]
    return BookStats(
        total_bets=market.bets,
        total_pool_usd=usd(sum(net)),
        yes_pool_usd=usd(yes),
        no_pool_usd=usd(sum(net) - yes),
        fee_usd=usd(market.volume - sum(net)),
    )


class AgentMarketDetail(AgentMarketRef, kw_only=True):
    stats: BookStats


def market_detail(market: ListedMarket, snapshot: MarketsSnapshot, links: Links) -> AgentMarketDetail:
    return body_from(AgentMarketDetail, market.words, market.book, **_ref(market, snapshot, links), stats=stats(market))


class Markets(ChainAnswer):
    count: int
    markets: list[AgentMarketRef]
    next_cursor: str | None


class OneMarket(ChainAnswer):
    market: AgentMarketDetail


class Rung(OutcomeRef, kw_only=True):
    start_at: str | None  # type: ignore[assignment]
    end_at: str | None  # type: ignore[assignment]
    implied_pct: Decimal
    backed_usd: Decimal
    is_current: bool


class Ladder(Body):
    outcomes: list[Rung]
    current_bucket_key: str | None
    current_market_cap_usd: Decimal | None
    total_backed_usd: Decimal


def ladder(market: ListedMarket, latest: FeedRound | None) -> Ladder | None:
    if market.kind is not MarketKind.RANGE:
        return None
    current = None if latest is None else sum(latest.value >= bound for bound in market.spec.bounds)
    rungs = [
        Rung(
            **{**msgspec.structs.asdict(each), "start_at": None, "end_at": None},
            implied_pct=price,
            backed_usd=usd(market.book.net[at]),
            is_current=at == current,
        )
        for at, (each, price) in enumerate(zip(outcome_refs(market), prices(market.book), strict=True))
    ]
    return Ladder(
        outcomes=rungs,
        current_bucket_key=None if current is None else market.outcomes[current].key,
        current_market_cap_usd=None if latest is None else feed_usd(latest.value),
        total_backed_usd=usd(market.book.net_pool),
    )


class TokenSnapshot(Body):
    token_symbol: str
    current_market_cap_usd: Decimal
    current_price_usd: Decimal | None
    target_market_cap_usd: Decimal
    distance_to_target_pct: Decimal
    reached_target: bool
    source: str
    source_url: str
    observed_at: str


def token_snapshot(market: ListedMarket, latest: FeedRound | None, links: Links) -> TokenSnapshot | None:
    """Compare the token with the target, if the market has exactly one target and there is a valid reading."""
    if market.kind is not MarketKind.THRESHOLD or latest is None or latest.value <= 0:
        return None
    return TokenSnapshot(
        token_symbol=market.token_symbol,
        current_market_cap_usd=feed_usd(latest.value),
        current_price_usd=None,
        target_market_cap_usd=feed_usd(market.spec.target),
        # The rise still needed, in percent of the current value; negative above the target.
        distance_to_target_pct=pct(market.spec.target - latest.value, latest.value),
        reached_target=latest.value >= market.spec.target,
        source=market.words.source,
        source_url=links.address(market.feed) or links.app(market),
        observed_at=iso(latest.updated_at),
    )


class AgentResult(AgentMarketTimes):
    market_id: str
    status: Literal["resolved", "pending"]
    resolved_outcome: str | None
    resolved_outcome_label: str | None
    resolved_at: str | None
    source: str
    source_url: str | None
    observed_market_cap_usd: Decimal | None
    start_reading_usd: Annotated[Decimal | None, Meta(description="On an up or down market, the reading at the start.")]
    end_reading_usd: Annotated[Decimal | None, Meta(description="The reading that decided the market.")]
    payout_per_share_usd: Decimal | None
    pool_usd: Decimal
    winning_shares: Decimal
    proof_url: str | None
    refunded: bool
    tx_hash: str | None


class ResultBody(ChainAnswer):
    result: AgentResult


def result(market: ListedMarket, links: Links) -> AgentResult:
    """Return a market's result. A void market is `resolved` with outcome `void`, and every stake is refunded."""
    ending, book = market.ending, market.book
    over = None if ending is None else ended(market, ending)
    answers = (None, None) if ending is None else (ending.start_answer, ending.end_answer)
    start, end = (None if each is None else feed_usd(each) for each in answers)
    share = book.share_payout(market.winner)
    return AgentResult(
        **times(market),
        market_id=market.id,
        status="pending" if over is None else "resolved",
        resolved_outcome=None if over is None else over.outcome,
        resolved_outcome_label=None if over is None else over.label,
        resolved_at=None if over is None else over.resolved_at,
        source=market.words.source,
        source_url=links.address(market.feed),
        observed_market_cap_usd=end if market.kind is not MarketKind.DIRECTION else None,
        start_reading_usd=start,
        end_reading_usd=end,
        payout_per_share_usd=None if share is None else json_ratio_down(*share, 6),
        pool_usd=usd(book.net_pool),
        winning_shares=usd(0 if market.winner is None else book.shares[market.winner]),
        proof_url=None if ending is None else links.tx(ending.tx),
        refunded=market.refunded(),
        tx_hash=None if ending is None else hex_of(ending.tx),
    )
