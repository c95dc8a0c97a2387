"""The read endpoints: prices, markets, a market, an address's positions. Bodies come from memory and are rendered once
per change.

No request waits for a node. The database is read only for the positions of a market that changed, or of one owner.
While it is unavailable, the last positions read are served.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from aiohttp import web
from cachetools import LRUCache
from limits import parse
from pydantic import BaseModel, Field

from api.caching import Rendered, RenderedBody, RenderedCache, SizedCache, VersionedCache, private, public
from api.context import Context
from api.database import reading
from api.limits import RequestQuota, caller_ip
from api.operations import body_from
from api.problems import Problem, unavailable
from api.requests import read_query
from api.stock import market_view
from api.stock.bodies import (
    MarketBody,
    MarketDetailBody,
    MarketsBody,
    OwnedPositionBody,
    OwnerBody,
    PositionBody,
    PriceReading,
    PricesBody,
)
from api.stock.facts import HeldPosition, ListedMarket, MarketsSnapshot, Oracle
from api.stock.index import MAX_SETTLED, read_positions
from api.stock.market_view import owner_bodies, position_body
from api.stock.owned import POSITIONS_LISTED, OwnerPage, OwnerQuery, read_owner_page
from api.stock.sources import StockSources
from core.chain import checksum
from core.db.engine import consistent_read
from core.hexadecimal import bytes_of
from core.money import to_json
from core.stock.vested import finished


class MarketPath(BaseModel):
    id: Annotated[str, Field(description="The market's id.", examples=["1"])]


class MarketsQuery(BaseModel):
    limit: Annotated[
        int | None, Field(ge=1, le=500, description="The maximum number of markets; 200 if only `before` is given.")
    ] = None
    before: Annotated[int | None, Field(ge=1, le=2**63 - 1, description="Only markets with a lower id.")] = None


PRICES_CACHE = public(15)
MARKETS_CACHE = public(15)
MARKET_CACHE = public(5)
POSITIONS_CACHE = private(5)
POSITIONS_RATE = parse("30/minute")
# The most settled markets in a list without a limit, a bound for clients that do not page.
MARKETS_LISTED = 1_000
# The page size when only `before` is given.
MARKETS_PAGE = 200
CACHED_LISTED = MARKETS_LISTED
CACHED_MARKETS_BYTES = 4_000_000
# The most positions cached for markets, and for owners' pages. An entry counts as POSITIONS_EACH more.
CACHED_POSITIONS, POSITIONS_EACH = 20_000, 20
# The bodies of more positions than this are made in a thread, so that other requests do not wait.
MADE_INLINE = 200


@dataclass(frozen=True, slots=True)
class _Page:
    """The positions of a market and their bodies, for one version of the market and one index generation."""

    version: tuple[int, int]
    generation: int
    positions: tuple[HeldPosition, ...]
    shown_key: Hashable = None
    shown: list[PositionBody] = field(default_factory=list)


class StockReads:
    """The read endpoints of the stock markets. Before deployment, lists are empty and `deployed` is false."""

    def __init__(self, context: Context, sources: StockSources, asked: RequestQuota) -> None:
        self._settings = context.settings
        self._deployment = sources.deployment
        self._deployed = sources.contracts is not None
        self._index = sources.index
        self._oracle = sources.oracle
        self._engine = context.engine
        self._limits = context.limits
        self._quota = asked
        self._prices = RenderedCache(self._prices_stamp, PRICES_CACHE)
        self._markets = RenderedCache(lambda: self.stamp, MARKETS_CACHE)
        self._listed: LRUCache[int, tuple[Hashable, MarketBody]] = LRUCache(CACHED_LISTED)
        self._details: VersionedCache[int, RenderedBody[MarketDetailBody]] = VersionedCache(
            CACHED_MARKETS_BYTES, lambda detail: detail.rendered.size
        )
        self._pages: SizedCache[int, _Page] = SizedCache(
            CACHED_POSITIONS, lambda page: POSITIONS_EACH + len(page.positions)
        )
        self._owners: SizedCache[tuple[bytes, int, int | None], tuple[Hashable, OwnerPage]] = SizedCache(
            CACHED_POSITIONS, lambda owned: POSITIONS_EACH + len(owned[1].positions)
        )

    async def prices(self, request: web.Request) -> web.StreamResponse:
        return await self._prices.answer(request, None, self._render_prices)

    async def markets(self, request: web.Request) -> web.StreamResponse:
        if not request.query_string:
            return await self._markets.answer(request, None, self._render_markets)
        await self._quota.take(request)
        query = read_query(request, MarketsQuery)
        body = await self._markets_body(query.limit, query.before)
        return (await Rendered.make(to_json(body), MARKETS_CACHE)).response(request)

    async def market(self, request: web.Request) -> web.StreamResponse:
        text = request.match_info["id"]
        if not self._is_present(text):  # this takes a database read
            await self._quota.take(request)
        return (await self._one_market(text)).rendered.answer(request)

    def _is_present(self, text: str) -> bool:
        snapshot = self._index.snapshot
        return snapshot is not None and _is_id(text) and int(text) in snapshot.markets

    async def _one_market(self, text: str) -> RenderedBody[MarketDetailBody]:
        if not _is_id(text):
            raise _never_listed()
        market_id = int(text)
        if market_id not in self._index.required().markets and await self._index.market(market_id) is None:
            raise _never_listed()

        async def make() -> RenderedBody[MarketDetailBody]:
            return await RenderedBody.make(await self._detail_body(market_id), MARKET_CACHE)

        return await self._details.get(market_id, lambda: self.stamp, make)

    async def positions(self, request: web.Request) -> web.StreamResponse:
        await self._limits.take(
            POSITIONS_RATE,
            "positions",
            caller_ip(request, self._settings),
            "Positions are limited to 30 requests a minute.",
        )
        query = read_query(request, OwnerQuery)
        body = await self.owner_body(query.owner, query.limit, query.before)
        return (await Rendered.make(to_json(body), POSITIONS_CACHE)).response(request)

    async def shown(self, text: str) -> tuple[MarketDetailBody, str]:
        shown = await self._one_market(text)
        return shown.body, shown.rendered.tag

    async def owner_body(self, given: str, limit: int = POSITIONS_LISTED, before: int | None = None) -> OwnerBody:
        """Return a page of an address's positions, and the totals of all. `given`: the address, in any case."""
        owner = checksum(given.lower())
        snapshot, page, is_old = await self._owned(bytes_of(owner), limit, before)
        markets = await self._index.markets(each.position.market_id for each in page.positions)

        def make() -> list[OwnedPositionBody]:
            return owner_bodies(page.positions, markets, snapshot.head.moment)

        return OwnerBody(
            owner=owner,
            deployed=self._deployed,
            positions=make() if len(page.positions) <= MADE_INLINE else await asyncio.to_thread(make),
            totals=page.totals,
            read_at=self.read_at,
            stale=self.stale or is_old,
            next_before=str(page.positions[-1].position.position_id) if page.more else None,
        )

    def overview(self, settled: int) -> tuple[MarketsBody, int | None]:
        """Return the body of `/api/markets` with only the newest `settled` settled markets, and the chain's time."""
        snapshot = self._index.required()
        newest = sorted(snapshot.markets.values(), key=lambda each: each.id, reverse=True)
        over = [each for each in newest if each.market.settled][:settled]
        shown = [each for each in newest if not each.market.settled] + over
        bodies = [market_view.listed_body(each, snapshot, self._read) for each in shown]
        return self._listing(bodies, None), snapshot.head.timestamp if self._deployed else None

    async def listed(self, numbers: Iterable[int]) -> dict[int, ListedMarket]:
        return await self._index.markets(numbers)

    @property
    def _read(self) -> Oracle:
        return self._oracle.oracle

    @property
    def stale(self) -> bool:
        return self._deployed and (self._index.stale or not self._index.readable or self._oracle.stale)

    @property
    def read_at(self) -> int:
        """Return when the index or the chain was last read, whichever was earlier, in Unix seconds by our clock."""
        return min((each for each in (self._index.read_at, self._read.read_at) if each), default=0)

    @property
    def stamp(self) -> Hashable:
        """Return a value that changes whenever a body of these endpoints may have changed."""
        return self._index.tick, self._read.version, self.stale

    def _prices_stamp(self) -> Hashable:
        return self._read.version, self._read.read_at, self._oracle.stale

    def _render_prices(self) -> bytes:
        latest, unreadable = self._read.latest, self._read.unreadable
        live = bool(self._read.read_at) and not self._oracle.stale
        readings = [
            body_from(
                PriceReading,
                feed,
                feed=feed.proxy,
                answer=str(newest.answer),
                round_id=str(newest.id),
                updated_at=newest.updated_at,
                stale=not live or feed.proxy in unreadable,
            )
            for feed in self._deployment.price_feeds
            if (newest := latest.get(feed.proxy)) is not None
        ]
        status: Literal["live", "stale-cache", "unavailable"] = "stale-cache" if readings else "unavailable"
        if live and not any(each.stale for each in readings):
            status = "live"
        return to_json(PricesBody(status=status, read_at=self._read.read_at, readings=readings))

    async def _render_markets(self) -> bytes:
        return to_json(await self._markets_body(None, None))

    async def _markets_body(self, limit: int | None, before: int | None) -> MarketsBody:
        """Build a page of markets, newest first. Without `limit` and `before`, the page has all unsettled markets and
        the newest settled ones, and the next page starts below the lowest settled one."""
        snapshot = self._index.required()
        if before is None and (limit is None or limit <= MAX_SETTLED):
            listed, goes_on_at = await self._newest(snapshot, limit)
        else:
            listed, goes_on_at = await self._page(before, MARKETS_PAGE if limit is None else limit)
        bodies = [self._listed_body(each, snapshot) for each in listed]
        return self._listing(bodies, None if goes_on_at is None else str(goes_on_at))

    async def _newest(self, snapshot: MarketsSnapshot, limit: int | None) -> tuple[list[ListedMarket], int | None]:
        """Return the newest markets, and the id below which the list continues. Without a limit, also read older
        markets from the database, unless it is unavailable."""
        settled = heapq.nlargest(MAX_SETTLED, (each.id for each in snapshot.markets.values() if each.market.settled))
        lowest = settled[-1] if settled else 0
        goes_on_at = lowest if len(settled) == MAX_SETTLED and lowest > 1 else None
        shown = [each for each in snapshot.markets.values() if not each.market.settled or each.id >= lowest]
        listed = sorted(shown, key=lambda each: each.id, reverse=True)
        if limit is not None:
            return (listed, goes_on_at) if len(listed) <= limit else (listed[:limit], listed[limit - 1].id)
        if goes_on_at is not None:
            with contextlib.suppress(Problem):  # the database is unavailable
                older, goes_on_at = await self._page(lowest, MARKETS_LISTED - MAX_SETTLED)
                merged = {each.id: each for each in (*listed, *older)}
                listed = sorted(merged.values(), key=lambda each: each.id, reverse=True)
        return listed, goes_on_at

    async def _page(self, before: int | None, count: int) -> tuple[list[ListedMarket], int | None]:
        """Return up to `count` markets with ids below `before`, and the id below which more markets follow."""
        listed = await self._index.page(before, count + 1)
        return listed[:count], listed[count - 1].id if len(listed) > count else None

    def _listing(self, markets: list[MarketBody], next_before: str | None) -> MarketsBody:
        return MarketsBody(
            deployed=self._deployed,
            status="deployed" if self._deployed else "not-deployed",
            entries_paused=self._index.required().entries_paused,
            read_at=self.read_at,
            stale=self.stale or any(market_view.has_stale_feed(each, self._read) for each in markets),
            markets=markets,
            next_before=next_before,
        )

    def _listed_body(self, market: ListedMarket, snapshot: MarketsSnapshot) -> MarketBody:
        """Return a market's body for lists. The body is cached if rounds settled the market, because then only
        deliveries change it."""
        if market.result is None or market.result.strike is None:
            return market_view.listed_body(market, snapshot, self._read)
        listed = self._listed.get(market.id)
        version = (self._index.generation, market.version)
        if listed is None or listed[0] != version:
            listed = (version, market_view.listed_body(market, snapshot, self._read))
            self._listed[market.id] = listed
        return listed[1]

    async def _detail_body(self, market_id: int) -> MarketDetailBody:
        snapshot, market, positions = await self._positions_of(market_id)
        if market_id not in snapshot.markets:
            self._oracle.follow_old_market(market)
        return market_view.detail_body(market, snapshot, self._read, positions, read_at=self.read_at, stale=self.stale)

    async def _positions_of(self, market_id: int) -> tuple[MarketsSnapshot, ListedMarket, list[PositionBody]]:
        """Return the snapshot, the market and the bodies of its positions, as of the same block."""
        for _ in range(5):
            snapshot = self._index.required()
            market = await self._index.market(market_id)
            if market is None:  # a reorganization removed it
                raise _never_listed()
            page = self._pages.get(market_id)
            if page is None or page.version != market.version or page.generation != self._index.generation:
                page = await self._load(market_id)
                if page.version != market.version:  # the index has moved on
                    await self._index.refresh()
                    continue
            return snapshot, market, await self._position_bodies(market, page, snapshot)
        raise unavailable()

    async def _load(self, market_id: int) -> _Page:
        generation = self._index.generation  # taken before reading: the rows are at least this new
        async with reading("This market's positions"), self._engine.connect() as connection:
            version, positions = await read_positions(connection, self._deployment.chain_id, market_id)
        page = _Page(version, generation, positions)
        self._pages[market_id] = page
        return page

    async def _position_bodies(
        self, market: ListedMarket, page: _Page, snapshot: MarketsSnapshot
    ) -> list[PositionBody]:
        # Without a new row, a position changes only when its batch is finished.
        key = (page.generation, page.version, finished(market.market, snapshot.head.moment))
        if page.shown_key == key:
            return page.shown
        now = snapshot.head.moment

        def make() -> list[PositionBody]:
            return [position_body(market, position, now) for position in page.positions]

        shown = make() if len(page.positions) <= MADE_INLINE else await asyncio.to_thread(make)
        self._pages[market.id] = replace(page, shown_key=key, shown=shown)
        return shown

    async def _owned(self, owner: bytes, limit: int, before: int | None) -> tuple[MarketsSnapshot, OwnerPage, bool]:
        """Return the snapshot, a page of an owner's positions, and whether the page is an older one because the
        database is unavailable. After five tries, the page may be from a different block than the snapshot."""
        tries, asked = 0, (owner, limit, before)
        while True:
            tries += 1
            snapshot = self._index.required()
            owned = self._owners.get(asked)
            block = (self._index.generation, snapshot.reorgs, snapshot.head.number)
            if owned is not None and owned[0] == block:
                return snapshot, owned[1], False
            try:
                async with reading("Positions"), consistent_read(self._engine) as connection:
                    page = await read_owner_page(connection, self._deployment.chain_id, *asked, snapshot.head.moment)
            except Problem:
                if owned is None:
                    raise
                return snapshot, owned[1], True
            if page is None:
                message = "`before` must be the id of a position of this address."
                raise Problem(400, "invalid_request", message)
            if page.number == snapshot.head.number or tries == 5:
                self._owners[asked] = (block, page)
                return snapshot, page, False
            await self._index.refresh()


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and text[0] != "0"


def _never_listed() -> Problem:
    return Problem(404, "market_not_found", "There is no market with this id.")
