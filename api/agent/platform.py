"""The platform endpoints: statistics, health, getting started, and whether a wallet can bet."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from functools import partial
from typing import Annotated, Literal

from aiohttp import web
from limits import parse
from msgspec import Meta
from sqlalchemy import text

from api.agent.bodies.parts import NETWORK, VERSION, AgentAnswer, ChainAnswer, chain_meta, meta, usd
from api.agent.chain import responds
from api.agent.errors import storage
from api.agent.facts import Links
from api.agent.index import AgentParts
from api.agent.requests import MIN_SIZE, checked_wallet
from api.agent.rows import MAX_SETTLED, require_sums
from api.agent.trade.orders import SIMPLE_MAX
from api.caching import REVALIDATED, Rendered, TimedValue, json_response
from api.database import DATABASE_ERRORS
from api.limits import caller_ip
from api.operations import Body
from core.contracts.statuses import AgentMarketStatus
from core.iso import iso_datetime, now_iso
from core.log import get_logger
from core.money import decimal_text, to_json
from core.outbox import RELAY, report


class Funding(Body):
    network: Literal["base"]
    usdc_address: str
    docs_url: str


class AgentReadiness(Body):
    wallet: str
    usdc_balance_usd: Decimal | None
    can_bet_min: bool | None
    min_bet_usd: Decimal
    simple_tier_max_usd: Decimal
    gas_needed: Annotated[bool, Meta(extra_json_schema={"const": False})]
    reason: str
    funding: Funding
    hint: str | None


class ReadinessBody(AgentAnswer):
    readiness: AgentReadiness


class MarketCounts(Body):
    open: int
    resolved: int


class AgentStats(Body):
    markets: MarketCounts
    total_bets: int
    total_volume_usd: Decimal
    total_paid_out_usd: Decimal
    median_payout_delay_sec: float | None
    auto_payout_rate: Annotated[
        float | None,
        Meta(
            description="The share of winning stakes, in the markets of the last week, that the service paid within 10"
            " minutes of resolution. Refunds are not counted."
        ),
    ]
    proof_samples: list[str]
    custody: str
    as_of: str


class StatsBody(ChainAnswer):
    stats: AgentStats


class AgentHealth(Body):
    """The state of the agent markets. `reason`: why `ok` is false. `attester`: the address that signs offers, receipts
    and callbacks."""

    ok: bool
    markets_open: int
    last_resolve_tick_at: str | None
    last_snapshot_tick_at: str | None
    last_canary_at: str | None
    payout_queue_depth: int | None
    version: str
    reason: str | None
    attester: str | None


class HealthBody(AgentAnswer):
    health: AgentHealth


class GuideStep(Body, kw_only=False):
    step: int
    title: str
    method: Literal["GET", "POST"]
    url: str
    example_request: str | None
    example_response: str
    note: str


class GettingStarted(AgentAnswer):
    intro: str
    auto_payout_note: str
    steps: list[GuideStep]


log = get_logger(__name__)

# Cached here for a minute, and not longer anywhere else.
STATS_SECONDS = 60.0
SCRIPT_CACHE = "public, max-age=300"
READINESS_RATE = parse("60/minute")  # each calls a node, and all callers also share a limit for those
PAID_IN_TIME_SECONDS = 600
PROOF_SAMPLES = 5
# Callers are not limited, and all share the nodes' rate limit.
PROBE_SECONDS = 2.0
# Payout times are reported over this period. The outbox keeps its transactions for longer.
PAYOUTS_SECONDS = 7 * 86_400
# The newest markets count, as long as they have at most this many winning stakes together.
PAYOUTS_LOOKED_AT = 20_000

# Winning stakes are those on the winning side of resolved markets. If that side has no stake or all of them, every
# stake is refunded and none counts.
_STATS = text(
    f"""
    WITH newest AS (
        SELECT market_id, winner, net_pool, closed_at FROM agent_market WHERE status <> {AgentMarketStatus.OPEN:d}
        AND closed_at > :since ORDER BY closed_at DESC, market_id DESC LIMIT :markets
    ), counted AS (
        SELECT m.*, sum(w.stakes) OVER (ORDER BY closed_at DESC, market_id DESC) - w.stakes AS newer
        FROM newest m CROSS JOIN LATERAL (
            SELECT stakes FROM agent_outcome w WHERE w.market_id = m.market_id AND w.outcome = m.winner
            AND w.shares > 0 AND w.net <> m.net_pool LIMIT 1
        ) w
    ), won AS (
        SELECT s.*, m.closed_at FROM counted m CROSS JOIN LATERAL (
            SELECT s.paid_at, s.paid_tx FROM agent_stake s WHERE s.market_id = m.market_id AND s.outcome = m.winner
            OFFSET 0
        ) s WHERE m.newer < :stakes
    ), ours AS (
        SELECT won.* FROM won CROSS JOIN LATERAL (SELECT FROM outbox_transaction WHERE hash = won.paid_tx LIMIT 1) o
    )
    SELECT
        (SELECT coalesce(sum(stakes), 0) FROM agent_total) AS bets,
        (SELECT coalesce(sum(staked), 0) FROM agent_total) AS volume,
        (SELECT coalesce(sum(paid_out), 0) FROM agent_total) AS paid,
        (SELECT coalesce(sum(settled), 0) FROM agent_total WHERE feed = ANY(:feeds)) AS settled,
        (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY paid_at - closed_at) FROM won WHERE paid_at IS NOT NULL)
            AS delay,
        (SELECT count(*) FROM won) AS winners,
        (SELECT count(*) FROM ours WHERE paid_at - closed_at <= :in_time) AS in_time
    """  # noqa: S608
)
_SAMPLES = text(
    "SELECT bet_hash FROM agent_stake WHERE outcome IS NOT NULL "
    "ORDER BY staked_at DESC, staked_block DESC, staked_log_index DESC LIMIT :most"
)
_RUNS = b"SELECT job, finished_at FROM keeper_run WHERE job IN ('agent-resolve', 'agent-snapshot', 'agent-canary')"
# Counts immediate refunds, winning stakes, and all stakes of markets that are void or have no winning stake.
_QUEUE = text("SELECT coalesce(sum(unpaid), 0) FROM agent_market WHERE unpaid > 0")


class Platform:
    def __init__(self, parts: AgentParts, attester: str | None) -> None:
        self._parts, self._context, self._index, self._links = parts, parts.context, parts.index, parts.links
        self._responds = TimedValue(partial(responds, parts.client), PROBE_SECONDS)
        self._attester = attester
        self._stats = TimedValue(self._rendered_stats, STATS_SECONDS)

    async def stats(self, request: web.Request) -> web.StreamResponse:
        return (await self._stats.get()).answer(request)

    async def _rendered_stats(self) -> Rendered:
        snapshot = self._index.required()
        parameters = {
            "in_time": PAID_IN_TIME_SECONDS,
            "markets": MAX_SETTLED,
            "stakes": PAYOUTS_LOOKED_AT,
            "since": snapshot.head.timestamp - PAYOUTS_SECONDS,
            "feeds": list(self._index.feeds),
        }
        async with storage("The statistics", seconds=5.0), self._context.engine.connect() as connection:
            await require_sums(connection, self._parts.chain_id, "Statistics")
            row = (await connection.execute(_STATS, parameters)).one()
            samples = (await connection.execute(_SAMPLES, {"most": PROOF_SAMPLES})).scalars().all()
        stats = AgentStats(
            markets=MarketCounts(open=len(snapshot.open_markets()), resolved=int(row.settled)),
            total_bets=int(row.bets),
            total_volume_usd=usd(int(row.volume)),
            total_paid_out_usd=usd(int(row.paid)),
            median_payout_delay_sec=None if row.delay is None else float(row.delay),
            auto_payout_rate=round(row.in_time / row.winners, 4) if row.winners else None,
            proof_samples=[self._links.proof(each) for each in samples],
            custody=custody(self._links.settlement),
            as_of=now_iso(),
        )
        body = StatsBody(meta=chain_meta(self._links, snapshot), stats=stats)
        return await Rendered.make(to_json(body), REVALIDATED)

    async def health(self, _request: web.Request) -> web.StreamResponse:
        """Return 200 in any state; `ok` says whether bets are accepted."""
        snapshot = self._index.snapshot
        why = self._parts.switch.why_off(snapshot)
        ticks: dict[str, str] = {}
        queue: int | None = None
        lanes = None
        try:
            async with asyncio.timeout(3), self._context.pool.connection() as connection:
                lanes = await report(connection, self._parts.chain_id, RELAY)
                runs = await (await connection.execute(_RUNS)).fetchall()
                ticks = {job: iso_datetime(finished_at) for job, finished_at in runs}
            async with asyncio.timeout(3), self._context.engine.connect() as read:
                queue = await read.scalar(_QUEUE)
        except DATABASE_ERRORS as error:
            log.warning("failed to read the database for a health check", action="agent.no_database", why=error)
            why = why or "The database cannot be read."
        if why is None and not await self._responds.get():
            why = "No Base node responds."
        if why is None and (lanes is None or not lanes.works):
            why = "The relayer is down or has no gas."
        health = AgentHealth(
            ok=why is None,
            markets_open=0 if snapshot is None else len(snapshot.open_markets()),
            last_resolve_tick_at=ticks.get("agent-resolve"),
            last_snapshot_tick_at=ticks.get("agent-snapshot"),
            last_canary_at=ticks.get("agent-canary"),
            payout_queue_depth=queue,
            version=VERSION,
            reason=why,
            attester=self._attester,
        )
        return json_response(HealthBody(meta=meta(self._links), health=health))

    async def getting_started(self, _request: web.Request) -> web.StreamResponse:
        return json_response(getting_started(self._links), cache_control=SCRIPT_CACHE)

    async def readiness(self, request: web.Request) -> web.StreamResponse:
        who = caller_ip(request, self._context.settings)
        message = "Balances are limited to 60 requests a minute."
        await self._context.limits.take_external(READINESS_RATE, "agent-readiness", who, message)
        wallet = checked_wallet(request.match_info["address"])
        balance = await self._parts.balances.get(wallet)
        ready = None if balance is None else balance >= MIN_SIZE
        if balance is None:
            reason, hint = "The balance cannot be read at the moment.", "Try again shortly."
        elif ready:
            reason, hint = f"The wallet holds {decimal_text(balance)} USDC on Base and can bet.", None
        else:
            reason = f"The wallet holds {decimal_text(balance)} USDC on Base; the smallest bet is 1 USDC."
            hint = "Send USDC on Base to this wallet. It needs no ETH."
        contracts = self._parts.contracts
        usdc = "" if contracts is None else contracts.token_facts.address
        readiness = AgentReadiness(
            wallet=wallet,
            usdc_balance_usd=None if balance is None else usd(balance),
            can_bet_min=ready,
            min_bet_usd=usd(MIN_SIZE),
            simple_tier_max_usd=usd(SIMPLE_MAX),
            gas_needed=False,
            reason=reason,
            funding=Funding(network=NETWORK, usdc_address=usdc, docs_url=self._links.docs),
            hint=hint,
        )
        return json_response(ReadinessBody(meta=meta(self._links), readiness=readiness))


def custody(contract: str) -> str:
    """Say what the contract can and cannot do with stakes, and which parties are trusted."""
    if not contract:
        return "No settlement contract is deployed yet, so no money is held."
    return (
        f"Stakes are held by the contract {contract} on Base. It pays each market's winners according to its feed, "
        "refunds stakes to the wallets that made them, and sends the fees of settled markets to the treasury. A booked "
        "stake cannot go anywhere else: no key, not even the operator's, can withdraw or redirect it or choose an "
        "outcome. You trust the feed, which decides; if a feed has a publisher, that publisher, whose false readings "
        "the Safe can only answer by condemning the feed, which refunds every unsettled stake on it; the creditor, "
        "which books payments of 1 USDC or more that reached the contract without a bet (less is a gift) and could "
        "take those that are not booked yet; and the relayer, which decides which bet a payment with a random nonce is "
        "for. A payment bound to its bet (nonce extra.receiveNonce of the 402, signed as ReceiveWithAuthorization) can "
        "only be staked on that bet, by anyone, and requires trusting neither the creditor nor the relayer."
    )


def getting_started(links: Links) -> GettingStarted:
    api = links.api
    bet = (
        '{"marketId":"<id>","side":"yes","sizeUsd":1,"idemKey":"first-bet-0001",'
        '"walletAddress":"0x0000000000000000000000000000000000000001"'
    )
    steps: tuple[tuple[str, Literal["GET", "POST"], str, str | None, str, str], ...] = (
        ("List the markets", "GET", f"{api}/markets", None, '{"meta":{},"count":1,"markets":[{"id":"<id>"}]}',
         "Pick a market's id, and a side from its outcome keys."),
        ("Research one", "GET", f"{api}/markets/<id>/research", None, '{"meta":{},"research":{"odds":{}}}',
         "It has the rules, odds history, observations and the price impact of several bet sizes."),
        ("Get a quote", "GET", f"{api}/quote?marketId=<id>&side=yes&sizeUsd=1", None,
         '{"meta":{},"quote":{"quoteId":"q_...","estimatedShares":1.9}}',
         "Above 10 USD, keep quoteId and suggestedMinSharesOut; the price is locked for 60 seconds."),
        ("Simulate the bet", "POST", f"{api}/trade", bet + ',"simulate":true}',
         '{"meta":{},"replay":false,"receipt":{"simulated":true,"txHash":null}}',
         "This runs the checks without moving money; the wallet may be empty."),
        ("Fund the wallet", "GET", f"{api}/wallet/<address>/readiness", None,
         '{"meta":{},"readiness":{"canBetMin":true,"gasNeeded":false}}',
         "Send USDC on Base to the wallet. It needs no ETH."),
        ("Place a real bet", "POST", f"{api}/trade", bet + "}",
         '{"meta":{},"replay":false,"receipt":{"txHash":"0x..."}}',
         "The first call returns 402. Sign the authorization it describes and send the same body again, with the "
         "payment in PAYMENT-SIGNATURE (x402 v2) or X-PAYMENT (v1)."),
    )  # fmt: skip
    return GettingStarted(
        meta=meta(links),
        intro="Prediction markets on Base for autonomous agents. The wallet that pays is the account: no key, no "
        "sign-up, no gas.",
        auto_payout_note="Winners are paid USDC automatically when a market resolves; there is nothing to claim.",
        steps=[GuideStep(number, *step) for number, step in enumerate(steps, 1)],
    )
