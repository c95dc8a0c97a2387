"""The home page: open markets of both kinds, the latest bets, and the contracts' solvency."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from aiohttp import web
from msgspec import structs
from sqlalchemy import Select, literal_column, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent.facts import ListedMarket as AgentMarket
from api.agent.reads import AgentReads
from api.database import DATABASE_ERRORS
from api.problems import Problem
from api.stock.facts import SIDES
from api.stock.facts import ListedMarket as StockMarket
from api.stock.proof import Proof
from api.stock.proof_facts import ProofBody
from api.stock.reads import StockReads
from api.web import figures
from api.web.stock import without_empty_readings
from api.web.templating import Pages, await_or_none, exact, or_none
from core.chain import checksum
from core.db.schema.index_agent import agent_stake
from core.db.schema.index_stock import stock_position
from core.log import get_logger

log = get_logger(__name__)

BETS_SHOWN = 10
READ_SECONDS = 1.0
# The time after a failed read in which visitors get the last bets instead of waiting for the next failure.
AGAIN_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class LatestBet:
    """A bet with its stake in token units. `side` is UP or DOWN on a stock market, and the outcome's name on an agent
    market."""

    kind: Literal["stock", "agent"]
    at: int
    who: str
    side: str
    amount: int
    market: str
    href: str


class MarketActivity:
    """A cache of the newest bets. While the database is unavailable, the last bets read are shown."""

    def __init__(self, engine: AsyncEngine, stock: StockReads, agent: AgentReads | None) -> None:
        self._engine = engine
        self._stock = stock
        self._agent = agent
        self._lock = asyncio.Lock()
        self._stamp: Hashable = object()
        self._bets: tuple[LatestBet, ...] | None = None
        self._failed_at = -AGAIN_SECONDS

    async def bets(self, stamp: Hashable) -> tuple[LatestBet, ...] | None:
        """Return the bets, newest first. Read them again if `stamp` has changed. Return None if no read has ever
        succeeded."""
        async with self._lock:
            if stamp != self._stamp and time.monotonic() - self._failed_at >= AGAIN_SECONDS:
                try:
                    async with asyncio.timeout(READ_SECONDS):
                        self._bets = await self._read()
                    self._stamp = stamp
                except (*DATABASE_ERRORS, Problem) as error:
                    self._failed_at = time.monotonic()
                    log.warning("failed to read the latest bets", action="pages.index_unreadable", why=error)
            return self._bets

    async def _read(self) -> tuple[LatestBet, ...]:
        bets: list[LatestBet] = []
        async with self._engine.connect() as connection:
            rows = (await connection.execute(newest_stock_bets(BETS_SHOWN))).all()
            listed = await self._stock.listed({row.market_id for row in rows})
            bets += [_stock_bet(row, listed[row.market_id]) for row in rows if row.market_id in listed]
            if self._agent is not None:
                rows = (await connection.execute(newest_agent_bets(BETS_SHOWN))).all()
                markets = await self._agent.supported_markets({row.market_id for row in rows})
                bets += [_agent_bet(row, markets[row.market_id]) for row in rows if row.market_id in markets]
        return tuple(sorted(bets, key=lambda each: each.at, reverse=True)[:BETS_SHOWN])


def newest_stock_bets(limit: int) -> Select[Any]:
    columns = stock_position.c
    return (
        select(columns.market_id, columns.entered_by, columns.outcome, columns.offered, columns.entered_at)
        .where(columns.vintage > literal_column("0"))  # as the partial index has it
        .order_by(columns.entered_at.desc(), columns.position_id.desc())
        .limit(limit)
    )


def newest_agent_bets(limit: int) -> Select[Any]:
    columns = agent_stake.c
    return (
        select(columns.market_id, columns.wallet, columns.outcome, columns.amount, columns.staked_at)
        .where(columns.outcome.is_not(None))
        .order_by(columns.staked_at.desc(), columns.stake_id.desc())
        .limit(limit)
    )


def _stock_bet(row: Any, market: StockMarket) -> LatestBet:
    who, side = checksum(row.entered_by), SIDES[row.outcome]
    return LatestBet("stock", row.entered_at, who, side, row.offered, market.ticker, market.href)


def _agent_bet(row: Any, market: AgentMarket) -> LatestBet:
    label = market.outcomes[row.outcome].label
    href = f"/markets/{market.id}"
    return LatestBet("agent", row.staked_at, checksum(row.wallet), label, row.amount, market.words.short_title, href)


SETTLED_SHOWN = 8
CLOSED_SHOWN = 6


class HomePage:
    """The home page. `agent` is None while the agent API is switched off."""

    def __init__(
        self, pages: Pages, stock: StockReads, proof: Proof, agent: AgentReads | None, activity: MarketActivity
    ) -> None:
        self._pages = pages
        self._stock = stock
        self._proof = proof
        self._agent = agent
        self._activity = activity

    async def get(self, request: web.Request) -> web.StreamResponse:
        proof = await await_or_none(self._proof.shown())
        read = (self._stock.stamp, None if self._agent is None else self._agent.stamp)

        async def render() -> bytes:
            return await self._render(proof, read)

        return await self._pages.answer(request, "home", (read, None if proof is None else proof[1]), render)

    async def _render(self, proof: tuple[ProofBody, str] | None, stamp: Hashable) -> bytes:
        stock = or_none(partial(self._stock.overview, SETTLED_SHOWN))
        agent = None if self._agent is None else or_none(partial(self._agent.overview, CLOSED_SHOWN))
        listed, stock_now = (None, None) if stock is None else stock
        markets = [] if listed is None else [without_empty_readings(each) for each in listed.markets]
        agent_exact = None if agent is None else exact(agent)
        # Countdowns follow the stock chain's clock if it is known.
        agent_now = None if agent_exact is None else figures.unix(agent_exact["freshness"]["blockAt"])
        now = agent_now if stock_now is None else stock_now
        return self._pages.render(
            "home.html",
            path="/",
            stock=None if listed is None else structs.replace(listed, markets=markets),
            proof=None if proof is None else proof[0],
            agent=agent_exact,
            agent_now=agent_now,
            bets=await self._activity.bets(stamp),
            **({} if now is None else {"now": now}),
        )
