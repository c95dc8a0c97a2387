"""POST /trade: checks a bet in a fixed order, asks for payment, has it settled once, and tells what became of it.

Whatever is sent again, by whomever and whenever, settles nothing twice: the contract takes a wallet's idempotency key
and an authorization once. After a broadcast no answer asks for another payment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
from aiohttp import web
from limits import RateLimitItem, parse
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent import render, store, x402
from api.agent.attest import Attester
from api.agent.chain import AgentContracts, PaymentFacts, accepts_signature, read_facts
from api.agent.facts import Market, Stake, Venue
from api.agent.follower import AgentIndex
from api.agent.models import TradeRequest
from api.agent.problems import problem
from api.agent.render import Links
from api.agent.reply import reply
from api.agent.rows import read_by_key
from api.agent.switch import Trading as TradingSwitch
from api.agent.times import now_iso
from api.agent.x402 import Payment, PaymentRejected
from api.http.caller import caller_ip
from api.http.limits import RateLimits
from api.http.problem import Problem
from core.chain import ChainClient, RpcError
from core.config import Settings
from core.db.engine import Pool
from core.db.schema.index_shared import token_authorization
from core.errors import DatabaseError
from core.log import get_logger
from core.metrics import counter
from core.mirror.intent import ZERO_ADDRESS, Intent, idem_hash, intent_hash
from core.mirror.settlement import Quote
from core.money import USD, decimal_text
from core.outbox import HAS_RESULT, RELAY, IntentRequest, IntentWatch, Outcome, report
from core.outbox import Intent as OutboxIntent

log = get_logger(__name__)

ANSWERS = counter("vpm_agent_trade_answers", "What POST /trade answered", ("answer",))

SIMPLE_MAX = 10 * USD
MIN_SIZE = 1 * USD
MOST_POINTS = 40 * 10**16  # wad: what one trade may move the price by
TRADE_RATE = parse("10/minute")
ONCE_A_PAIR = parse("1/2 minutes")
RESULT_WAIT_SECONDS = 10.0
SAME_KEY_WAIT_SECONDS = 4.0
INDEX_WAIT_SECONDS = 5.0
# Blocks come with gaps; the wall clock may run ahead of the head by so much before it is not believed.
CLOCK_SLACK_SECONDS = 60

UNREACHABLE = (psycopg.Error, SQLAlchemyError, DatabaseError, OSError, TimeoutError)

_CLOSED = frozenset({"Closed", "AlreadySettled", "NotOpenYet", "UnknownMarket"})
_PAUSED = frozenset({"StakesArePaused", "MissingRole"})
_SPENT = frozenset({"AuthorizationAlreadyUsed", "AuthorizationUsedOrCanceled", "AuthorizationAlreadyBooked"})


@dataclass(frozen=True, slots=True)
class Order:
    """A trade as it will be settled. `hash` is its public id."""

    request: TradeRequest
    market: Market
    outcome: int
    got: Quote
    intent: Intent
    hash: bytes

    @property
    def wallet(self) -> str:
        return self.intent.wallet

    @property
    def resource_hash(self) -> str:
        return "0x" + self.hash.hex()


class TradeDesk:
    """`contracts` is None before deployment, `client` without an RPC URL."""

    def __init__(
        self,
        settings: Settings,
        contracts: AgentContracts | None,
        client: ChainClient | None,
        engine: AsyncEngine,
        pool: Pool,
        watch: IntentWatch,
        limits: RateLimits,
        index: AgentIndex,
        switch: TradingSwitch,
        attester: Attester,
        links: Links,
        *,
        clock: Callable[[], float] = time.time,
        wait_seconds: float = RESULT_WAIT_SECONDS,
    ) -> None:
        self._settings = settings
        self._contracts = contracts
        self._client = client
        self._engine = engine
        self._pool = pool
        self._watch = watch
        self._limits = limits
        self._index = index
        self._switch = switch
        self._attester = attester
        self._links = links
        self._clock = clock
        self._wait_seconds = wait_seconds

    async def trade(self, request: web.Request) -> web.StreamResponse:
        try:
            response = await self._trade(request)
        except Problem as refusal:
            ANSWERS.labels(refusal.code).inc()
            raise
        ANSWERS.labels("payment_required" if response.status == 402 else "ok").inc()
        return response

    # ------------------------------------------------------------ the checks, in order

    async def _trade(self, request: web.Request) -> web.StreamResponse:
        wanted = await TradeRequest.read(request)
        venue = self._index.required()
        contracts = self._contracts
        if contracts is None:
            raise problem("platform_paused", "The settlement wallet is not deployed yet.")
        header = request.headers.get("X-PAYMENT")
        paying = header is not None and not wanted.simulate
        if not paying:
            await self._count(request, wanted)
        market = venue.market(wanted.market_id)
        if market is None:
            raise problem("market_not_found", f"There is no market {wanted.market_id!r}.")

        key_hash = idem_hash(wanted.idem_key)
        known = await self._before(wanted, market, key_hash)
        if isinstance(known, web.Response):
            return known
        if known is not None and not known.is_over:
            return await self._outcome(wanted, known.intent, None, replay=True, seconds=SAME_KEY_WAIT_SECONDS)
        self._check_on(venue)
        self._check_open(market, venue)
        order = await self._order(wanted, market, key_hash, contracts)
        if wanted.simulate:
            return reply(self._links, {"replay": False, "receipt": self._simulated(order)})
        return await self._real(request, order, venue, header, known, contracts)

    async def _before(
        self, wanted: TradeRequest, market: Market, key_hash: bytes
    ) -> web.Response | store.KnownTrade | None:
        """What the idempotency key did before: the answer when it settled, the payment taken in, or nothing."""
        try:
            async with asyncio.timeout(3), self._engine.connect() as connection:
                stake = await read_by_key(connection, wanted.wallet, key_hash)
            if stake is not None:
                self._same_as_settled(wanted, market, stake)
                return self._settled(stake, replay=True, kit=None)
            async with asyncio.timeout(3), self._pool.connection() as write:
                known = await store.find_trade(write, bytes.fromhex(wanted.wallet[2:]), key_hash)
        except UNREACHABLE as error:
            log.warning("a key could not be looked up", action="agent.no_database", why=error)
            raise problem("internal_error", "The trade records cannot be read now.") from None
        if known is not None and not known.is_over:
            same = (market.key, market.outcome(wanted.side), wanted.size, wanted.builder or ZERO_ADDRESS)
            if same != (known.market_key, known.outcome, known.amount, known.builder):
                raise _conflict(wanted)
        return known

    def _same_as_settled(self, wanted: TradeRequest, market: Market, stake: Stake) -> None:
        same = (market.key, wanted.size)
        if same != (stake.market_key, stake.amount):
            raise _conflict(wanted)
        if stake.outcome is not None and (market.outcome(wanted.side), wanted.builder) != (
            stake.outcome,
            stake.builder,
        ):
            raise _conflict(wanted)

    def _check_on(self, venue: Venue) -> None:
        reason = self._switch.why_off(venue)
        if reason is not None:
            raise problem("platform_paused", reason, retry_after=5)

    def _check_open(self, market: Market, venue: Venue) -> None:
        now = self._now(venue.now)
        if market.ending is not None or now >= market.closes_at:
            raise problem("market_closed", f"Market {market.id} is {market.status(now)}; it takes no bets.")
        if now < market.opens_at:
            raise problem("market_closed", f"Market {market.id} is not open yet.")
        if not market.supported:
            raise problem("unsupported_market", f"Market {market.id} is not one this service can settle on Base.")

    async def _order(self, wanted: TradeRequest, market: Market, key_hash: bytes, contracts: AgentContracts) -> Order:
        outcome = market.outcome(wanted.side)
        if outcome is None:
            keys = ", ".join(each.key for each in market.outcomes)
            raise problem("invalid_side", f"Market {market.id} has no side {wanted.side!r}; it has {keys}.")
        if wanted.size > SIMPLE_MAX:
            await self._check_lock(wanted, market, outcome, key_hash)
        got = market.book.quote(outcome, wanted.size)
        least = wanted.least_shares(got.net)
        if got.shares < least:
            raise problem(
                "slippage_exceeded",
                f"The book gives {decimal_text(got.shares)} shares now; your limits ask for {decimal_text(least)}.",
            )
        if got.price_after - got.price_before > MOST_POINTS:
            raise problem("pool_impact_exceeded", "This bet alone would move the price by more than 40 points.")
        intent = Intent(
            market_id=market.key,
            outcome=outcome,
            amount=wanted.size,
            min_shares=least,
            wallet=wanted.wallet,
            idem_hash=key_hash,
            builder=wanted.builder or ZERO_ADDRESS,
            ref=(wanted.ref or "").encode().ljust(32, b"\0"),
        )
        hashed = intent_hash(intent, contracts.chain_id, contracts.settlement.address)
        return Order(wanted, market, outcome, got, intent, hashed)

    async def _check_lock(self, wanted: TradeRequest, market: Market, outcome: int, key_hash: bytes) -> None:
        if wanted.quote_id is None or (wanted.min_shares is None and wanted.max_price_cents is None):
            raise problem(
                "quote_required",
                "A bet above 10 USD needs quoteId, and minSharesOut or maxPriceCents with it.",
            )
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                lock = await store.find_lock(connection, wanted.quote_id)
        except UNREACHABLE as error:
            log.warning("a lock could not be read", action="agent.no_database", why=error)
            raise problem("internal_error", "The price locks cannot be read now.") from None
        if lock is None:
            raise problem("quote_mismatch", "There is no such quote.")
        if (lock.market_key, lock.outcome, lock.amount) != (market.key, outcome, wanted.size):
            raise problem("quote_mismatch", "The quote is for another market, side or size.")
        mine = (bytes.fromhex(wanted.wallet[2:]), key_hash)
        if lock.wallet is not None and (lock.wallet, lock.idem_hash) != mine:
            raise problem("quote_mismatch", "The quote has served another trade.")
        if lock.expired:
            raise problem("quote_expired", "The quote is older than 60 seconds.")

    # ------------------------------------------------------------ payment

    async def _real(
        self,
        request: web.Request,
        order: Order,
        venue: Venue,
        header: str | None,
        before: store.KnownTrade | None,
        contracts: AgentContracts,
    ) -> web.StreamResponse:
        attempt = 0 if before is None else before.attempt
        client = self._client
        if client is None:
            raise _unavailable("Base cannot be reached")
        payment, rejected = None, None
        if header is not None:
            try:
                payment = x402.decode(header)
                x402.check(
                    payment,
                    wallet=order.wallet,
                    pay_to=contracts.settlement.address,
                    amount=order.intent.amount,
                    now=self._now(venue.now),
                )
            except PaymentRejected as why:
                payment, rejected = None, str(why)
        earlier = None if before is None else before.nonce
        nonce = earlier if payment is None else payment.nonce
        try:
            facts = await read_facts(
                client,
                contracts,
                order.wallet,
                order.intent.idem_hash,
                nonce,
                self._settings.rpc_request_path_timeout_seconds,
            )
            if payment is not None and not await self._is_signed(payment, order, facts, client, contracts):
                payment, rejected = None, "The signature is not walletAddress's over this authorization."
        except RpcError as error:
            log.warning("a trade has no chain", action="agent.no_chain", why=error)
            raise _unavailable("Base cannot be reached") from None
        if facts.settled_stake:  # settled, and the index has not shown it yet
            return await self._settled_soon(order.request, facts.block, None)
        if payment is None:
            if header is not None:
                await self._count(request, order.request)
            if nonce is not None and nonce == earlier and facts.used and not facts.booked:
                raise problem(
                    "payment_invalid",
                    "The payment sent before under this idemKey was used outside this API, or cancelled.",
                    hint="Send the same X-PAYMENT as before and what it paid is credited; after a cancellation use a "
                    "fresh idemKey.",
                )
            self._check_balance(order, facts)
            await self._check_twin(order)
            await self._check_lanes(contracts, None)  # nobody is asked to sign what cannot be settled
            return self._challenge(order, rejected, contracts)
        await self._count_paid(request, order.request)
        await self._check_lanes(contracts, self._escape_kit(order, payment, contracts))
        if facts.booked:
            raise problem("payment_invalid", "This authorization has already paid for another trade.")
        if facts.used:
            return await self._credit(order, payment, facts, attempt, contracts)
        self._check_balance(order, facts)
        return await self._send("settle", order, payment, attempt, contracts)

    async def _check_lanes(self, contracts: AgentContracts, kit: dict[str, Any] | None) -> None:
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                lanes = await report(connection, contracts.chain_id, RELAY)
        except UNREACHABLE as error:
            log.warning("the lanes cannot be read", action="agent.no_database", why=error)
            raise problem("internal_error", "The trade records cannot be read now.") from None
        if not lanes.works:
            raise _unavailable("the relayer is down or out of gas", kit)

    async def _is_signed(
        self, payment: Payment, order: Order, facts: PaymentFacts, client: ChainClient, contracts: AgentContracts
    ) -> bool:
        digest = x402.digest(payment, contracts.token_facts, contracts.chain_id)
        if x402.signer_of(digest, payment.signature) == order.wallet and not facts.wallet_has_code:
            return True
        if not facts.wallet_has_code:
            return False
        seconds = self._settings.rpc_request_path_timeout_seconds
        return await accepts_signature(client, order.wallet, digest, payment.signature, seconds)

    def _check_balance(self, order: Order, facts: PaymentFacts) -> None:
        if facts.balance < order.intent.amount:
            raise problem(
                "insufficient_balance",
                f"The wallet holds {decimal_text(facts.balance)} USDC, and the bet is "
                f"{decimal_text(order.intent.amount)}.",
            )

    async def _check_twin(self, order: Order) -> None:
        """Asked before anything is signed, and again when the payment is taken in."""
        try:
            async with asyncio.timeout(3), self._pool.connection() as connection:
                twin = await store.find_twin(connection, order.intent)
        except UNREACHABLE as error:
            log.warning("twins cannot be looked up", action="agent.no_database", why=error)
            raise problem("internal_error", "The trade records cannot be read now.") from None
        if twin is not None:
            raise _twin(twin)

    def _challenge(self, order: Order, error: str | None, contracts: AgentContracts) -> web.Response:
        log.info("asked for payment", action="agent.challenge", code="payment_required", trade=order.resource_hash)
        resource = f"{self._links.api}/trade#{order.resource_hash}"
        pay_to, token = contracts.settlement.address, contracts.token_facts
        side = order.market.outcomes[order.outcome].key
        body = x402.challenge(
            resource=resource,
            amount=order.intent.amount,
            pay_to=pay_to,
            token=token,
            description=f"Bet {decimal_text(order.intent.amount)} USDC on {side}: {order.market.texts['question']}",
            intent_nonce=order.hash,
            error=error,
            extensions=self._attester.offer(
                resource=resource,
                asset=token.address,
                pay_to=pay_to,
                amount=order.intent.amount,
                timeout_seconds=x402.TIMEOUT_SECONDS,
                issued_at=int(self._clock()),
            ),
        )
        return reply(self._links, body, status=402, meta=False)

    # ------------------------------------------------------------ sending

    async def _credit(
        self, order: Order, payment: Payment, facts: PaymentFacts, attempt: int, contracts: AgentContracts
    ) -> web.StreamResponse:
        """Somebody sent the authorization straight to the token: book the money it brought; a cancelled one brought
        none."""
        await self._index.reached(facts.block, INDEX_WAIT_SECONDS)
        query = select(token_authorization.c.tx).where(
            token_authorization.c.chain_id == contracts.chain_id,
            token_authorization.c.nonce == payment.nonce,
            token_authorization.c.authorizer == bytes.fromhex(payment.payer[2:]),
            token_authorization.c.recipient == bytes.fromhex(contracts.settlement.address[2:]),
            token_authorization.c.value == payment.value,
        )
        try:
            async with asyncio.timeout(3), self._engine.connect() as connection:
                landed = (await connection.execute(query)).first()
        except UNREACHABLE as error:
            log.warning("a payment could not be looked up", action="agent.no_database", why=error)
            raise problem("internal_error", "The payment records cannot be read now.") from None
        if landed is None:
            raise problem("payment_invalid", "This authorization was already used or cancelled.")
        log.info("crediting a payment sent past us", action="agent.credit", trade=order.resource_hash)
        return await self._send("credit", order, payment, attempt, contracts)

    async def _send(
        self, how: str, order: Order, payment: Payment, attempt: int, contracts: AgentContracts
    ) -> web.StreamResponse:
        call = contracts.call(how, order.intent, payment)
        kit = self._escape_kit(order, payment, contracts)
        wanted = IntentRequest(
            key=f"agent:{contracts.chain_id}:{order.wallet}:{order.intent.idem_hash.hex()}:{attempt + 1}",
            chain_id=contracts.chain_id,
            group=RELAY,
            kind=how,
            to=call.to,
            data=call.data,
            replay_safe=True,
            not_after=payment.valid_before if how == "settle" else None,
        )
        try:
            async with asyncio.timeout(5), self._pool.connection() as connection, connection.transaction():
                asked = await store.take_in(
                    connection,
                    order.intent,
                    order.hash,
                    wanted,
                    after_attempt=attempt,
                    nonce=payment.nonce,
                    valid_before=payment.valid_before,
                    quote_id=order.request.quote_id if order.intent.amount > SIMPLE_MAX else None,
                    callback_url=order.request.callback_url,
                )
        except store.TwinInFlight as twin:
            raise _twin(twin.args[0]) from None
        except store.LockTaken:
            raise problem("quote_mismatch", "The quote has served another trade.") from None
        except UNREACHABLE as error:
            log.warning("a trade could not be queued", action="agent.no_database", why=error)
            raise problem("internal_error", "The trade could not be recorded; send it again.", escapeKit=kit) from None
        if asked is not None and how == "settle":
            spent = await self._spent_meanwhile(asked.intent, order, payment)
            if spent is not None:  # somebody was faster with the same authorization: what it brought is the payer's
                return await self._credit(order, payment, spent, attempt + 1, contracts)
        if asked is not None:
            left = 0.0 if how == "settle" else self._wait_seconds
            return await self._outcome(order.request, asked.intent, kit, replay=False, seconds=left)
        known = await self._before(order.request, order.market, order.intent.idem_hash)
        if isinstance(known, web.Response):
            return known
        if known is None or known.is_over:
            raise _settling(None, kit)
        return await self._outcome(order.request, known.intent, kit, replay=True, seconds=SAME_KEY_WAIT_SECONDS)

    async def _spent_meanwhile(self, intent: OutboxIntent, order: Order, payment: Payment) -> PaymentFacts | None:
        """The facts, when the transaction was refused because the authorization had been used straight on the token."""
        with contextlib.suppress(*UNREACHABLE):
            intent = await self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=self._wait_seconds)
        over = intent.refused or intent.outcome is Outcome.REVERTED
        if not over or self._client is None or self._contracts is None:
            return None
        try:
            facts = await read_facts(
                self._client,
                self._contracts,
                order.wallet,
                order.intent.idem_hash,
                payment.nonce,
                self._settings.rpc_request_path_timeout_seconds,
            )
        except RpcError as error:
            log.warning("a refusal has no chain", action="agent.no_chain", why=error)
            return None
        return facts if facts.used and not facts.booked and not facts.settled_stake else None

    async def _outcome(
        self,
        wanted: TradeRequest,
        intent: OutboxIntent,
        kit: dict[str, Any] | None,
        *,
        replay: bool,
        seconds: float,
    ) -> web.StreamResponse:
        """Waits for the chain's answer as long as there is time, and says what is known then."""
        with contextlib.suppress(*UNREACHABLE):  # what was known before stands
            intent = await self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds)
        if intent.succeeded:
            return await self._settled_soon(
                wanted, intent.block_number or 0, intent.tx_hash_hex, replay=replay, kit=kit
            )
        if intent.refused or intent.outcome in (Outcome.REVERTED, Outcome.CANCELLED) or intent.state.ended:
            raise _refused(intent)
        if intent.tx_hash_hex is not None:
            raise _unknown(intent.tx_hash_hex, kit)
        raise _settling(intent, kit)

    async def _settled_soon(
        self,
        wanted: TradeRequest,
        block: int,
        tx_hash: str | None,
        *,
        replay: bool = True,
        kit: dict[str, Any] | None = None,
    ) -> web.StreamResponse:
        """The receipt, once the index holds the block."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        try:
            async with asyncio.timeout(3), self._engine.connect() as connection:
                stake = await read_by_key(connection, wanted.wallet, idem_hash(wanted.idem_key))
        except UNREACHABLE as error:
            log.warning("a settled trade cannot be read", action="agent.no_database", why=error)
            stake = None
        if stake is None:
            raise _unknown(tx_hash, kit) if tx_hash is not None else _settling(None, kit)
        market = self._index.required().markets.get(stake.market_key)
        if market is not None:
            named = self._index.required().market(wanted.market_id)
            if named is not None:
                self._same_as_settled(wanted, named, stake)
        return self._settled(stake, replay=replay, kit=kit)

    def _settled(self, stake: Stake, *, replay: bool, kit: dict[str, Any] | None) -> web.Response:
        market = self._index.required().markets[stake.market_key]
        tx_hash = "0x" + stake.tx.hex()
        if stake.outcome is None:
            raise problem(
                "payment_invalid",
                "The payment reached the contract when it could no longer be staked; it is given back whole.",
                hint="Nothing to do: the refund is sent to your wallet.",
                txHash=tx_hash,
            )
        body: dict[str, Any] = {"replay": replay, "receipt": render.receipt(market, stake, self._links)}
        extensions = self._attester.receipt(
            resource=f"{self._links.api}/trade#0x{stake.intent_hash.hex()}",
            payer=stake.wallet,
            issued_at=stake.at,
            transaction=tx_hash,
        )
        if extensions:
            body["extensions"] = extensions
        body["escapeKit"] = kit
        headers = {"X-Payment-Response": x402.settled_header(tx_hash, stake.wallet)}
        return reply(self._links, body, headers=headers)

    def _simulated(self, order: Order) -> dict[str, Any]:
        return {
            "tradeId": order.resource_hash,
            "marketId": order.market.id,
            "side": order.market.outcomes[order.outcome].key,
            "sizeUsd": render.usd(order.intent.amount),
            "simulated": True,
            "txHash": None,
            "explorerUrl": None,
            "intentHash": order.resource_hash,
            "builderCode": order.request.builder,
            "position": {
                "shares": render.usd(order.got.shares),
                "avgPriceCents": render.average_cents(order.got.net, order.got.shares),
            },
            "proofUrl": None,
            "recordedAt": now_iso(),
        }

    def _escape_kit(self, order: Order, payment: Payment, contracts: AgentContracts) -> dict[str, Any] | None:
        """The call anybody may send instead of us; only an authorization bound to this intent has one."""
        if payment.nonce != order.hash:
            return None
        call = contracts.call("settle", order.intent, payment)
        return {
            "to": call.to,
            "data": "0x" + call.data.hex(),
            "chainId": contracts.chain_id,
            "expiresAt": payment.valid_before,
        }

    # ------------------------------------------------------------ rates and time

    async def _count(self, request: web.Request, wanted: TradeRequest) -> None:
        """Counts a call nobody has signed, by wallet and caller: a stranger cannot use up somebody else's minute."""
        who = f"{wanted.wallet}|{caller_ip(request, self._settings)}"
        await self._limits.take(TRADE_RATE, "agent-trade", who, _TOO_MANY)
        await self._fits(ONCE_A_PAIR, "agent-challenge", f"{wanted.wallet}|{wanted.idem_key}")

    async def _count_paid(self, request: web.Request, wanted: TradeRequest) -> None:
        """Counts a signed call by wallet; the first one after a challenge of the same key is counted with it."""
        pair = f"{wanted.wallet}|{wanted.idem_key}"
        challenged = not await self._fits(ONCE_A_PAIR, "agent-challenge", pair)
        if not challenged or not await self._fits(ONCE_A_PAIR, "agent-paid", pair):
            who = f"{wanted.wallet}|{caller_ip(request, self._settings)}"
            await self._limits.take(TRADE_RATE, "agent-trade", who, _TOO_MANY)
        await self._limits.take(TRADE_RATE, "agent-trade-paid", wanted.wallet, _TOO_MANY)

    async def _fits(self, item: RateLimitItem, rule: str, who: str) -> bool:
        try:
            await self._limits.take(item, rule, who, "")
        except Problem:
            return False
        return True

    def _now(self, head_timestamp: int) -> int:
        """The chain's clock; between its blocks it runs on with ours, unless the two have nothing to do with each
        other (a warped or stalled chain)."""
        wall = int(self._clock())
        return wall if 0 <= wall - head_timestamp <= CLOCK_SLACK_SECONDS else head_timestamp


_TOO_MANY = "A wallet may trade 10 times a minute."


def _unavailable(why: str, kit: dict[str, Any] | None = None) -> Problem:
    return problem("platform_paused", f"Settlement is unavailable: {why}.", retry_after=5, escapeKit=kit)


def _conflict(wanted: TradeRequest) -> Problem:
    return problem("idem_conflict", f"The idemKey {wanted.idem_key!r} was used for a different trade.")


def _twin(intent_hash_of_first: bytes) -> Problem:
    first = "0x" + intent_hash_of_first.hex()
    return problem(
        "rate_limited",
        "The same bet by this wallet is still settling under another idemKey.",
        hint=f"Wait for trade {first} to settle, or send this again after a minute to bet once more.",
        retry_after=5,
        tradeId=first,
    )


def _settling(intent: OutboxIntent | None, kit: dict[str, Any] | None) -> Problem:
    return problem(
        "rate_limited",
        "This idemKey is settling.",
        hint="Send the same request again shortly to fetch the receipt.",
        retry_after=1,
        escapeKit=kit,
    )


def _unknown(tx_hash: str, kit: dict[str, Any] | None) -> Problem:
    return problem(
        "internal_error",
        "The transaction was submitted, and its outcome is not recorded yet.",
        hint="Send the same request with the same idemKey to fetch the receipt; do not pay again.",
        txHash=tx_hash,
        escapeKit=kit,
    )


def _refused(intent: OutboxIntent) -> Problem:
    """What the contract's refusal means; no money moved."""
    why = intent.reason_code or ""
    extra: dict[str, Any] = {} if intent.tx_hash_hex is None else {"txHash": intent.tx_hash_hex}
    if why == "TooFewShares":
        return problem("slippage_exceeded", "The book moved past your limits before the bet could settle.", **extra)
    if why in _CLOSED:
        return problem("market_closed", "The market closed before the bet could settle.", **extra)
    if why in _PAUSED:
        return problem("platform_paused", "Stakes are paused.", retry_after=5, **extra)
    if why in _SPENT:
        return problem(
            "payment_invalid",
            "This authorization was already used or cancelled.",
            hint="If it paid us, send the same request again and it is credited; else sign a new one.",
            **extra,
        )
    if why == "ERC20InsufficientBalance":
        return problem("insufficient_balance", "The wallet's USDC no longer covers the bet.", **extra)
    sentence = (intent.reason or "The chain refused the payment.").rstrip(".")
    return problem("payment_invalid", f"{sentence}.", **extra)
