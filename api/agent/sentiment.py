"""`GET /sentiment`: what the crowd thinks of a token. The formulae stand in `docs/discovery.md`."""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent import render
from api.agent.bodies.parts import NO_DATABASE, AgentBody, AgentMarketTimes, ChainAnswer, refusal
from api.agent.errors import problem
from api.agent.facts import Venue
from api.agent.index import AgentIndex
from api.agent.links import Links
from api.agent.reply import reply
from api.agent.sentiment_score import (
    NEUTRAL,
    Crowd,
    CrowdReading,
    Score,
    quality_of,
    readings,
    score_of,
    suggestion,
)
from api.agent.storage import storage
from api.http.openapi import required
from api.http.operation import DocumentedAnswer, Operation
from api.http.requests import read_query
from core.db.schema.index_agent import agent_stake
from core.iso import iso
from core.money import decimal_text, json_number, json_ratio_down

POINT_DECIMALS = 2
# As it is published: in ASCII. Symbols in other letters are taken too.
_SYMBOL = re.compile(r"\S{1,32}")

SENTIMENT = """\
The score is 100 x sum(pool x bullish probability) / sum(pool) over the token's open markets that have a direction:
`yes` and `up` are bullish, and of a range market the buckets above the current value. Markets weigh alike while every
pool is 0; without a directional market the score is 50 and the basis `none`. Labels change at 80, 60, 40 and 20.
Confidence is `high` from 20 bettors and 1,000 USD on directional markets, `medium` from 5 and 100, `low` from any bet.
Quality is `broad` from 10 bettors of whom none has 25 % of the stakes, `concentrated` below 3 bettors or when one has
half, otherwise `mixed`. A token without markets is no error: `hasSignal` is false. Data only, no advice."""


class SentimentQuery(BaseModel):
    # Checked by hand: the refusal is 422, not the 400 of a query that does not fit.
    model_config = ConfigDict(json_schema_extra=required("token"))

    token: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1})] | None = Field(
        default=None, description="`$SYM` or `SYM`, in any case: 1 to 32 printable characters without a space."
    )


class SentimentScore(AgentBody):
    score: float = Field(ge=0, le=100)
    lean: float = Field(ge=-50, le=50)
    label: Literal["strongly_bullish", "bullish", "neutral", "bearish", "strongly_bearish"]
    basis: Literal["pool_weighted", "equal_weight", "none"]
    confidence: Literal["high", "medium", "low", "none"]
    directional_market_count: int
    directional_pool_usd: float
    directional_bettors: int


class SuggestedBet(AgentMarketTimes):
    market_id: str
    slug: str
    short_title: str
    side: str
    side_label: Literal["UP", "DOWN", "YES", "NO"]
    implied_cents: int
    bet_url: str


class SentimentQuality(AgentBody):
    distinct_bettors: int
    top_wallet_pct: float = Field(ge=0, le=100)
    label: Literal["broad", "mixed", "concentrated", "none"]


class SentimentActivity(AgentBody):
    total_bets: int
    total_pool_usd: float


class SentimentMarket(AgentMarketTimes):
    """A market that the reading counts: `pool` is USD less fees; `bullishPct` is null for a market without a direction,
    `yesPriceCents` for a range."""

    market_id: str
    slug: str
    short_title: str
    kind: Literal["market_cap", "market_cap_range", "price_direction"]
    yes_price_cents: float | None
    pool: float
    total_bets: int
    directional: bool
    bullish_pct: float | None
    app_url: str


class SentimentIntel(AgentBody):
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
    """The reading of what live markets say about a token. Markets come from the index held in memory; who bet on them
    is read once for every state of their books."""

    def __init__(self, engine: AsyncEngine, index: AgentIndex, links: Links) -> None:
        self._engine = engine
        self._index = index
        self._links = links
        self._crowds: dict[str, tuple[object, Crowd]] = {}
        self._counting = asyncio.Lock()

    async def sentiment(self, request: web.Request) -> web.StreamResponse:
        token = symbol_of(read_query(request, SentimentQuery).token)
        venue = self._index.required()
        live = [each for each in venue.open_markets() if each.token_symbol == token]
        live_readings = readings(live, venue.latest)
        crowd = await self._crowd(token, live_readings) if live_readings else Crowd()
        body = {"token": token, "intel": intel(token, live_readings, crowd, venue, self._links)}
        return reply(self._links, body, venue=venue)

    async def _crowd(self, token: str, live_readings: Sequence[CrowdReading]) -> Crowd:
        # A market's version changes with every stake on it, and the index's generation when all was read again, so an
        # unchanged state is never counted twice.
        books = tuple((each.market.key, each.market.version, each.directional) for each in live_readings)
        state = (self._index.generation, books)
        async with self._counting:
            counted = self._crowds.get(token)
            if counted is not None and counted[0] == state:
                return counted[1]
            crowd = await self._count(live_readings)
            # Only tokens with a live market come here, so this holds as many entries as there are such tokens and no
            # more than that many stale ones.
            self._crowds[token] = (state, crowd)
            return crowd

    async def _count(self, live_readings: Sequence[CrowdReading]) -> Crowd:
        directional = agent_stake.c.market_id.in_([each.market.key for each in live_readings if each.directional])
        by_wallet = (
            select(
                func.sum(agent_stake.c.amount).label("staked"),
                func.bool_or(directional).label("directional"),
            )
            .where(
                agent_stake.c.market_id.in_([each.market.key for each in live_readings]),
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

    def operation(self, prefix: str) -> Operation:
        return Operation(
            "GET",
            f"{prefix}/sentiment",
            self.sentiment,
            "What the crowd thinks of a token",
            {
                200: DocumentedAnswer("The signal, also for a token without markets.", SentimentBody),
                400: refusal("`invalid_request`: a parameter is given twice."),
                422: refusal("`invalid_request`: `token` is missing or no symbol."),
                500: NO_DATABASE,
            },
            description=SENTIMENT,
            query=SentimentQuery,
        )


def symbol_of(text: str | None) -> str:
    """The symbol in upper case; 422 when there is none."""
    symbol = unicodedata.normalize("NFKC", text or "").strip().removeprefix("$").upper()
    if not (_SYMBOL.fullmatch(symbol) and symbol.isprintable()):
        what = "Give token a symbol such as $BNKR, BNKR or bnkr."
        raise problem("invalid_request", what, status=422, hint=what, issues=[{"field": "token", "problem": what}])
    return symbol


def intel(
    token: str, live_readings: Sequence[CrowdReading], crowd: Crowd, venue: Venue, links: Links
) -> dict[str, Any]:
    score = score_of(live_readings, crowd)
    suggested = suggestion(live_readings, score.points)
    bodies = [_market(each, links) for each in live_readings]
    return {
        "token": token,
        "hasSignal": bool(live_readings),
        "marketCount": len(live_readings),
        "sentiment": {
            "score": json_number(score.points, POINT_DECIMALS),
            "lean": json_number(score.points - NEUTRAL, POINT_DECIMALS),
            "label": score.label,
            "basis": score.basis,
            "confidence": score.confidence,
            "directionalMarketCount": score.markets,
            "directionalPoolUsd": render.usd(score.pool),
            "directionalBettors": crowd.directional_bettors,
        },
        "suggestedBet": None
        if suggested is None
        else {
            "marketId": suggested.market.id,
            "slug": suggested.market.slug,
            "shortTitle": suggested.market.words.short_title,
            **render.times(suggested.market),
            "side": suggested.market.outcomes[suggested.outcome].key,
            "sideLabel": suggested.label,
            "impliedCents": suggested.cents,
            "betUrl": links.app(suggested.market),
        },
        "quality": {
            "distinctBettors": crowd.bettors,
            "topWalletPct": json_ratio_down(100 * crowd.largest, crowd.staked or 1, POINT_DECIMALS),
            "label": quality_of(crowd),
        },
        "activity": {
            "totalBets": sum(each.market.bets for each in live_readings),
            "totalPoolUsd": render.usd(sum(each.pool for each in live_readings)),
        },
        "topMarket": bodies[0] if bodies else None,
        "markets": bodies,
        "summary": summary(token, live_readings, score, crowd),
        "asOf": iso(venue.now),
    }


def summary(token: str, live_readings: Sequence[CrowdReading], score: Score, crowd: Crowd) -> str:
    """One sentence for people; every number in it stands in a field too."""
    if not live_readings:
        return f"{token} has no open market."
    markets = "1 open market" if len(live_readings) == 1 else f"{len(live_readings)} open markets"
    if not score.markets:
        return f"{token} has {markets}, none with a direction."
    index = decimal_text(score.points, POINT_DECIMALS)
    bettors = "1 wallet" if crowd.bettors == 1 else f"{crowd.bettors} wallets"
    pool = decimal_text(sum(each.pool for each in live_readings))
    label = score.label.replace("_", " ")
    return (
        f"{token} reads {label} at {index} of 100: {markets}, {pool} USD by {bettors}, {score.confidence} confidence."
    )


def _market(reading: CrowdReading, links: Links) -> dict[str, Any]:
    market = reading.market
    return {
        "marketId": market.id,
        "slug": market.slug,
        "shortTitle": market.words.short_title,
        "kind": market.metric,
        **render.times(market),
        "yesPriceCents": render.odds(market)["yesPriceCents"],
        "pool": render.usd(reading.pool),
        "totalBets": market.bets,
        "directional": reading.directional,
        "bullishPct": json_ratio_down(100 * reading.bullish, 10**18, POINT_DECIMALS) if reading.directional else None,
        "appUrl": links.app(market),
    }
