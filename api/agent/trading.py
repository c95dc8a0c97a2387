"""POST /trade: checks a bet in a fixed order, asks for payment, has it settled once, and tells what became of it.

Whatever is sent again, by whomever and whenever, settles nothing twice: the contract takes a wallet's idempotency key
and an authorization once. After a broadcast no answer asks for another payment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from aiohttp import web

from api.agent import store, trade_refusals, x402
from api.agent.attest import Attester
from api.agent.chain import AgentContracts, PaymentFacts, accepts_signature, read_facts
from api.agent.facts import Venue
from api.agent.index import AgentIndex
from api.agent.models import TradeRequest
from api.agent.orders import Order, OrderDesk
from api.agent.problems import problem
from api.agent.receipts import Receipts
from api.agent.render import Links
from api.agent.reply import reply
from api.agent.settling import Settling
from api.agent.storage import storage
from api.agent.trade_rates import TradeRates
from api.agent.x402 import Payment, PaymentRejected
from api.http.problem import Problem
from core.chain import ChainClient, RpcError
from core.db.engine import Pool
from core.log import get_logger
from core.metrics import counter
from core.mirror.bet import idem_hash
from core.money import decimal_text
from core.outbox import RELAY, report

log = get_logger(__name__)

ANSWERS = counter("vpm_agent_trade_answers", "What POST /trade answered", ("answer",))


class TradeDesk:
    """`contracts` is None before deployment, `client` without an RPC URL. `request_seconds`: the longest a call to the
    node may take within a request."""

    def __init__(
        self,
        contracts: AgentContracts | None,
        client: ChainClient | None,
        pool: Pool,
        rates: TradeRates,
        index: AgentIndex,
        orders: OrderDesk,
        settling: Settling,
        receipts: Receipts,
        attester: Attester,
        links: Links,
        *,
        request_seconds: float,
        allow_private_callbacks: bool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._contracts = contracts
        self._client = client
        self._pool = pool
        self._rates = rates
        self._index = index
        self._orders = orders
        self._settling = settling
        self._receipts = receipts
        self._attester = attester
        self._links = links
        self._request_seconds = request_seconds
        self._allow_private_callbacks = allow_private_callbacks
        self._clock = clock

    async def trade(self, request: web.Request) -> web.StreamResponse:
        try:
            response = await self._trade(request)
        except Problem as refusal:
            ANSWERS.labels(refusal.code).inc()
            raise
        ANSWERS.labels("payment_required" if response.status == 402 else "ok").inc()
        return response

    async def _trade(self, request: web.Request) -> web.StreamResponse:
        wanted = await TradeRequest.read(request, allow_private=self._allow_private_callbacks)
        venue = self._index.required()
        contracts = self._contracts
        if contracts is None:
            raise problem("platform_paused", "The settlement wallet is not deployed yet.")
        payment, rejected = self._offered(request, wanted, venue, contracts)
        # Before anything is asked of the database or a node, and whatever is wrong with the bet.
        if payment is None:
            await self._rates.unpaid(request, wanted)
        else:
            await self._rates.offered(request, wanted)
        market = venue.market(wanted.market_id)
        if market is None:
            raise problem("market_not_found", f"There is no market {wanted.market_id!r}.")
        key_hash = idem_hash(wanted.idem_key)
        known = await self._settling.before(wanted, market, key_hash)
        if isinstance(known, web.Response):
            return known
        if known is not None and not known.is_over:
            return await self._settling.repeated(wanted, known.intent)
        order = await self._orders.order(wanted, market, venue, key_hash, contracts)
        if wanted.simulate:
            return self._receipts.simulated(order)
        if self._client is None:
            raise trade_refusals.unavailable("Base cannot be reached")
        return await self._real(order, payment, rejected, known, contracts, self._client)

    # ------------------------------------------------------------ payment

    def _offered(
        self, request: web.Request, wanted: TradeRequest, venue: Venue, contracts: AgentContracts
    ) -> tuple[Payment | None, str | None]:
        """The payment of the header, as far as it is right without asking anybody; or what is wrong with it."""
        header = request.headers.get("X-PAYMENT")
        if header is None or wanted.simulate:
            return None, None
        try:
            payment = x402.decode(header)
            x402.check(
                payment,
                wallet=wanted.wallet,
                pay_to=contracts.settlement.address,
                amount=wanted.size,
                now=self._orders.now(venue.now),
            )
        except PaymentRejected as why:
            return None, str(why)
        return payment, None

    async def _real(
        self,
        order: Order,
        payment: Payment | None,
        rejected: str | None,
        before: store.KnownTrade | None,
        contracts: AgentContracts,
        client: ChainClient,
    ) -> web.StreamResponse:
        """`rejected`: why there is no payment although one was sent. `before`: an attempt of this key of which nothing
        is on the chain."""
        if payment is not None:
            try:
                x402.check_bound(payment, order.hash)
            except PaymentRejected as why:
                payment, rejected = None, str(why)
        earlier = None if before is None else before.nonce
        nonce = earlier if payment is None else payment.nonce
        try:
            facts = await read_facts(
                client, contracts, order.wallet, order.intent.idem_hash, nonce, self._request_seconds
            )
            if payment is not None and not await self._is_signed(payment, order, facts, client, contracts):
                payment, rejected = None, "The signature is not walletAddress's over this authorization."
        except RpcError as error:
            log.warning("a trade has no chain", action="agent.no_chain", why=error)
            raise trade_refusals.unavailable("Base cannot be reached") from None
        if facts.settled_stake:  # settled, and the index has not shown it yet
            return await self._settling.settled_soon(order.request, facts.block)
        if payment is None:
            if nonce is not None and nonce == earlier and facts.used and not facts.booked:
                raise problem(
                    "payment_invalid",
                    "The payment sent before under this idemKey was used outside this API, or cancelled.",
                    hint="Send the same X-PAYMENT as before and what it paid is credited; after a cancellation use a "
                    "fresh idemKey.",
                )
            _check_balance(order, facts)
            await self._check_twin(order)
            await self._check_lanes(contracts, None)  # nobody is asked to sign what cannot be settled
            return self._challenge(order, rejected, contracts)
        # Anybody may have read such a payment off the chain: it is counted with its caller and not with the wallet.
        if facts.booked:
            raise problem("payment_invalid", "This authorization has already paid for another trade.")
        if await self._is_spoken_for(payment, order):
            raise trade_refusals.spoken_for()
        await self._rates.paid(order.request)
        kit = _escape_kit(order, payment, contracts)
        await self._check_lanes(contracts, kit)
        attempt = 0 if before is None else before.attempt
        if facts.used:
            return await self._settling.credit(contracts, order, payment, facts, attempt, kit)
        _check_balance(order, facts)
        return await self._settling.settle(client, contracts, order, payment, attempt, kit)

    async def _check_lanes(self, contracts: AgentContracts, kit: dict[str, Any] | None) -> None:
        async with storage("The state of the relayer"), self._pool.connection() as connection:
            lanes = await report(connection, contracts.chain_id, RELAY)
        if not lanes.works:
            raise trade_refusals.unavailable("the relayer is down or out of gas", kit)

    async def _check_twin(self, order: Order) -> None:
        """Asked before anything is signed, and again when the payment is taken in."""
        async with storage("The trade records"), self._pool.connection() as connection:
            twin = await store.find_twin(connection, order.intent)
        if twin is not None:
            raise trade_refusals.twin(twin)

    async def _is_spoken_for(self, payment: Payment, order: Order) -> bool:
        """Whether the authorization was brought for another trade; asked again when the payment is taken in."""
        async with storage("The payment records"), self._pool.connection() as connection:
            first = await store.brought_for(connection, bytes.fromhex(order.wallet[2:]), payment.nonce)
        return first not in (None, order.hash)

    async def _is_signed(
        self, payment: Payment, order: Order, facts: PaymentFacts, client: ChainClient, contracts: AgentContracts
    ) -> bool:
        digest = x402.digest(payment, contracts.token_facts, contracts.chain_id)
        if not facts.wallet_has_code:
            return x402.signer_of(digest, payment.signature) == order.wallet
        return await accepts_signature(client, order.wallet, digest, payment.signature, self._request_seconds)

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
                valid_until=int(self._clock()) + x402.TIMEOUT_SECONDS,
            ),
        )
        return reply(self._links, body, status=402, meta=False)


def _check_balance(order: Order, facts: PaymentFacts) -> None:
    if facts.balance < order.intent.amount:
        raise problem(
            "insufficient_balance",
            f"The wallet holds {decimal_text(facts.balance)} USDC, and the bet is {decimal_text(order.intent.amount)}.",
        )


def _escape_kit(order: Order, payment: Payment, contracts: AgentContracts) -> dict[str, Any] | None:
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
