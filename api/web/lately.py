"""What happened lately, from the index: the newest bets of all markets, and of each open one how its odds moved and how
many people bet.

Each reading touches a bounded number of rows, however much has been: so many bets, and of a market its last batches and
bets. Kept until it changes; while the database is away the last is shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import BigInteger, Select, func, literal_column, select, true
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.agent.facts import ListedMarket as AgentMarket
from api.agent.reads import Reads
from api.given import given
from api.http.problem import Problem
from api.stock.facts import SIDES
from api.stock.facts import ListedMarket as StockMarket
from api.stock.reads import StockReads
from api.unreadable import UNREADABLE
from core.agent.fixed import WAD
from core.chain import checksum
from core.contracts.statuses import MarketKind
from core.db.schema.index_agent import agent_stake
from core.db.schema.index_stock import stock_position, stock_vintage
from core.db.types import Hash32
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger

log = get_logger(__name__)

BETS_SHOWN = 10
# Of a market's odds: one after each of its last batches or bets.
POINTS = 24
# So many of a market's last bets are looked at for who made them.
BETS_COUNTED = 100
READ_SECONDS = 1.0
# After a reading that failed none is tried for so long: visitors must not wait for it one after another.
AGAIN_SECONDS = 2.0
WHOLE = 10_000


@dataclass(frozen=True, slots=True)
class LatestBet:
    """A bet as the feed shows it. `side` is UP or DOWN on a stock market, else the outcome's name; `amount` in token
    units."""

    kind: Literal["stock", "agent"]
    at: int
    who: str
    side: str
    amount: int
    market: str
    href: str


@dataclass(frozen=True, slots=True)
class MarketLately:
    """An open market's last moves. `odds`: of its first side in hundredths of a percent, oldest first; `bettors`: the
    people behind its last bets, all of them unless there are `more` bets than were looked at."""

    odds: tuple[int, ...] = ()
    bettors: int = 0
    more: bool = False

    def with_present(self, one: int, other: int) -> tuple[int, ...]:
        """The odds, and those of the two pools as they stand where a batch has ended that is not in the index yet."""
        present = _share(one, one + other)
        return self.odds if present is None or self.odds[-1:] == (present,) else (*self.odds, present)


@dataclass(frozen=True, slots=True)
class Lately:
    """What cards and the feed show beyond the markets themselves; `bets` is None while they cannot be read."""

    bets: tuple[LatestBet, ...] | None = None
    stock: Mapping[str, MarketLately] = field(default_factory=dict)
    agent: Mapping[str, MarketLately] = field(default_factory=dict)


class LatelyReads:
    """What happened lately, read again when its stamp differs; of the markets only those that changed."""

    def __init__(self, engine: AsyncEngine, stock: StockReads | None, agent: Reads | None) -> None:
        self._engine = engine
        self._stock = stock
        self._agent = agent
        self._lock = asyncio.Lock()
        self._stamp: Hashable = object()
        self._lately = Lately()
        self._failed_at = -AGAIN_SECONDS
        self._stock_held: dict[int, tuple[Hashable, MarketLately]] = {}
        self._agent_held: dict[bytes, tuple[Hashable, MarketLately]] = {}

    async def read(self, stamp: Hashable, stock_ids: Iterable[str], agent_keys: Iterable[str]) -> Lately:
        """Of all markets the newest bets, and of these open ones what each did; keys are hex."""
        async with self._lock:
            if stamp != self._stamp and time.monotonic() - self._failed_at >= AGAIN_SECONDS:
                try:
                    async with asyncio.timeout(READ_SECONDS), self._engine.connect() as connection:
                        numbers = [int(each) for each in stock_ids]
                        keys = [bytes_of(each) for each in agent_keys]
                        self._lately = Lately(
                            await self._bets(connection),
                            await self._of_stock(connection, numbers),
                            await self._of_agent(connection, keys),
                        )
                        self._stamp = stamp
                except (*UNREADABLE, Problem) as error:
                    self._failed_at = time.monotonic()
                    log.warning("the latest bets cannot be read", action="pages.index_unreadable", why=error)
            return self._lately

    # ------------------------------------------------------------ the feed

    async def _bets(self, connection: AsyncConnection) -> tuple[LatestBet, ...]:
        bets: list[LatestBet] = []
        if self._stock is not None:
            rows = (await connection.execute(newest_stock_bets(BETS_SHOWN))).all()
            listed = await self._stock.listed({row.market_id for row in rows})
            bets += [_stock_bet(row, listed[row.market_id]) for row in rows if row.market_id in listed]
        if self._agent is not None:
            rows = (await connection.execute(newest_agent_bets(BETS_SHOWN))).all()
            markets = await self._agent.listed({row.market_id for row in rows})
            bets += [_agent_bet(row, markets[row.market_id]) for row in rows if row.market_id in markets]
        return tuple(sorted(bets, key=lambda each: each.at, reverse=True)[:BETS_SHOWN])

    # ------------------------------------------------------------ of markets

    async def _of_stock(self, connection: AsyncConnection, numbers: Iterable[int]) -> dict[str, MarketLately]:
        if self._stock is None:
            return {}
        markets = await self._stock.listed(numbers)
        stamped = {number: each for number, each in self._stock_held.items() if number in markets}
        stamps = {number: (self._stock.generation, each.version) for number, each in markets.items()}
        changed = [number for number in markets if number not in stamped or stamped[number][0] != stamps[number]]
        if changed:
            batches: dict[int, list[Any]] = {number: [] for number in changed}
            for row in await connection.execute(last_batches(changed, POINTS)):
                batches[row.market_id].append(row)
            people = {row.market_id: row for row in await connection.execute(last_bettors(changed, BETS_COUNTED))}
            for number in changed:
                who = people.get(number)
                stamped[number] = (
                    stamps[number],
                    MarketLately(
                        stock_odds(markets[number], batches[number]),
                        0 if who is None else who.people,
                        who is not None and markets[number].positions - 2 > who.bets,
                    ),
                )
        self._stock_held = stamped
        return {str(number): each for number, (_, each) in stamped.items()}

    async def _of_agent(self, connection: AsyncConnection, keys: Iterable[bytes]) -> dict[str, MarketLately]:
        if self._agent is None:
            return {}
        markets = await self._agent.listed(keys)
        stamped = {key: each for key, each in self._agent_held.items() if key in markets}
        stamps = {key: (self._agent.generation, each.version) for key, each in markets.items()}
        changed = [key for key in markets if key not in stamped or stamped[key][0] != stamps[key]]
        if changed:
            stakes: dict[bytes, list[Any]] = {key: [] for key in changed}
            for row in await connection.execute(last_stakes(changed, BETS_COUNTED)):
                stakes[row.market_id].append(row)
            for key in changed:
                market, last = markets[key], stakes[key]
                people = len({row.wallet for row in last})
                stamped[key] = (
                    stamps[key],
                    MarketLately(agent_odds(market, last[:POINTS]), people, market.bets > len(last)),
                )
        self._agent_held = stamped
        return {hex_of(key): each for key, (_, each) in stamped.items()}


# ---------------------------------------------------------------- odds


def stock_odds(market: StockMarket, batches: Iterable[Any]) -> tuple[int, ...]:
    """UP's share of the pool after each of these batches, newest first, and before them; empty while it is equal to
    nothing."""
    up, down = (book.principal for book in market.market.books)
    shares = [_share(up, up + down)]
    for each in batches:
        up, down = up - each.accepted_up, down - each.accepted_down
        shares.append(_share(up, up + down))
    return tuple(reversed([share for share in shares if share is not None]))


def agent_odds(market: AgentMarket, stakes: Iterable[Any]) -> tuple[int, ...]:
    """The first outcome's price before these stakes, newest first, and after each; empty for more than two outcomes."""
    if market.kind is MarketKind.RANGE:
        return ()
    prices: list[int] = []
    for each in stakes:
        prices.append(_price(each.outcome, each.price_after))
        earliest = _price(each.outcome, each.price_before)
    return tuple(reversed([*prices, earliest])) if prices else ()


def _share(part: int, whole: int) -> int | None:
    return part * WHOLE // whole if whole else None


def _price(outcome: int, wad: int) -> int:
    return (wad if outcome == 0 else WAD - wad) * WHOLE // WAD


# ---------------------------------------------------------------- queries


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


def last_batches(numbers: Iterable[int], each: int) -> Select[Any]:
    """Of each market what its last finished batches accepted, newest first."""
    columns = stock_vintage.c
    asked = given("asked", market_id=(BigInteger, numbers))
    last = (
        select(columns.vintage, columns.accepted_up, columns.accepted_down)
        .where(columns.market_id == asked.c.market_id, columns.vintage > 0, columns.accepted_up.is_not(None))
        .order_by(columns.vintage.desc())
        .limit(each)
        .lateral("last")
    )
    query = select(asked.c.market_id, last.c.accepted_up, last.c.accepted_down).select_from(asked.join(last, true()))
    return query.order_by(asked.c.market_id, last.c.vintage.desc())


def last_bettors(numbers: Iterable[int], each: int) -> Select[Any]:
    """Of each market how many made its last bets; the seed's two positions are none."""
    columns = stock_position.c
    asked = given("asked", market_id=(BigInteger, numbers))
    last = (
        select(columns.entered_by)
        .where(columns.market_id == asked.c.market_id, columns.ordinal > 1)
        .order_by(columns.ordinal.desc())
        .limit(each)
        .lateral("last")
    )
    return (
        select(
            asked.c.market_id,
            func.count().label("bets"),
            func.count(last.c.entered_by.distinct()).label("people"),
        )
        .select_from(asked.join(last, true()))
        .group_by(asked.c.market_id)
    )


def last_stakes(keys: Iterable[bytes], each: int) -> Select[Any]:
    """Of each market its last stakes in the book, newest first."""
    columns = agent_stake.c
    asked = given("asked", market_id=(Hash32, keys))
    last = (
        select(columns.ordinal, columns.wallet, columns.outcome, columns.price_before, columns.price_after)
        .where(columns.market_id == asked.c.market_id, columns.outcome.is_not(None))
        .order_by(columns.ordinal.desc())
        .limit(each)
        .lateral("last")
    )
    query = select(
        asked.c.market_id, last.c.wallet, last.c.outcome, last.c.price_before, last.c.price_after
    ).select_from(asked.join(last, true()))
    return query.order_by(asked.c.market_id, last.c.ordinal.desc())


def _stock_bet(row: Any, market: StockMarket) -> LatestBet:
    return LatestBet(
        "stock", row.entered_at, checksum(row.entered_by), SIDES[row.outcome], row.offered, market.ticker, market.href
    )


def _agent_bet(row: Any, market: AgentMarket) -> LatestBet:
    label = market.outcomes[row.outcome].label
    href = f"/markets/{market.slug}"
    return LatestBet("agent", row.staked_at, checksum(row.wallet), label, row.amount, market.words.short_title, href)
