"""The read endpoints: markets, research, quotes, positions, results, proofs."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any

from aiohttp import web
from cachetools import LRUCache
from limits import parse
from msgspec import Raw

from api.agent.bodies import markets as market_bodies
from api.agent.bodies.markets import AgentResult, ResultBody, result
from api.agent.bodies.parts import Freshness, chain_meta, freshness, project_quote
from api.agent.bodies.positions import PositionsBody, position, summary
from api.agent.bodies.research import (
    AgentResearch,
    DataFreshness,
    ResearchBody,
    decided_by,
    impact,
    observations,
    odds_history,
    related,
    rules,
)
from api.agent.bodies.trades import QuoteBody, TradeProofBody, proof, quote
from api.agent.errors import problem, storage
from api.agent.facts import ListedMarket, MarketsSnapshot, Stake, deciding_times, key_from_name
from api.agent.index import AgentParts
from api.agent.requests import (
    EXAMPLE_WALLET,
    MarketsQuery,
    PositionsQuery,
    QuoteQuery,
    ResultQuery,
    checked_wallet,
    cursor_of,
    place_of,
    size_from_query,
)
from api.agent.rows import (
    read_by_bet,
    read_history,
    read_holdings,
    read_observations,
    read_positions,
    read_readings,
)
from api.agent.trade import orders
from api.agent.trade.orders import MAX_POINTS, SIMPLE_MAX, check_open, side_of
from api.caching import PRIVATE_REVALIDATED, REVALIDATED, RenderedCache, json_response
from api.head import chain_now
from api.limits import caller_ip
from api.operations import Body
from api.payments.pipeline import read_final_block
from api.requests import read_query
from core.agent.document import CATEGORIES
from core.contracts.statuses import MarketKind
from core.db.engine import consistent_read
from core.hexadecimal import bytes_of, hex_of
from core.iso import iso, iso_datetime
from core.money import USD_DECIMALS, json_number, to_json

_DEFAULTS = MarketsQuery()
_sort_key = attrgetter("sort_key")
KINDS: dict[str, MarketKind] = {name: kind for kind, name in CATEGORIES.items()}
_HASH = re.compile(r"0x[0-9a-f]{64}")

QUOTE_RATE = parse("30/minute")
POSITIONS_RATE = parse("120/minute")  # a whole book may have thousands of rows
HISTORY_POINTS = 500
OBSERVATION_POINTS = 200
RELATED_MARKETS = 6
RENDERED_AT_ONCE = 100  # takes about ten milliseconds
POSITIONS_KEPT = 20_000  # each takes about 800 bytes
EXAMPLE_SIZE = 10 * 10**USD_DECIMALS
DISCLAIMER = (
    "Data only, no advice. Winners split the pool, so the payout of a share changes until betting ends; a bet can lose "
    "its whole stake."
)


class OpenMarket(Body, kw_only=False):
    market: market_bodies.AgentMarketRef
    example_paid: list[Decimal | None] | None


class ClosedMarket(Body, kw_only=False):
    market: market_bodies.AgentMarketRef
    result: AgentResult


class Overview(Body):
    open: list[OpenMarket]
    later: list[market_bodies.AgentMarketRef]
    closed: list[ClosedMarket]
    freshness: Freshness


class AgentReads:
    def __init__(self, parts: AgentParts) -> None:
        self._context, self._index, self._balances = parts.context, parts.index, parts.balances
        self._links, self._chain_id = parts.links, parts.chain_id
        self._rendered = RenderedCache(lambda: self.stamp, REVALIDATED)
        self._books = RenderedCache(lambda: self.stamp, PRIVATE_REVALIDATED)
        self._positions: LRUCache[int, tuple[ListedMarket, Stake, bytes]] = LRUCache(POSITIONS_KEPT)

    async def markets(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, MarketsQuery) if request.query_string else _DEFAULTS
        key = (query.status, query.type, query.token, query.ids, query.limit, query.cursor)
        return await self._rendered.answer(request, ("markets", key), lambda: self._page(query))

    async def _page(self, query: MarketsQuery) -> bytes:
        after = None if query.cursor is None else place_of(query.cursor, 3)
        snapshot = self._index.required()
        if query.ids is not None:
            names = {name.strip() for name in query.ids.split(",")}
            named = await self._index.markets(key for name in names if (key := key_from_name(name)) is not None)
            markets = [each for each in named.values() if names & {each.id, hex_of(each.key)}]
        else:
            markets = list(snapshot.markets.values())
        matching = _matching(markets, snapshot, query)
        if after is not None:
            matching = [each for each in matching if each.sort_key > after]
        if query.ids is None and query.status == "all":
            matching = await self._with_settled(matching, snapshot, query, after)
        page = matching[: query.limit]
        more = len(matching) > len(page)
        return to_json(
            market_bodies.Markets(
                meta=chain_meta(self._links, snapshot),
                count=len(page),
                markets=[market_bodies.market_ref(each, snapshot, self._links) for each in page],
                next_cursor=cursor_of(page[-1].sort_key) if more else None,
            )
        )

    async def _with_settled(
        self,
        present: Sequence[ListedMarket],
        snapshot: MarketsSnapshot,
        query: MarketsQuery,
        after: tuple[int, ...] | None,
    ) -> list[ListedMarket]:
        """Add settled markets until there are enough to fill a page and to tell whether another page follows."""
        kind = None if query.type is None else KINDS.get(query.type)
        if query.type is not None and kind is None:
            return list(present)
        markets = {each.key: each for each in present}
        matching = 0
        while matching <= query.limit:
            read = await self._index.settled_page(_symbol(query), kind, after, query.limit + 1)
            shown = _matching(read.values(), snapshot, query)
            matching += len(shown)
            # The copy in memory is newer than the one just read.
            markets |= {each.key: snapshot.markets.get(each.key, each) for each in shown}
            if len(read) <= query.limit:
                break
            after = max(each.sort_key for each in read.values())
        return sorted(markets.values(), key=_sort_key)

    async def market(self, request: web.Request) -> web.StreamResponse:
        _, listed = await self._listed(request.match_info["id"])

        async def render() -> bytes:
            snapshot, market = await self._listed(listed.id)
            body = market_bodies.market_detail(market, snapshot, self._links)
            return to_json(market_bodies.OneMarket(meta=chain_meta(self._links, snapshot), market=body))

        return await self._rendered.answer(request, ("market", listed.key), render)

    async def research(self, request: web.Request) -> web.StreamResponse:
        _, market = await self._listed(request.match_info["id"])

        async def render() -> bytes:
            body = await self.research_bundle(market.id)
            return to_json(ResearchBody(meta=chain_meta(self._links, self._index.required()), research=body))

        return await self._rendered.answer(request, ("research", market.key), render)

    async def research_bundle(self, name: str) -> AgentResearch:
        snapshot, market = await self._listed(name)
        async with storage("The market's history", seconds=5.0), self._context.engine.connect() as connection:
            stakes = await read_history(connection, market.key, HISTORY_POINTS)
            rounds = await read_observations(connection, self._chain_id, market.spec.feed, OBSERVATION_POINTS)
            times = list(deciding_times(market, snapshot.now).values())
            readings = await read_readings(connection, self._chain_id, market.spec.feed, times)
        latest = snapshot.latest.get(market.feed)
        return AgentResearch(
            market=market_bodies.market_ref(market, snapshot, self._links),
            resolution_rules=rules(market, self._links),
            odds=market_bodies.odds(market),
            stats=market_bodies.stats(market),
            ladder=market_bodies.ladder(market, latest),
            token_snapshot=market_bodies.token_snapshot(market, latest, self._links),
            odds_history=odds_history(market, stakes),
            observations=observations(market, rounds, self._links),
            decided_by=decided_by(market, snapshot.now, readings, self._links),
            related=[related(each) for each in _related_markets(market, snapshot)],
            impact=impact(market),
            advisory=None,
            disclaimer=DISCLAIMER,
            data_freshness=DataFreshness(
                odds_at=iso(snapshot.now),
                snapshot_at=None if latest is None else iso(latest.updated_at),
                observations_at=iso(rounds[0].updated_at) if rounds else None,
            ),
        )

    @property
    def stamp(self) -> int:
        return self._index.tick

    def overview(self, closed: int) -> Overview:
        """Return the home page's markets. Open markets, earliest deadline first, have the payouts of a bet of
        `EXAMPLE_SIZE`. Markets that open later are sorted by opening time. `closed`: the number of closed markets to
        return, latest deadline first, from those in memory."""
        snapshot = self._index.required()
        open_now = sorted(snapshot.open_markets(), key=_sort_key)
        others = [each for each in snapshot.markets.values() if each.supported and each.status(snapshot.now) != "open"]
        later = sorted((each for each in others if each.opens_later(snapshot.now)), key=lambda each: each.spec.opens_at)
        over = sorted((each for each in others if not each.opens_later(snapshot.now)), key=_sort_key, reverse=True)
        ref = partial(market_bodies.market_ref, snapshot=snapshot, links=self._links)
        return Overview(
            open=[OpenMarket(ref(each), _example_paid(each)) for each in open_now],
            later=[ref(each) for each in later],
            closed=[ClosedMarket(ref(each), result(each, self._links)) for each in over[:closed]],
            freshness=freshness(snapshot),
        )

    async def supported_markets(self, keys: Iterable[bytes]) -> dict[bytes, ListedMarket]:
        return {key: each for key, each in (await self._index.markets(keys)).items() if each.supported}

    def example(self) -> dict[str, Any] | None:
        """Return an example bet on the open market with the latest deadline, or None if no market is open. The response
        to the bet is the 402 challenge."""
        snapshot = self._index.snapshot
        market = None if snapshot is None else max(snapshot.open_markets(), key=_sort_key, default=None)
        if market is None:
            return None
        return {
            "marketId": market.id,
            "side": market.outcomes[0].key,
            "sizeUsd": 1,
            "idemKey": "example-0001",
            "walletAddress": EXAMPLE_WALLET,
        }

    async def result_of(self, name: str) -> AgentResult:
        return result((await self._listed(name))[1], self._links)

    async def is_supported(self, name: str) -> bool:
        return (await self._listed(name))[1].supported

    async def quote(self, request: web.Request) -> web.StreamResponse:
        who = caller_ip(request, self._context.settings)
        await self._context.limits.take(QUOTE_RATE, "agent-quote", who, "Quotes are limited to 30 a minute.")
        query = read_query(request, QuoteQuery)
        size = size_from_query(query.size_usd)
        wallet = None if query.wallet is None else checked_wallet(query.wallet)
        snapshot, market = await self._listed(query.market_id)
        now = chain_now(snapshot.now)
        check_open(market, now)
        outcome = side_of(market, query.side)
        quoted = market.book.quote(outcome, size)
        balance = None if wallet is None else await self._balances.get(wallet)
        quote_id, is_locked = f"q_{secrets.token_hex(16)}", size > SIMPLE_MAX
        seconds = min(orders.LOCK_SECONDS, market.closes_at - now)
        expires = datetime.now(UTC) + timedelta(seconds=seconds)
        if is_locked:
            async with storage("The price locks"), self._context.pool.connection() as connection:
                expires = await orders.save_lock(connection, quote_id, market.key, outcome, size, seconds)
        body = quote(
            market,
            outcome,
            quoted,
            quote_id=quote_id,
            expires_at=iso_datetime(expires),
            projected=project_quote(market, outcome, quoted, now=now, balance=balance),
            snapshot=snapshot,
            links=self._links,
        )
        return json_response(QuoteBody(meta=chain_meta(self._links, snapshot), quote=body))

    async def positions(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, PositionsQuery)
        who, message = caller_ip(request, self._context.settings), "Positions are limited to 120 requests a minute."
        await self._context.limits.take_external(POSITIONS_RATE, "agent-positions", who, message)
        wallet = checked_wallet(query.wallet)
        before = None if query.cursor is None else place_of(query.cursor, 2)
        key = (wallet, query.limit, before)
        return await self._books.answer(request, key, lambda: self.positions_page(wallet, query.limit, before))

    async def positions_page(self, wallet: str, limit: int, before: tuple[int, ...] | None) -> bytes:
        # The page and the sums are of one state.
        async with storage("The positions", seconds=5.0), consistent_read(self._context.engine) as connection:
            stakes = await read_positions(connection, wallet, limit + 1, before)
            holdings = await read_holdings(connection, self._chain_id, wallet)
        snapshot, page = self._index.required(), stakes[:limit]
        open_ones = (each.market_key for each in holdings if each.market_key is not None)
        markets = await self._index.markets({*(each.market_key for each in page), *open_ones})
        bodies: list[Any] = await self._position_bodies(page, markets)
        return to_json(
            PositionsBody(
                meta=chain_meta(self._links, snapshot),
                wallet=wallet,
                count=len(bodies),
                summary=summary(holdings, markets),
                positions=bodies,
                next_cursor=cursor_of((page[-1].block, page[-1].log_index)) if len(stakes) > limit else None,
            )
        )

    async def _position_bodies(self, stakes: Sequence[Stake], markets: Mapping[bytes, ListedMarket]) -> list[Raw]:
        """Render positions, reusing each until its stake or its market changes."""
        bodies, rendered = [], 0
        for each in stakes:
            market = markets.get(each.market_key)
            if market is None:
                continue  # listed in a block read after the markets were
            cached = self._positions.get(each.id)
            if cached is None or cached[0] is not market or cached[1] != each:
                cached = (market, each, to_json(position(market, each, self._links)))
                self._positions[each.id] = cached
                rendered += 1
                if rendered % RENDERED_AT_ONCE == 0:
                    await asyncio.sleep(0)  # lets other requests run
            bodies.append(Raw(cached[2]))
        return bodies

    async def result(self, request: web.Request) -> web.StreamResponse:
        _, market = await self._listed(read_query(request, ResultQuery).market_id)

        async def render() -> bytes:
            body = await self.result_of(market.id)
            return to_json(ResultBody(meta=chain_meta(self._links, self._index.required()), result=body))

        return await self._rendered.answer(request, ("result", market.key), render)

    async def proof(self, request: web.Request) -> web.StreamResponse:
        text = request.match_info["tradeId"].lower()
        if not _HASH.fullmatch(text):
            raise _no_proof()
        trade_id = bytes_of(text)
        return await self._rendered.answer(request, ("proof", trade_id), lambda: self._proof(trade_id))

    async def _proof(self, trade_id: bytes) -> bytes:
        finality_blocks = self._context.settings.chain("base").finality_blocks
        async with storage("The proofs", seconds=5.0, status=503), self._context.engine.connect() as connection:
            stake = await read_by_bet(connection, trade_id)
            if stake is None:
                raise _no_proof()
            final_block = await read_final_block(connection, self._chain_id, finality_blocks)
        snapshot = self._index.required()
        market = (await self._index.markets((stake.market_key,), status=503)).get(stake.market_key)
        if market is None:
            raise problem("internal_error", "The market of this proof has not been loaded yet.", status=503)
        fields = proof(market, stake, self._links, snapshot.now, "final" if stake.block <= final_block else "confirmed")
        return to_json(TradeProofBody(meta=chain_meta(self._links, snapshot), **fields))

    async def _listed(self, name: str) -> tuple[MarketsSnapshot, ListedMarket]:
        snapshot = self._index.required()
        market = await self._index.market(name)
        if market is None:
            raise problem("market_not_found", f"There is no market {name!r}.")
        return snapshot, market


def _matching(markets: Iterable[ListedMarket], snapshot: MarketsSnapshot, query: MarketsQuery) -> list[ListedMarket]:
    symbol = _symbol(query)
    return sorted(
        (
            each
            for each in markets
            if each.supported
            and (query.status == "all" or each.status(snapshot.now) == "open")
            and (query.type is None or each.metric == query.type)
            and (symbol is None or each.token_symbol == symbol)
        ),
        key=_sort_key,
    )


def _symbol(query: MarketsQuery) -> str | None:
    return None if query.token is None else query.token.strip().removeprefix("$").upper()


def _related_markets(market: ListedMarket, snapshot: MarketsSnapshot) -> list[ListedMarket]:
    """Return related open markets: those on the same token, then those of the same kind, each sorted by deadline."""
    candidates = [
        each
        for each in snapshot.open_markets()
        if each.key != market.key and (each.token_symbol == market.token_symbol or each.kind == market.kind)
    ]
    candidates.sort(
        key=lambda each: (each.token_symbol != market.token_symbol, each.kind != market.kind, each.sort_key)
    )
    return candidates[:RELATED_MARKETS]


def _no_proof() -> Exception:
    return problem("not_found", "No settled trade has this id.")


def _example_paid(market: ListedMarket) -> list[Decimal | None] | None:
    """Return each side's payout for a bet of `EXAMPLE_SIZE`. The payout is None if the bet is too large for its side.
    Return None for range markets."""
    if market.kind is MarketKind.RANGE:
        return None
    paid: list[Decimal | None] = []
    for outcome in (0, 1):
        quoted = market.book.quote(outcome, EXAMPLE_SIZE)
        room = market.book.room(outcome, market.pot_cap) >= EXAMPLE_SIZE
        taken = room and quoted.price_after - quoted.price_before <= MAX_POINTS
        paid.append(json_number(project_quote(market, outcome, quoted).payout) if taken else None)
    return paid
