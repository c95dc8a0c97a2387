"""`GET /sentiment`: the crowd's view of a token. `docs/discovery.md` has the formulas."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated

from aiohttp import web
from msgspec import Meta
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent.bodies.markets import odds
from api.agent.bodies.parts import AgentMarketTimes, ChainAnswer, chain_meta, times, usd
from api.agent.errors import problem
from api.agent.facts import MarketsSnapshot
from api.agent.index import AgentIndex
from api.agent.links import Links
from api.agent.sentiment_score import (
    NEUTRAL,
    Basis,
    Confidence,
    Crowd,
    CrowdQuality,
    Label,
    MarketSignal,
    Score,
    SideLabel,
    market_signals,
    quality_of,
    score_of,
    suggestion,
)
from api.agent.storage import storage
from api.caching import VersionedCache, json_response
from api.openapi import required
from api.operations import Body
from api.requests import read_query
from core.agent.document import Category
from core.agent.fixed import WAD
from core.db.schema.index_agent import agent_stake
from core.iso import iso
from core.money import decimal_text, json_number, json_ratio_down

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


class SuggestedBet(AgentMarketTimes):
    market_id: str
    slug: str
    short_title: str
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


class SentimentMarket(AgentMarketTimes):
    """A market that counts towards the sentiment. `pool` is USD less fees; `bullishPct` is null without a direction,
    `yesPriceCents` for a range."""

    market_id: str
    slug: str
    short_title: str
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


class Sentiment:
    """The sentiment endpoint. Markets come from memory; the bettors are read once for each state of the books."""

    def __init__(self, engine: AsyncEngine, index: AgentIndex, links: Links) -> None:
        self._engine = engine
        self._index = index
        self._links = links
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
        sentiment=SentimentScore(
            score=json_number(score.points, POINT_DECIMALS),
            lean=json_number(score.points - NEUTRAL, POINT_DECIMALS),
            label=score.label,
            basis=score.basis,
            confidence=score.confidence,
            directional_market_count=score.markets,
            directional_pool_usd=usd(score.pool),
            directional_bettors=crowd.directional_bettors,
        ),
        suggested_bet=_suggested(signals, score, links),
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


def _suggested(signals: Sequence[MarketSignal], score: Score, links: Links) -> SuggestedBet | None:
    suggested = suggestion(signals, score.points)
    if suggested is None:
        return None
    market = suggested.market
    return SuggestedBet(
        **times(market),
        market_id=market.id,
        slug=market.slug,
        short_title=market.words.short_title,
        side=market.outcomes[suggested.outcome].key,
        side_label=suggested.label,
        implied_cents=suggested.cents,
        bet_url=links.app(market),
    )


def summary(token: str, signals: Sequence[MarketSignal], score: Score, crowd: Crowd) -> str:
    """Return the sentiment as one sentence for people. Each number in the sentence is also in a field."""
    if not signals:
        return f"{token} has no open market."
    markets = "1 open market" if len(signals) == 1 else f"{len(signals)} open markets"
    if not score.markets:
        return f"{token} has {markets}, none with a direction."
    index = decimal_text(score.points, POINT_DECIMALS)
    bettors = "1 wallet" if crowd.bettors == 1 else f"{crowd.bettors} wallets"
    pool = decimal_text(sum(each.pool for each in signals))
    label = score.label.replace("_", " ")
    return f"{token} is {label} at {index} of 100: {markets}, {pool} USD from {bettors}, {score.confidence} confidence."


def _market(reading: MarketSignal, links: Links) -> SentimentMarket:
    market = reading.market
    return SentimentMarket(
        **times(market),
        market_id=market.id,
        slug=market.slug,
        short_title=market.words.short_title,
        kind=market.metric,
        yes_price_cents=odds(market).yes_price_cents,
        pool=usd(reading.pool),
        total_bets=market.bets,
        directional=reading.directional,
        bullish_pct=json_ratio_down(100 * reading.bullish, WAD, POINT_DECIMALS) if reading.directional else None,
        app_url=links.app(market),
    )
