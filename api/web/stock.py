"""A stock market's page: its history, its charts, and the call that settles it.

Amounts are token units (6 decimals), rounded down as in the contract, so they equal the contract's own numbers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from msgspec import structs
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.caching import SizedCache
from api.database import DATABASE_ERRORS
from api.stock.bodies import MarketBody, MarketDetailBody, PositionBody
from api.stock.facts import SIDES
from api.stock.reads import StockReads
from api.stock.sources import StockContracts
from api.web import figures
from api.web.charts import Chart, ChartLine, Level, Mark, Tone, Unit
from api.web.templating import PRIVATE, REVALIDATE, Pages, owner_of
from core.chain import Call
from core.contracts.deployments import Deployment
from core.contracts.statuses import PreviewStatus
from core.db.schema.index_shared import oracle_round
from core.db.schema.index_stock import stock_position, stock_vintage
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.money import to_json
from core.stock.settling import ending_call
from core.stock.vested import UP, S

log = get_logger(__name__)

# The most points cached for all markets. Each market counts as another POINTS_EACH.
MAX_POINTS, POINTS_EACH = 50_000, 200
MAX_READINGS = 600


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch. `at` is the time of its last entry; `acc` has the accumulators (times 1e18) after the batch."""

    vintage: int
    at: int
    accepted: tuple[int, int]
    acc: tuple[int, int]


@dataclass(frozen=True, slots=True)
class MarketPast:
    """A market's history, oldest first. Each reading is a Unix time and an answer with 8 decimals. The finished batches
    include the seed's batch."""

    readings: tuple[tuple[int, int], ...] = ()
    batches: tuple[Batch, ...] = ()


class ChartHistory:
    """A cache of markets' histories."""

    def __init__(self, engine: AsyncEngine, chain_id: int) -> None:
        self._engine = engine
        self._chain_id = chain_id
        self._pasts: SizedCache[str, tuple[Hashable, MarketPast]] = SizedCache(
            MAX_POINTS, lambda kept: POINTS_EACH + len(kept[1].readings) + len(kept[1].batches)
        )

    async def get(self, market_id: str, feed: str, start: int, end: int, stamp: Hashable) -> MarketPast:
        """Return a market's history from `start` on. Read it again if `stamp` has changed."""
        cached = self._pasts.get(market_id)
        if cached is not None and cached[0] == stamp:
            return cached[1]
        try:
            past = await self._read(int(market_id), bytes_of(feed), start, end)
        except DATABASE_ERRORS as error:
            log.warning("failed to read a market's history", action="pages.index_unreadable", why=error)
            return MarketPast() if cached is None else cached[1]
        self._pasts[market_id] = (stamp, past)
        return past

    async def _read(self, market_id: int, feed: bytes, start: int, end: int) -> MarketPast:
        mine = (oracle_round.c.chain_id == self._chain_id) & (oracle_round.c.feed == feed)
        at = oracle_round.c.updated_at
        newest_first = select(at, oracle_round.c.answer).where(mine).order_by(at.desc())
        before = newest_first.where(at <= start).limit(1)
        within = newest_first.where(at > start, at <= end).limit(MAX_READINGS)
        entered = (
            select(stock_position.c.vintage, func.max(stock_position.c.entered_at).label("at"))
            .where(stock_position.c.market_id == market_id)
            .group_by(stock_position.c.vintage)
            .subquery()
        )
        batches = (
            select(stock_vintage, entered.c.at)
            .join(entered, entered.c.vintage == stock_vintage.c.vintage)
            .where(stock_vintage.c.market_id == market_id, stock_vintage.c.accepted_up.is_not(None))
            .order_by(stock_vintage.c.vintage)
        )
        async with asyncio.timeout(5), self._engine.connect() as connection:
            first = [(row.updated_at, row.answer) for row in await connection.execute(before)]
            rest = [(row.updated_at, row.answer) for row in await connection.execute(within)]
            matched = [_batch(row) for row in await connection.execute(batches)]
        return MarketPast(tuple(first + rest[::-1]), tuple(matched))


def _batch(row: Any) -> Batch:
    accepted, acc = (row.accepted_up, row.accepted_down), (row.entry_acc_up, row.entry_acc_down)
    return Batch(row.vintage, row.at, accepted, acc)


POSITIONS_SHOWN = 100


@dataclass(frozen=True, slots=True)
class SettlingCall:
    """How the market can be ended now. `call`: the call that ends the market, which anyone can send; None if there is
    no such call yet. `ours`: a text that says when the keeper sends the call."""

    sentence: str
    name: str
    call: Call | None
    ours: str = ""

    @property
    def data(self) -> str:
        return "" if self.call is None else str(self.call.parameters()["data"])


def without_empty_readings(market: MarketBody) -> MarketBody:
    """Replace missing readings with None: after the strike, the API shows them as zeros."""
    strike, live = (None if each is None or each.answer == "0" else each for each in (market.strike, market.live))
    return structs.replace(market, strike=strike, live=live)


def settling_call(detail: MarketDetailBody, contracts: StockContracts) -> SettlingCall | None:
    """Return the call that settles the market, or None before the bell and after settlement."""
    market, now = detail.market, detail.head.timestamp
    preview, finder = detail.preview, detail.finder
    if detail.resolution is not None or preview is None or finder is None:
        return None
    status, is_late = PreviewStatus(preview.status), now >= market.voidable_at
    rounds = int(finder.strike_round or 0), int(finder.final_round or 0)
    ending = ending_call(status, int(market.id), rounds, is_voidable=is_late)
    if ending is None:
        return SettlingCall("The two readings are not available yet.", "", None)
    contract = contracts.resolver if ending.contract == "RoundResolver" else contracts.settler
    sentence, ours = _ENDINGS.get(status, _NOT_IN_TIME)
    if is_late and status in (PreviewStatus.UP, PreviewStatus.DOWN):
        sentence += " The time to settle is over: anyone can void the market instead, and every stake is returned."
    return SettlingCall(
        sentence.format(preview.name),
        f"{ending.contract}.{ending.function}({', '.join(map(str, ending.arguments))})",
        contract.call(ending.function, *ending.arguments),
        ours,
    )


# What anyone can do at each status of the resolver, and when the keeper does it.
_DECIDED = "The two readings decide {}. Anyone can settle the market now; the contract checks both readings itself."
_AT_ONCE = "two minutes after the bell"
_ENDINGS = {
    PreviewStatus.UP: (_DECIDED, _AT_ONCE),
    PreviewStatus.DOWN: (_DECIDED, _AT_ONCE),
    PreviewStatus.FLAT: (
        "Both readings are equal. Anyone can settle the market now: it becomes void and every stake is returned.",
        _AT_ONCE,
    ),
    PreviewStatus.STALE: (
        "A reading is older than this market allows. Anyone can prove that now, and every stake is returned.",
        "15 minutes after the bell, or later if its nodes disagree about the reading",
    ),
    PreviewStatus.BAD_ANSWER: (
        "A reading is not a valid price. Anyone can prove that now, and every stake is returned.",
        _AT_ONCE,
    ),
    PreviewStatus.PAUSED: (
        "The stock's oracle was paused at the time of a reading, or its multiplier changed between the readings. "
        "Anyone can void the market now, and every stake is returned.",
        _AT_ONCE,
    ),
}
_NOT_IN_TIME = (
    "No one settled the market in time. Anyone can void it now, and every stake is returned.",
    "as soon as the contract allows it",
)


# ---------------------------------------------------------------- charts

_DOLLARS = Unit(10**8, 2, before="$")  # as feeds report prices
_USDG = Unit(10**6, 2, after=" USDG")


def price_chart(detail: MarketDetailBody, past: MarketPast) -> Chart:
    """Chart the readings from shortly before the strike, with marks at the strike and at the bell."""
    market, now = detail.market, detail.head.timestamp
    strike_at, final_at = market.strike_time, market.final_time
    start, end = chart_range(market, now)
    last = min(now, end)
    points = [(max(at, start), answer) for at, answer in past.readings if at <= last]
    if points:
        points.append((last, points[-1][1]))
    levels = []
    strike, live, change = market.strike, market.live, market.change
    tones: dict[str, Tone] = {"UP": "up", "DOWN": "down"}
    tone = tones.get("" if change is None else change.direction, "main")
    decided = None
    if now >= strike_at and strike is not None and change is not None and int(strike.answer) > 0:
        decided = f", {change.text} since the strike at {_two_decimals(strike.answer)}."
        levels.append(Level(int(strike.answer), f"strike {_two_decimals(strike.answer)}", "quiet"))
    if points:
        levels.append(Level(points[-1][1], f"{'final' if now > end else 'now'} {_two_decimals(points[-1][1])}", tone))
    summary = f"{market.ticker}: no reading yet."
    if points and live is not None:
        summary = f"{market.ticker} is at {_two_decimals(live.answer)} dollars{decided or '.'}"
    return Chart(
        title=f"{market.ticker} since {'the strike' if decided else 'the listing'}",
        summary=summary,
        lines=[ChartLine(points, tone if decided else "main")],
        start=start,
        end=end,
        unit=_DOLLARS,
        levels=levels,
        marks=[Mark(at, name) for at, name in ((strike_at, "strike"), (final_at, "bell")) if start <= at <= end],
    )


def chart_range(market: MarketBody, now: int) -> tuple[int, int]:
    """Return the price chart's time range: from shortly before the strike to the bell. Long before the strike, the
    range ends now and starts no earlier than the listing."""
    strike_at, final_at = market.strike_time, market.final_time
    length = final_at - strike_at
    if now < strike_at - length:
        return max(market.opened_at, now - 2 * length), now
    return max(market.opened_at, strike_at - max(60, length // 4)), final_at


def book_chart(detail: MarketDetailBody, past: MarketPast) -> Chart | None:
    """Chart how much of each side's money was accepted after each batch."""
    batches = past.batches
    if len(batches) < 2:
        return None
    market, now = detail.market, min(detail.head.timestamp, detail.market.final_time)
    opened = market.opened_at
    up = down = 0
    lines: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for batch in batches:
        up, down = up + batch.accepted[0], down + batch.accepted[1]
        at = _at(batch, market)
        lines[0].append((at, up))
        lines[1].append((at, down))
    now = max(now, lines[0][-1][0])
    present = (int(detail.books[0].principal), int(detail.books[1].principal))
    for line, value in zip(lines, present, strict=True):
        line.append((now, value))
    return Chart(
        title="What each side holds",
        summary=f"UP holds {figures.plain(present[0])} and DOWN {figures.plain(present[1])} USDG.",
        lines=[ChartLine(lines[0], "up", label="UP"), ChartLine(lines[1], "down", label="DOWN")],
        start=opened,
        end=now,
        unit=_USDG,
        levels=[
            Level(present[0], f"UP {_two_decimals(present[0], 6)}", "up"),
            Level(present[1], f"DOWN {_two_decimals(present[1], 6)}", "down"),
        ],
        marks=[Mark(opened, "listed")],
        floor=0,
    )


def accrual_chart(detail: MarketDetailBody, past: MarketPast, position: PositionBody) -> Chart | None:
    """Chart a position's payout if its side wins, after each batch from its own batch on. This payout only rises."""
    if position.accepted is None:
        return None
    market = detail.market
    side = SIDES.index(position.side)
    accepted, vintage = int(position.accepted), int(position.vintage)
    mine = [each for each in past.batches if each.vintage >= vintage]
    if not mine:
        return None
    entry = 0 if position.seed else mine[0].acc[side]
    points = [(_at(each, market), accepted * (S + each.acc[side] - entry) // S) for each in mine]
    now = max(min(detail.head.timestamp, market.final_time), points[-1][0])
    accrued = int(position.accrued)
    points.append((now, max(accrued, points[-1][1])))
    tone: Tone = "up" if side == UP else "down"
    return Chart(
        title=f"Position {figures.ordinal_text(position.id)}: payout if {position.side} wins, before the fee",
        summary=f"It started at {figures.plain(accepted)} and is now {figures.plain(accrued)} USDG.",
        lines=[ChartLine(points, tone, fill=True)],
        start=points[0][0],
        end=now,
        levels=[
            Level(accepted, f"stake {_two_decimals(accepted, 6)}", "quiet"),
            Level(accrued, f"promised {_two_decimals(accrued, 6)}", tone),
        ],
        floor=0,
        unit=_USDG,
    )


def _at(batch: Batch, market: MarketBody) -> int:
    return market.opened_at if batch.vintage == 0 else batch.at


def _two_decimals(value: int | str, decimals: int = 8) -> str:
    """Format a value for a chart label, rounded down."""
    cents = int(value) * 100 // 10**decimals
    return f"{cents // 100:,}.{cents % 100:02d}"


class StockPages:
    def __init__(self, pages: Pages, reads: StockReads, history: ChartHistory, deployment: Deployment) -> None:
        self._pages = pages
        self._reads = reads
        self._history = history
        self._contracts = StockContracts.of(deployment)

    async def market(self, request: web.Request) -> web.StreamResponse:
        body, tag = await self._reads.shown(request.match_info["id"])
        owner = owner_of(request)
        whole = request.query.get("positions") == "all"

        async def render() -> bytes:
            market = without_empty_readings(body.market)
            detail = structs.replace(body, market=market)
            start, _ = chart_range(market, detail.head.timestamp)
            stamp = (market.live, market.totals, len(detail.positions), detail.resolution is not None)
            past = await self._history.get(market.id, market.feed, start, market.final_time, to_json([*stamp, start]))
            return self._pages.render("stock.html", path="/", **self._facts(detail, past, owner, whole))

        page = ("market", request.match_info["id"], owner, whole)
        return await self._pages.answer(request, page, tag, render, REVALIDATE if owner is None else PRIVATE)

    def _facts(self, detail: MarketDetailBody, past: MarketPast, owner: str | None, whole: bool) -> dict[str, Any]:
        market = detail.market
        positions = detail.positions
        mine = [each for each in positions if owner is not None and each.owner.lower() == owner]
        shown = positions if whole else positions[:2] + positions[2:][-POSITIONS_SHOWN:]
        book = book_chart(detail, past)
        charts = {each.id: accrual_chart(detail, past, each) for each in mine[-6:]}
        return {
            "detail": detail,
            "market": market,
            "now": detail.head.timestamp,
            "price_chart": price_chart(detail, past).draw("price"),
            "book_chart": None if book is None else book.draw("book"),
            "owner": owner,
            "mine": mine,
            "mine_charts": {name: chart.draw(f"accrual-{name}") for name, chart in charts.items() if chart is not None},
            "positions": shown,
            "left_out": len(positions) - len(shown),
            "settling_call": None if self._contracts is None else settling_call(detail, self._contracts),
            "settler": "" if self._contracts is None else self._contracts.settler.address,
        }
