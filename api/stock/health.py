"""GET /api/health: checks everything that keeps the markets running. The checks query the nodes, so all requests within
a second share one run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.caching import TimedValue, json_response
from api.context import Context
from api.database import DATABASE_ERRORS
from api.operations import Body
from api.stock.bodies import UnixSeconds
from api.stock.facts import ListedMarket, MarketsSnapshot
from api.stock.index import read_undelivered
from api.stock.sources import StockSources
from core.chain import RpcError, checksum
from core.contracts.statuses import Family
from core.db.heartbeat import seconds_since_heartbeat
from core.db.schema.index_stock import stock_feed
from core.hexadecimal import hex_of
from core.log import redact_text
from core.money import decimal_text
from core.outbox import KEEPER, OPENER, RELAY, GroupReport, LaneStatus, report
from core.stock.sessions import trading_day

CHECK_SECONDS = 3.0
# Each check queries the nodes, whose rate limit is shared, and callers may check as often as they like.
SHARED_SECONDS = 1.0
HEAD_OLD_SECONDS = 60
INDEX_LAG_SECONDS = 60
# Every keeper, active or standby, writes a heartbeat every 5 s; a standby takes over within seconds.
KEEPER_SILENT_SECONDS = 30
SETTLED_WITHIN_SECONDS = 30 * 60
DELIVERED_WITHIN_SECONDS = 20 * 60
# Anyone may request health at any time, so the search for undelivered payouts reads at most this much at once.
POSITIONS_AT_ONCE = 500
# How late a feed may be beyond its heartbeat before it counts as silent.
FEED_SLACK_SECONDS = 3600
CheckFinding = tuple[bool, str]
NO_RPC: CheckFinding = (False, "no RPC URL is configured for the stock chain")


class CheckBody(Body):
    name: str
    ok: bool
    detail: str


class HealthBody(Body):
    """The checks of the stock markets: 200 if all pass, 503 otherwise."""

    ok: bool
    deployed: bool
    now_sec: UnixSeconds
    checks: list[CheckBody]


class Health:
    def __init__(self, context: Context, sources: StockSources) -> None:
        self._engine = context.engine
        self._pool = context.pool
        self._sources = sources
        self._shared = TimedValue(self._ask, SHARED_SECONDS)

    async def get(self, request: web.Request) -> web.StreamResponse:
        checks = await self._shared.get()
        ok = all(each.ok for each in checks)
        body = HealthBody(ok=ok, deployed=self._sources.contracts is not None, now_sec=int(time.time()), checks=checks)
        return json_response(body, 200 if ok else 503)

    async def _ask(self) -> list[CheckBody]:
        checks: dict[str, Callable[[], Awaitable[CheckFinding]]] = {
            "rpc-head": self._rpc_head,
            "settlement": self._settlement,
            "keeper": self._keeper,
            "keeper-eth": self._keeper_eth,
            "keeper-token": self._keeper_token,
            "market-reads": self._market_reads,
            "market-logs": self._market_logs,
            "open-schedule": self._open_schedule,
            "delivery": self._delivery,
            "feeds": self._feeds,
            "relayer": self._relayer,
        }
        return list(await asyncio.gather(*(self._run(name, check) for name, check in checks.items())))

    async def _run(self, name: str, check: Callable[[], Awaitable[CheckFinding]]) -> CheckBody:
        if self._sources.contracts is None and name != "rpc-head":
            return CheckBody(name=name, ok=True, detail="not deployed yet")
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                holds, detail = await check()
        except TimeoutError:
            holds, detail = False, f"no response within {CHECK_SECONDS:g} s"
        except (*DATABASE_ERRORS, RpcError) as error:
            reason = str(error).splitlines()[0] if str(error) else "no response"
            holds, detail = False, redact_text(f"the check failed: {reason}")
        return CheckBody(name=name, ok=holds, detail=detail)

    async def _rpc_head(self) -> CheckFinding:
        if self._sources.client is None:
            return NO_RPC
        head = await self._sources.client.head(timeout_seconds=CHECK_SECONDS)
        age = int(time.time()) - head.timestamp
        if self._sources.deployment.kind == "local":
            return True, f"block {head.number} of a local chain"
        return age < HEAD_OLD_SECONDS, f"block {head.number} is {age} s old"

    async def _market_reads(self) -> CheckFinding:
        contracts, client = self._sources.contracts, self._sources.client
        if contracts is None or client is None:
            return NO_RPC
        count = await client.read(contracts.settler.call("marketCount"), timeout_seconds=CHECK_SECONDS)
        return True, f"the contract reports {count} markets"

    async def _market_logs(self) -> CheckFinding:
        head = self._snapshot().head
        silence = max(0, int(time.time()) - head.seen_at)
        if head.state == "halted":
            return False, "the indexer has stopped: it found a contradiction"
        if not self._sources.index.readable:
            return False, "the index cannot be read"
        return (
            silence <= INDEX_LAG_SECONDS and head.state == "tail",
            f"block {head.number}, {head.lag} behind; the node's head was last read {silence} s ago ({head.state})",
        )

    async def _keeper(self) -> CheckFinding:
        async with self._pool.connection() as connection:
            silence = await seconds_since_heartbeat(connection, "keeper")
        if silence is None:
            return False, "no keeper is running"
        return silence <= KEEPER_SILENT_SECONDS, f"last keeper heartbeat {max(0.0, silence):.0f} s ago"

    async def _settlement(self) -> CheckFinding:
        snapshot = self._snapshot()
        now = snapshot.head.timestamp
        late = [
            market
            for market in snapshot.markets.values()
            if not market.market.settled and now > market.final_time + SETTLED_WITHIN_SECONDS
        ]
        return not late, _listing(late, "unsettled 30 min after the bell", "every market past its bell is settled")

    async def _delivery(self) -> CheckFinding:
        """Check that settled markets are paid out. Ignore positions whose transfer the token refused."""
        snapshot = self._snapshot()
        over = [
            market
            for market in snapshot.markets.values()
            if market.result is not None and snapshot.head.timestamp > market.result.at + DELIVERED_WITHIN_SECONDS
        ]
        async with self._engine.connect() as connection:
            undelivered = await read_undelivered(
                connection, over, snapshot.head.moment, at_most=POSITIONS_AT_ONCE, include_refused=False
            )
        late = [market for market in over if market.id in undelivered]
        return not late, _listing(late, "undelivered 20 min after settlement", "everything settled is delivered")

    async def _open_schedule(self) -> CheckFinding:
        snapshot = self._snapshot()
        session = trading_day(snapshot.head.timestamp)
        if session is None:
            return True, "no session today"
        if not session.opens <= snapshot.head.timestamp < session.closes:
            return True, "the session is not open"
        if snapshot.markets and all(market.opened_at >= session.opens for market in snapshot.markets.values()):
            return True, "the first market was listed in this session"
        async with self._engine.connect() as connection:
            allowed = await read_allowed_feeds(connection)
        listed = {(market.feed, market.family, market.final_time) for market in snapshot.markets.values()}
        missing = [f"{ticker} daily" for ticker, feed in allowed if (feed, Family.DAILY, session.closes) not in listed]
        if session.opens_week:
            missing += [
                f"{ticker} weekly"
                for ticker, feed in allowed
                if (feed, Family.WEEKLY, session.week_closes) not in listed
            ]
        return not missing, f"not listed: {', '.join(missing)}" if missing else f"{len(allowed)} tickers are listed"

    async def _keeper_eth(self) -> CheckFinding:
        group = await self._lanes(KEEPER)
        broke = [lane for lane in group.lanes if lane.status is LaneStatus.OUT_OF_GAS or lane.balance_wei == 0]
        funded = [lane for lane in group.lanes if lane not in broke and lane.balance_wei is not None]
        if not group.lanes:
            return False, "no lane serves the keeper"
        return bool(funded), f"{len(funded)} of {len(group.lanes)} lanes can pay for gas"

    async def _keeper_token(self) -> CheckFinding:
        contracts, client = self._sources.contracts, self._sources.client
        if contracts is None or client is None:
            return NO_RPC
        group = await self._lanes(OPENER)
        openers = [hex_of(lane.address) for lane in group.lanes]
        declared = self._sources.deployment.operator_wallets.get("opener")
        if not openers and declared is not None:
            openers = [declared]
        if not openers:
            return False, "no wallet lists markets"
        calls = [contracts.token.call("balanceOf", each) for each in openers]
        balances = [await client.read(call, timeout_seconds=CHECK_SECONDS) for call in calls]
        # The seed of a day's markets: both legs, for each stock.
        needed = 2 * self._sources.deployment.param("seedPerLeg") * max(1, len(self._sources.deployment.price_feeds))
        most = max(balances)
        return most >= needed, f"{decimal_text(most)} USDG for seeds; a day needs {decimal_text(needed)}"

    async def _feeds(self) -> CheckFinding:
        oracle = self._sources.oracle
        latest = oracle.oracle.latest
        if not latest:
            return False, "no feed could be read"
        feeds, unreadable = self._sources.deployment.price_feeds, oracle.oracle.unreadable
        missing = [feed.ticker for feed in feeds if feed.proxy in unreadable or feed.proxy not in latest]
        if missing:
            return False, f"no round of {', '.join(missing)}"
        now = oracle.head_time
        session = trading_day(now)
        if session is None or not session.opens <= now < session.closes:
            return True, f"{len(latest)} feeds, no session now"
        silent = [
            feed.ticker
            for feed in self._sources.deployment.price_feeds
            if now - latest[feed.proxy].updated_at > feed.heartbeat_seconds + FEED_SLACK_SECONDS
        ]
        return not silent, f"silent: {', '.join(silent)}" if silent else f"{len(latest)} feeds are fresh"

    async def _relayer(self) -> CheckFinding:
        group = await self._lanes(RELAY)
        if not group.lanes:
            return False, "no lane takes bets"
        states = ", ".join(
            f"{lane.status.value}{'' if lane.leased else ' (no relayer holds it)'}" for lane in group.lanes
        )
        return group.works, f"{states}; {group.in_flight} in flight, {group.queued} queued"

    async def _lanes(self, group: str) -> GroupReport:
        async with self._pool.connection() as connection:
            return await report(connection, self._sources.deployment.chain_id, group)

    def _snapshot(self) -> MarketsSnapshot:
        snapshot = self._sources.index.snapshot
        if snapshot is None:
            raise OSError("nothing has been indexed yet")
        return snapshot


def _listing(late: list[ListedMarket], what: str, otherwise: str) -> str:
    if not late:
        return otherwise
    ids = ", ".join(str(market.id) for market in late[:10])
    return f"{len(late)} {what}: {ids}{', ...' if len(late) > 10 else ''}"


async def read_allowed_feeds(connection: AsyncConnection) -> list[tuple[str, str]]:
    query = select(stock_feed.c.ticker, stock_feed.c.feed).where(stock_feed.c.allowed).order_by(stock_feed.c.ticker)
    return [(row.ticker, checksum(row.feed)) for row in await connection.execute(query)]
