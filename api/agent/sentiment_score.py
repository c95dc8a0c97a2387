"""The sentiment score of a token's live markets. Pure.

Amounts are token units (6 decimals), probabilities are wads (10**18 is one), scores are hundredths of a point (5_000 is
the neutral 50), and cents are whole. Every division names its rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from api.agent.facts import FeedRound, ListedMarket
from core.agent.book import bucket
from core.agent.fixed import WAD
from core.contracts.statuses import MarketKind
from core.money import USD

Label = Literal["strongly_bullish", "bullish", "neutral", "bearish", "strongly_bearish"]
Basis = Literal["pool_weighted", "equal_weight", "none"]
Confidence = Literal["high", "medium", "low", "none"]
CrowdQuality = Literal["broad", "mixed", "concentrated", "none"]
SideLabel = Literal["UP", "DOWN", "YES", "NO"]

POINT: Final = 100
NEUTRAL: Final = 50 * POINT
HIGH_BETTORS, HIGH_POOL = 20, 1_000 * USD
MEDIUM_BETTORS, MEDIUM_POOL = 5, 100 * USD
BROAD_BETTORS, BROAD_TOP_PCT = 10, 25
FEW_BETTORS, CONCENTRATED_TOP_PCT = 3, 50


@dataclass(frozen=True, slots=True)
class Crowd:
    """The bettors on a token's live markets: the number of wallets, the total staked and the largest wallet's stake,
    fees included. `directional_bettors` counts the wallets on directional markets."""

    bettors: int = 0
    directional_bettors: int = 0
    staked: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True)
class MarketSignal:
    """A live market and its bullish outcomes, which are None if the market has no direction."""

    market: ListedMarket
    bullish_outcomes: tuple[int, ...] | None

    @property
    def pool(self) -> int:
        return self.market.book.net_pool

    @property
    def directional(self) -> bool:
        return self.bullish_outcomes is not None

    @property
    def bullish(self) -> int:
        """Return the probability of the bullish outcomes. Prices are rounded down, so the probability is at most
        one."""
        return sum(self.market.book.price(outcome) for outcome in self.bullish_outcomes or ())


@dataclass(frozen=True, slots=True)
class Score:
    """A token's sentiment score, with its confidence."""

    points: int
    label: Label
    basis: Basis
    confidence: Confidence
    markets: int
    pool: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The bet that the sentiment suggests."""

    market: ListedMarket
    outcome: int
    label: SideLabel
    cents: int


def market_signals(markets: Sequence[ListedMarket], latest: Mapping[str, FeedRound]) -> list[MarketSignal]:
    """Return the markets' signals: largest pool first, then earliest deadline, then id."""
    live = [MarketSignal(each, bullish_outcomes(each, latest.get(each.feed))) for each in markets]
    return sorted(live, key=lambda each: (-each.pool, each.market.closes_at, each.market.id))


def bullish_outcomes(market: ListedMarket, latest: FeedRound | None) -> tuple[int, ...] | None:
    """Return the bullish outcomes: `yes` or `up`. For a range market, return the buckets entirely above the current
    value, or None if that value is unknown."""
    if market.kind is not MarketKind.RANGE:
        return (0,)
    return None if latest is None else tuple(range(bucket(market.spec.bounds, latest.value) + 1, len(market.outcomes)))


def score_of(live: Sequence[MarketSignal], crowd: Crowd) -> Score:
    """Return 100 x sum(pool x bullish) / sum(pool), rounded to the nearest hundredth, halves up. If every pool is
    empty, all markets have equal weights."""
    directional = [(each.pool, each.bullish) for each in live if each.directional]
    pool = sum(weight for weight, _ in directional)
    if not directional:
        return Score(NEUTRAL, _label(NEUTRAL), "none", "none", 0, 0)
    weighted = sum((weight if pool else 1) * bullish for weight, bullish in directional)
    whole = (pool or len(directional)) * WAD
    points = (2 * 100 * POINT * weighted + whole) // (2 * whole)
    basis: Basis = "pool_weighted" if pool else "equal_weight"
    return Score(points, _label(points), basis, _confidence(crowd.directional_bettors, pool), len(directional), pool)


def _label(points: int) -> Label:
    if points >= 80 * POINT:
        return "strongly_bullish"
    if points >= 60 * POINT:
        return "bullish"
    if points > 40 * POINT:
        return "neutral"
    return "bearish" if points > 20 * POINT else "strongly_bearish"


def _confidence(bettors: int, pool: int) -> Confidence:
    if bettors >= HIGH_BETTORS and pool >= HIGH_POOL:
        return "high"
    if bettors >= MEDIUM_BETTORS and pool >= MEDIUM_POOL:
        return "medium"
    return "low" if bettors else "none"


def quality_of(crowd: Crowd) -> CrowdQuality:
    """Rate how evenly the stakes are distributed."""
    if crowd.bettors == 0:
        return "none"
    largest = 100 * crowd.largest
    if crowd.bettors < FEW_BETTORS or largest >= CONCENTRATED_TOP_PCT * crowd.staked:
        return "concentrated"
    return "broad" if crowd.bettors >= BROAD_BETTORS and largest < BROAD_TOP_PCT * crowd.staked else "mixed"


def suggestion(live: Sequence[MarketSignal], points: int) -> Suggestion | None:
    """Return a bet on the crowd's side of the directional market with the largest pool. At 50 points, the crowd's side
    is the bullish one. A range market is used only if no other market is directional; the bet is then on the most
    expensive bucket of the crowd's side."""
    bullish = points >= NEUTRAL
    for each in sorted(live, key=lambda each: each.market.kind is MarketKind.RANGE):  # stable: pools stay in order
        if each.bullish_outcomes is None:
            continue
        market = each.market
        side = [at for at in range(len(market.outcomes)) if (at in each.bullish_outcomes) == bullish]
        if side:  # a range market may have no bucket above the current value
            outcome = max(side, key=lambda at: (market.book.price(at), -at))
            return Suggestion(market, outcome, _side_label(market, outcome), _cents(market.book.price(outcome)))
    return None


def _side_label(market: ListedMarket, outcome: int) -> SideLabel:
    match market.kind:
        case MarketKind.DIRECTION:
            return "DOWN" if outcome else "UP"
        case MarketKind.THRESHOLD:
            return "NO" if outcome else "YES"
        case MarketKind.RANGE:  # a bet on a bucket is a yes to it
            return "YES"


def _cents(price: int) -> int:
    """Round a price to the nearest cent, halves up."""
    return (2 * 100 * price + WAD) // (2 * WAD)
