"""`GET /sentiment`: the crowd's view of a token. `docs/discovery.md` has the formulas. Amounts are token units (6
decimals), probabilities are wads, scores are hundredths of a point (5_000 is the neutral 50), and cents are whole."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Final, Literal

from aiohttp import web
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from sqlalchemy import func, select

from api.agent.bodies.markets import odds
from api.agent.bodies.parts import ChainAnswer, NamedMarket, chain_meta, names, usd
from api.agent.errors import problem, storage
from api.agent.facts import FeedRound, Links, ListedMarket, MarketsSnapshot
from api.agent.index import AgentParts
from api.caching import VersionedCache, json_response
from api.openapi import required
from api.operations import Body
from api.requests import read_query
from core.agent.book import bucket
from core.agent.document import Category
from core.agent.fixed import WAD
from core.contracts.statuses import MarketKind
from core.db.schema.index_agent import agent_stake
from core.iso import iso
from core.money import USD, decimal_text, json_number, json_ratio_down

Label = Literal["strongly_bullish", "bullish", "neutral", "bearish", "strongly_bearish"]
Basis = Literal["pool_weighted", "equal_weight", "none"]
Confidence = Literal["high", "medium", "low", "none"]
CrowdQuality = Literal["broad", "mixed", "concentrated", "none"]
SideLabel = Literal["UP", "DOWN", "YES", "NO"]
SIDE_LABELS: Final[Mapping[MarketKind, tuple[SideLabel, SideLabel]]] = {
    MarketKind.DIRECTION: ("UP", "DOWN"),
    MarketKind.THRESHOLD: ("YES", "NO"),
}

POINT: Final = 100
NEUTRAL: Final = 50 * POINT
HIGH_BETTORS, HIGH_POOL = 20, 1_000 * USD
MEDIUM_BETTORS, MEDIUM_POOL = 5, 100 * USD
BROAD_BETTORS, BROAD_TOP_PCT = 10, 25
FEW_BETTORS, CONCENTRATED_TOP_PCT = 3, 50
POINT_DECIMALS = 2
MAX_TOKENS = 1_000
Percent = Annotated[Decimal, Meta(extra_json_schema={"minimum": 0, "maximum": 100})]
# Published as ASCII; symbols in other scripts are accepted too.
_SYMBOL = re.compile(r"\S{1,32}")


class SentimentQuery(BaseModel):
    # Checked by hand, since the refusal is 422 instead of the usual 400.
    model_config = ConfigDict(json_schema_extra=required("token"))

    token: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1})] | None = Field(
        default=None, description="`$SYM` or `SYM`, in any case: 1 to 32 printable characters without a space."
    )


class SentimentScore(Body):
    score: Percent
    lean: Annotated[Decimal, Meta(extra_json_schema={"minimum": -50, "maximum": 50})]
    label: Label
    basis: Basis
    confidence: Confidence
    directional_market_count: int
    directional_pool_usd: Decimal
    directional_bettors: int


class SuggestedBet(NamedMarket):
    side: str
    side_label: SideLabel
    implied_cents: int
    bet_url: str


class SentimentQuality(Body):
    distinct_bettors: int
    top_wallet_pct: Percent
    label: CrowdQuality


class SentimentActivity(Body):
    total_bets: int
    total_pool_usd: Decimal


class SentimentMarket(NamedMarket):
    """A market that counts towards the sentiment. `pool` is USD without fees. `bullishPct` is null if the market has no
    direction, `yesPriceCents` is null for a range."""

    kind: Category
    yes_price_cents: Decimal | None
    pool: Decimal
    total_bets: int
    directional: bool
    bullish_pct: Decimal | None
    app_url: str


class SentimentIntel(Body):
    token: str
    has_signal: bool
    market_count: int
    sentiment: SentimentScore
    suggested_bet: SuggestedBet | None
    quality: SentimentQuality
    activity: SentimentActivity
    top_market: SentimentMarket | None
    markets: list[SentimentMarket]
    summary: str
    as_of: str


class SentimentBody(ChainAnswer):
    token: str
    intel: SentimentIntel


@dataclass(frozen=True, slots=True)
class Crowd:
    """The bettors on a token's live markets: their number, their stakes (fees included), and the largest wallet's
    stakes."""

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
        """Return the probability of the bullish outcomes. It is at most one, because prices are rounded down."""
        return sum(self.market.book.price(outcome) for outcome in self.bullish_outcomes or ())


def market_signals(markets: Sequence[ListedMarket], latest: Mapping[str, FeedRound]) -> list[MarketSignal]:
    """Return the markets' signals: largest pool first, then earliest deadline, then id."""
    live = [MarketSignal(each, bullish_outcomes(each, latest.get(each.feed))) for each in markets]
    return sorted(live, key=lambda each: (-each.pool, each.market.closes_at, each.market.id))


def bullish_outcomes(market: ListedMarket, latest: FeedRound | None) -> tuple[int, ...] | None:
    """Return the outcomes that win if the value rises: `yes`, `up`, or the range buckets above the current value.
    Return None if that value is unknown."""
    if market.kind is not MarketKind.RANGE:
        return (0,)
    return None if latest is None else tuple(range(bucket(market.spec.bounds, latest.value) + 1, len(market.outcomes)))


def score_of(live: Sequence[MarketSignal], crowd: Crowd) -> SentimentScore:
    """Return 100 x sum(pool x bullish) / sum(pool), rounded to the nearest hundredth, halves up. If every pool is
    empty, all markets have equal weights."""
    directional = [(each.pool, each.bullish) for each in live if each.directional]
    pool = sum(weight for weight, _ in directional)
    points = NEUTRAL
    basis: Basis = "none"
    confidence: Confidence = "none"
    if directional:
        weighted = sum((weight if pool else 1) * bullish for weight, bullish in directional)
        whole = (pool or len(directional)) * WAD
        points = (2 * 100 * POINT * weighted + whole) // (2 * whole)
        basis = "pool_weighted" if pool else "equal_weight"
        confidence = _confidence(crowd.directional_bettors, pool)
    return SentimentScore(
        score=json_number(points, POINT_DECIMALS),
        lean=json_number(points - NEUTRAL, POINT_DECIMALS),
        label=_label(points),
        basis=basis,
        confidence=confidence,
        directional_market_count=len(directional),
        directional_pool_usd=usd(pool),
        directional_bettors=crowd.directional_bettors,
    )


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
    if crowd.bettors == 0:
        return "none"
    largest = 100 * crowd.largest
    if crowd.bettors < FEW_BETTORS or largest >= CONCENTRATED_TOP_PCT * crowd.staked:
        return "concentrated"
    return "broad" if crowd.bettors >= BROAD_BETTORS and largest < BROAD_TOP_PCT * crowd.staked else "mixed"


def symbol_of(text: str | None) -> str:
    """Return the symbol in upper case; raise 422 if the text has none."""
    symbol = unicodedata.normalize("NFKC", text or "").strip().removeprefix("$").upper()
    if not (_SYMBOL.fullmatch(symbol) and symbol.isprintable()):
        what = "Set token to a symbol such as $BNKR, BNKR or bnkr."
        raise problem("invalid_request", what, status=422, hint=what, issues=[{"field": "token", "problem": what}])
    return symbol


def intel(
    token: str, signals: Sequence[MarketSignal], crowd: Crowd, snapshot: MarketsSnapshot, links: Links
) -> SentimentIntel:
    score = score_of(signals, crowd)
    bodies = [_market(each, links) for each in signals]
    return SentimentIntel(
        token=token,
        has_signal=bool(signals),
        market_count=len(signals),
        sentiment=score,
        suggested_bet=suggested_bet(signals, score.score, links),
        quality=SentimentQuality(
            distinct_bettors=crowd.bettors,
            top_wallet_pct=json_ratio_down(100 * crowd.largest, crowd.staked or 1, POINT_DECIMALS),
            label=quality_of(crowd),
        ),
        activity=SentimentActivity(
            total_bets=sum(each.market.bets for each in signals),
            total_pool_usd=usd(sum(each.pool for each in signals)),
        ),
        top_market=bodies[0] if bodies else None,
        markets=bodies,
        summary=summary(token, signals, score, crowd),
        as_of=iso(snapshot.now),
    )


def suggested_bet(signals: Sequence[MarketSignal], score: Decimal, links: Links) -> SuggestedBet | None:
    """Return a bet on the crowd's side in the directional market with the largest pool. At a score of 50, the crowd's
    side is the bullish one. A range market is used only if no other market is directional. The bet is then on the most
    expensive bucket of the crowd's side."""
    is_bullish = score >= 50
    for each in sorted(signals, key=lambda each: each.market.kind is MarketKind.RANGE):  # stable: pools stay in order
        if each.bullish_outcomes is None:
            continue
        market = each.market
        side = [at for at in range(len(market.outcomes)) if (at in each.bullish_outcomes) == is_bullish]
        if side:  # a range market may have no bucket above the current value
            outcome = max(side, key=lambda at: (market.book.price(at), -at))
            is_range = market.kind is MarketKind.RANGE  # a bet on a bucket is a yes to it
            return SuggestedBet(
                **names(market),
                side=market.outcomes[outcome].key,
                side_label="YES" if is_range else SIDE_LABELS[market.kind][outcome],
                implied_cents=(2 * 100 * market.book.price(outcome) + WAD) // (2 * WAD),  # nearest, halves up
                bet_url=links.app(market),
            )
    return None


def summary(token: str, signals: Sequence[MarketSignal], score: SentimentScore, crowd: Crowd) -> str:
    """Return the sentiment as one sentence for people. Each number in the sentence is also in a field."""
    if not signals:
        return f"{token} has no open market."
    markets = "1 open market" if len(signals) == 1 else f"{len(signals)} open markets"
    if not score.directional_market_count:
        return f"{token} has {markets}, none with a direction."
    bettors = "1 wallet" if crowd.bettors == 1 else f"{crowd.bettors} wallets"
    pool = decimal_text(sum(each.pool for each in signals))
    label = score.label.replace("_", " ")
    index = f"{label} at {score.score:f} of 100"
    return f"{token} is {index}: {markets}, {pool} USD from {bettors}, {score.confidence} confidence."


def _market(reading: MarketSignal, links: Links) -> SentimentMarket:
    market = reading.market
    return SentimentMarket(
        **names(market),
        kind=market.metric,
        yes_price_cents=odds(market).yes_price_cents,
        pool=usd(reading.pool),
        total_bets=market.bets,
        directional=reading.directional,
        bullish_pct=json_ratio_down(100 * reading.bullish, WAD, POINT_DECIMALS) if reading.directional else None,
        app_url=links.app(market),
    )


class Sentiment:
    """The handler of `GET /sentiment`. Markets come from memory. Bettors are read once for each state of the books."""

    def __init__(self, parts: AgentParts) -> None:
        self._engine, self._index, self._links = parts.context.engine, parts.index, parts.links
        # Only tokens with a live market are looked up.
        self._crowds: VersionedCache[str, Crowd] = VersionedCache(MAX_TOKENS)

    async def sentiment(self, request: web.Request) -> web.StreamResponse:
        token = symbol_of(read_query(request, SentimentQuery).token)
        snapshot = self._index.required()
        live = [each for each in snapshot.open_markets() if each.token_symbol == token]
        signals = market_signals(live, snapshot.latest)
        crowd = await self._crowd(token, signals) if signals else Crowd()
        read = intel(token, signals, crowd, snapshot, self._links)
        return json_response(SentimentBody(meta=chain_meta(self._links, snapshot), token=token, intel=read))

    async def _crowd(self, token: str, signals: Sequence[MarketSignal]) -> Crowd:
        # A market's version changes with every stake, and the index's generation when everything was read again, so an
        # unchanged state is never counted twice.
        books = tuple((each.market.key, each.market.version, each.directional) for each in signals)
        state = (self._index.generation, books)
        return await self._crowds.get(token, lambda: state, lambda: self._count(signals))

    async def _count(self, signals: Sequence[MarketSignal]) -> Crowd:
        directional = agent_stake.c.market_id.in_([each.market.key for each in signals if each.directional])
        by_wallet = (
            select(
                func.sum(agent_stake.c.amount).label("staked"),
                func.bool_or(directional).label("directional"),
            )
            .where(
                agent_stake.c.market_id.in_([each.market.key for each in signals]),
                agent_stake.c.outcome.is_not(None),
            )
            .group_by(agent_stake.c.wallet)
            .subquery()
        )
        query = select(
            func.count(),
            func.count().filter(by_wallet.c.directional),
            func.coalesce(func.sum(by_wallet.c.staked), 0),
            func.coalesce(func.max(by_wallet.c.staked), 0),
        ).select_from(by_wallet)
        async with storage("The bets", seconds=5.0), self._engine.connect() as connection:
            bettors, leaning, staked, largest = (await connection.execute(query)).one()
        return Crowd(bettors, leaning, int(staked), int(largest))
