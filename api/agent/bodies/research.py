"""The research bundle: the rules and readings that decide a market, its history, and the impact of bets."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

from api.agent.bodies.markets import AgentMarketRef, BookStats, Ladder, Odds, TokenSnapshot
from api.agent.bodies.parts import (
    AgentMarketTimes,
    BetWarning,
    ChainAnswer,
    average_cents,
    feed_usd,
    pct,
    percents,
    project_quote,
    times,
    usd,
)
from api.agent.facts import FeedRound, Links, ListedMarket, Stake, deciding_times
from api.operations import Body
from core.agent.document import Category
from core.agent.fixed import WAD
from core.agent.words import usd_label
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.iso import iso
from core.money import USD

IMPACT_SIZES = (1, 5, 10, 50, 100, 500, 1_000)


class SourcePool(Body):
    name: str
    address: str
    url: str | None


class ComputedFrom(Body):
    description: str
    pools: list[SourcePool]
    window_seconds: int
    step_seconds: int
    supply: str


class ResolutionRules(AgentMarketTimes):
    """A market's rules. `feedKind` is `pool` if readings are computed from pools, `published` if a publisher posts
    them, `rounds` if another feed on the chain has them."""

    source: str
    source_url: str | None
    metric: Category
    comparator: str | None
    threshold_label: str | None
    early_resolvable: bool
    description: str
    feed_kind: Literal["pool", "published", "rounds"]
    computed_from: ComputedFrom | None


def rules(market: ListedMarket, links: Links) -> ResolutionRules:
    computed = market.words.computed
    return ResolutionRules(
        **times(market),
        source=market.words.source,
        source_url=links.address(market.feed),
        metric=market.metric,
        comparator={MarketKind.THRESHOLD: ">=", MarketKind.DIRECTION: ">"}.get(market.kind),
        threshold_label=usd_label(market.spec.target) if market.kind is MarketKind.THRESHOLD else None,
        early_resolvable=market.spec.early_resolvable,
        description=market.words.rules_text,
        feed_kind="pool" if computed is not None else "published" if market.spec.published else "rounds",
        computed_from=None
        if computed is None
        else ComputedFrom(
            description=computed.sentence,
            pools=[
                SourcePool(name=pool.name, address=pool.address, url=links.address(pool.address))
                for pool in computed.pools
            ],
            window_seconds=computed.window,
            step_seconds=computed.step,
            supply=computed.supply,
        ),
    )


class DecidingReading(Body):
    """A reading that decides a market, with the transaction that recorded it, if any."""

    moment: str
    read_at: str
    value: Decimal | None
    recorded: bool
    tx_hash: str | None
    tx_url: str | None


def decided_by(
    market: ListedMarket, now: int, readings: Mapping[int, FeedRound], links: Links
) -> list[DecidingReading]:
    return [
        DecidingReading(
            moment=iso(moment),
            read_at=iso(at),
            value=feed_usd(reading.value) if reading is not None and reading.value > 0 else None,
            recorded=reading is not None,
            tx_hash=None if reading is None else hex_of(reading.tx),
            tx_url=None if reading is None else links.tx(reading.tx),
        )
        for moment, at in deciding_times(market, now).items()
        for reading in (readings.get(at),)
    ]


class OddsPoint(Body):
    """The price after a bet. `yesPct`: the first outcome's percentage, on two-sided markets."""

    at: str
    yes_pct: Decimal | None
    outcome_key: str | None
    size_usd: Decimal


def odds_history(market: ListedMarket, stakes: list[Stake]) -> list[OddsPoint]:
    points = []
    for each in stakes:
        yes = None
        if market.kind is not MarketKind.RANGE and each.price_after is not None:
            taken = each.price_after if each.outcome == 0 else WAD - each.price_after
            yes = percents((taken, WAD - taken))[0]
        key = None if each.outcome is None else market.outcomes[each.outcome].key
        points.append(OddsPoint(at=iso(each.at), yes_pct=yes, outcome_key=key, size_usd=usd(each.amount)))
    return points


class ObservationPoint(Body):
    observed_at: str
    value: Decimal | None
    label: str | None
    source_url: str | None
    tx_hash: str
    tx_url: str | None


def observations(market: ListedMarket, rounds: list[FeedRound], links: Links) -> list[ObservationPoint]:
    url = links.address(market.feed)
    return [
        ObservationPoint(
            observed_at=iso(each.updated_at),
            value=feed_usd(each.value) if each.value > 0 else None,
            label=usd_label(each.value) if each.value > 0 else None,
            source_url=url,
            tx_hash=hex_of(each.tx),
            tx_url=links.tx(each.tx),
        )
        for each in rounds
    ]


class RelatedMarket(AgentMarketTimes):
    id: str
    slug: str
    question: str
    category: Category


def related(market: ListedMarket) -> RelatedMarket:
    return RelatedMarket(
        **times(market), id=market.id, slug=market.id, question=market.words.question, category=market.metric
    )


class ImpactRow(Body):
    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]
    size_usd: Decimal
    price_cents: Decimal | None
    impact_pct: Decimal | None


def impact(market: ListedMarket) -> list[ImpactRow]:
    """Return the impact of bets of several sizes on the first outcome."""
    rows = []
    for dollars in IMPACT_SIZES:
        quoted = market.book.quote(0, dollars * USD)
        rows.append(
            ImpactRow(
                **project_quote(market, 0, quoted).fields(),
                size_usd=usd(quoted.amount),
                price_cents=average_cents(quoted.net, quoted.shares),
                impact_pct=pct(quoted.price_after - quoted.price_before, WAD),
            )
        )
    return rows


class DataFreshness(Body):
    odds_at: str | None
    snapshot_at: str | None
    observations_at: str | None


class AgentResearch(Body):
    market: AgentMarketRef
    resolution_rules: ResolutionRules
    odds: Odds
    stats: BookStats | None
    ladder: Ladder | None
    token_snapshot: TokenSnapshot | None
    odds_history: list[OddsPoint]
    observations: list[ObservationPoint]
    decided_by: list[DecidingReading]
    related: list[RelatedMarket]
    impact: list[ImpactRow]
    advisory: str | None
    disclaimer: str
    data_freshness: DataFreshness


class ResearchBody(ChainAnswer):
    research: AgentResearch
