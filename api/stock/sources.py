"""The data sources of the stock surface: its contracts, its index, and a watch of its feeds.

All reads of one pass see the same block. A market is read again when its feed has a new round, when its strike or bell
passes, and every `REREAD_SECONDS`, because the stock's oracle may be paused or resumed without a new round.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cachetools import LRUCache
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.database import DATABASE_ERRORS
from api.head import Head
from api.stock.facts import ListedMarket, MarketReadings, Oracle, ResolverPreview
from api.stock.index import StockIndex
from core.chain import Block, Call, ChainClient, Contract, RpcError, checksum, values
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from core.contracts.statuses import RoundProblem
from core.db.schema.index_shared import oracle_round
from core.feeds.rounds import Round
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.stock.halts import halt, sequencer_is_up
from core.stock.sessions import sessions_around

STOCK_TOKEN_SYMBOL = "USDG"  # noqa: S105 - a currency


@dataclass(frozen=True, slots=True)
class StockContracts:
    """The deployed contracts, with the errors that may bubble up through the settler."""

    settler: Contract
    resolver: Contract
    lister: Contract
    token: Contract

    @classmethod
    def of(cls, deployment: Deployment) -> StockContracts | None:
        """Build the contracts of a deployment. Return None before the contracts are deployed."""
        if not deployment.is_deployed:
            return None
        token = Contract(deployment.token(STOCK_TOKEN_SYMBOL).address, abi("LocalUSDG"))
        return cls(
            settler=Contract(deployment.contract("VestedMarkets").address, abi("VestedMarkets"), token.abi),
            resolver=Contract(deployment.contract("RoundResolver").address, abi("RoundResolver")),
            lister=Contract(deployment.contract("MarketLister").address, abi("MarketLister")),
            token=token,
        )


def stock_call(stock_token: str, name: str) -> Call:
    return Contract(stock_token, abi("LocalStockToken")).call(name)


def feed_call(feed: str, name: str, *arguments: int) -> Call:
    return Contract(feed, abi("LocalFeed")).call(name, *arguments)


log = get_logger(__name__)
# Between passes. A pass is one batch over the feeds, and a second one only for markets that need it.
PAUSE_SECONDS = 2.0
REREAD_SECONDS = 10.0
TIMEOUT_SECONDS = 3.0
MAX_OLD_MARKETS = 64
STALE_AFTER_SECONDS = 10.0
# An index that is further behind is not read at: a pause of a stock would be noticed late.
CURRENT_SECONDS = 5


class OracleWatch:
    """A background reader of the feeds: their latest rounds, and the finder's and resolver's views of started markets.
    Without a `client`, nothing is read."""

    def __init__(
        self,
        client: ChainClient | None,
        deployment: Deployment,
        contracts: StockContracts | None,
        index: StockIndex,
        engine: AsyncEngine,
    ) -> None:
        self.oracle = Oracle()
        self.head_time = 0
        self.readable = False
        self._client = client
        self._deployment = deployment
        self._contracts = contracts
        self._index = index
        self._engine = engine
        self._last_reads: dict[int, tuple[Hashable, float]] = {}
        self._old_markets: LRUCache[int, ListedMarket] = LRUCache(MAX_OLD_MARKETS)

    def follow_old_market(self, market: ListedMarket) -> None:
        """Also read this market, which was settled long ago. Ignore it if rounds settled it, because its rounds are
        then known."""
        if not _settled_by_rounds(market):
            self._old_markets[market.id] = market

    def halt_reason(self, market: ListedMarket | None) -> str | None:
        """Return why betting on a market is halted. Return None if it is not halted or the state is unknown."""
        return None if market is None else self.oracle.halts.get(market.feed)

    @property
    def _node(self) -> ChainClient:
        assert self._client is not None
        return self._client

    @property
    def stale(self) -> bool:
        return self._client is not None and time.time() - self.oracle.read_at > STALE_AFTER_SECONDS

    async def run(self) -> None:
        tick = 0
        while True:
            next_pass = time.monotonic() + PAUSE_SECONDS
            await self.refresh()
            tick = await self._index.changed(tick, max(0.0, next_pass - time.monotonic()))
            await asyncio.sleep(max(0.0, next_pass - time.monotonic()))

    async def refresh(self) -> None:
        """Read all feeds and markets once. If the chain cannot be read, keep the last reading."""
        try:
            async with asyncio.timeout(4 * TIMEOUT_SECONDS):
                await self._read()
            self.readable = True
        except (RpcError, TimeoutError) as error:
            if self.readable or not self.oracle.version:
                log.warning("failed to read the stock chain", action="stock.chain_unreadable", why=error)
            self.readable = False
            if not self.oracle.latest:
                await self._load_from_index()

    async def _read(self) -> None:
        """Read at the index's block, or at the node's head if the node lacks that block or the index is behind."""
        snapshot = self._index.snapshot
        if snapshot is not None and _is_current(snapshot.head):
            with contextlib.suppress(RpcError):
                return await self._read_at(snapshot.head)
        await self._read_at(await self._node.head(timeout_seconds=TIMEOUT_SECONDS))

    async def _read_at(self, head: Head | Block) -> None:
        read, halts = await self._latest(head.number, head.timestamp)
        unreadable = frozenset(feed.proxy for feed in self._deployment.price_feeds if feed.proxy not in read)
        latest = {**self.oracle.latest, **read}
        readings = dict(self.oracle.readings)
        if self._index.snapshot is not None:
            markets = {**{each.id: each for each in self._old_markets.values()}, **self._index.snapshot.markets}
            due = [m for m in markets.values() if self._needs_reading(m, latest.get(m.feed), head.timestamp)]
            for market_id in [each for each in readings if each not in markets]:
                del readings[market_id]
                self._last_reads.pop(market_id, None)
            if due:
                readings |= await self._readings(due, head.number, head.timestamp)
                for market in due:
                    state = _state(market, latest.get(market.feed), head.timestamp)
                    self._last_reads[market.id] = (state, time.time())
        self.head_time = head.timestamp
        old = self.oracle
        changed = (latest, unreadable, readings, halts) != (old.latest, old.unreadable, old.readings, old.halts)
        self.oracle = Oracle(
            read_at=int(time.time()),
            latest=latest,
            unreadable=unreadable,
            readings=readings,
            halts=halts,
            version=old.version + int(changed or not old.version),
        )

    async def _latest(self, block: int, now: int) -> tuple[dict[str, Round], dict[str, str]]:
        """In one batch, read each feed's latest round and whether betting on its markets is halted. Return the rounds,
        and the reasons for the halts, by feed."""
        feeds = self._deployment.price_feeds
        if not feeds:
            return {}, {}
        sequencer = self._deployment.sequencer_feed
        calls = [feed_call(feed.proxy, "latestRoundData") for feed in feeds]
        calls += [stock_call(feed.stock_token, "oraclePaused") for feed in feeds]
        if sequencer is not None:
            calls.append(feed_call(sequencer, "latestRoundData"))
        answers = await self._node.read_many(calls, block, timeout_seconds=TIMEOUT_SECONDS)
        failures = [answer for answer in answers if isinstance(answer, RpcError) and answer.kind.blames_node]
        if failures:
            raise failures[0]
        # A feed that reverts has no round; the other feeds are not affected.
        latest = {
            feed.proxy: _round(answer)
            for feed, answer in zip(feeds, answers[: len(feeds)], strict=True)
            if not isinstance(answer, RpcError) and answer[3] > 0
        }
        uptime = None if sequencer is None else answers[-1]
        is_up = uptime is None or (not isinstance(uptime, RpcError) and sequencer_is_up(uptime[1], uptime[2], now))
        sessions = sessions_around(now)
        halts = {}
        for feed, paused in zip(feeds, answers[len(feeds) : 2 * len(feeds)], strict=True):
            newest = latest.get(feed.proxy)
            why = halt(
                paused=isinstance(paused, RpcError) or bool(paused),  # without a response it counts as paused
                sequencer_up=is_up,
                updated_at=None if newest is None else newest.updated_at,
                longest=feed.max_final_age_seconds,
                sessions=sessions,
                now=now,
            )
            if why is not None:
                halts[feed.proxy] = why
        return latest, halts

    def _needs_reading(self, market: ListedMarket, latest: Round | None, now: int) -> bool:
        if now < market.strike_time or _settled_by_rounds(market):
            return False
        state, at = self._last_reads.get(market.id, (None, 0.0))
        return state != _state(market, latest, now) or (market.result is None and time.time() - at > REREAD_SECONDS)

    async def _readings(self, markets: list[ListedMarket], block: int, now: int) -> dict[int, MarketReadings]:
        contracts = self._contracts
        assert contracts is not None
        calls: list[Call] = []
        for market in markets:
            calls.append(contracts.resolver.call("findRound", market.feed, market.strike_time))
            if now > market.final_time:
                calls.append(contracts.resolver.call("findRound", market.feed, market.final_time))
                calls.append(contracts.resolver.call("preview", market.id))
        answers = iter(await self._read_all(calls, block))
        answered: list[tuple[ListedMarket, tuple[int, int], tuple[int, int] | None, ResolverPreview | None]] = []
        keys: dict[tuple[str, int], None] = {}
        for market in markets:
            strike = next(answers)
            final = next(answers) if now > market.final_time else None
            preview = ResolverPreview(*next(answers)) if now > market.final_time else None
            answered.append((market, strike, final, preview))
            for answer in (strike, final):
                if answer is not None and answer[1] == RoundProblem.OK:
                    keys[market.feed, answer[0]] = None
        rounds = await self._read_all([feed_call(feed, "getRoundData", number) for feed, number in keys], block)
        by_key = {key: _round(answer) for key, answer in zip(keys, rounds, strict=True)}
        return {
            market.id: MarketReadings(
                strike=by_key.get((market.feed, strike[0])),
                strike_problem=strike[1],
                final=None if final is None else by_key.get((market.feed, final[0])),
                final_problem=0 if final is None else final[1],
                preview=preview,
            )
            for market, strike, final, preview in answered
        }

    async def _read_all(self, calls: list[Call], block: int) -> list[Any]:
        return values(await self._node.read_many(calls, block, timeout_seconds=TIMEOUT_SECONDS))

    async def _load_from_index(self) -> None:
        """Load the last rounds from the index. They are used until the chain has been read once."""
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS), self._engine.connect() as connection:
                feeds = [feed.proxy for feed in self._deployment.price_feeds]
                latest = await read_latest_rounds(connection, self._deployment.chain_id, feeds)
        except DATABASE_ERRORS:
            return
        if latest:
            self.oracle = replace(self.oracle, latest=latest, version=self.oracle.version + 1)


def _is_current(head: Head) -> bool:
    """Return whether a node recently reported that the indexed head is close to its newest block."""
    return head.lag_seconds <= CURRENT_SECONDS and time.time() - head.seen_at <= CURRENT_SECONDS


def _round(answer: Any) -> Round:
    return Round(answer[0], answer[1], answer[3])


def _settled_by_rounds(market: ListedMarket) -> bool:
    return market.result is not None and market.result.strike is not None


def _state(market: ListedMarket, latest: Round | None, now: int) -> Hashable:
    """Return a value that changes when the market must be read again."""
    if market.result is not None:  # its rounds are known, and later prices do not matter
        return now > market.final_time, market.version
    return now >= market.strike_time, now > market.final_time, latest


async def read_latest_rounds(connection: AsyncConnection, chain_id: int, feeds: Sequence[str]) -> dict[str, Round]:
    latest: dict[str, Round] = {}
    for feed in feeds:  # a handful, each one index lookup
        query = (
            select(oracle_round)
            .where(oracle_round.c.chain_id == chain_id, oracle_round.c.feed == bytes_of(feed))
            .order_by(oracle_round.c.updated_at.desc(), oracle_round.c.round_id.desc())
            .limit(1)
        )
        row = (await connection.execute(query)).one_or_none()
        if row is not None:
            latest[checksum(row.feed)] = Round(row.round_id, row.answer, row.updated_at)
    return latest


@dataclass(frozen=True, slots=True)
class StockSources:
    """The sources of the stock surface. `contracts` is None before deployment, and `client` without an RPC URL."""

    deployment: Deployment
    contracts: StockContracts | None
    client: ChainClient | None
    index: StockIndex
    oracle: OracleWatch
