"""POST /trade: check a bet in a fixed order, ask for payment, settle it once, and report the outcome.

Resubmitting a trade never settles it twice, whoever sends it: the contract takes a wallet's idempotency key and an
authorization once. While a payment may still be taken no answer asks for another.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from aiohttp import web

from api.agent.chain import AgentContracts, Balances, PaymentFacts, read_facts
from api.agent.errors import RETRIABLE, problem
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.index import AgentIndex
from api.agent.links import Links
from api.agent.requests import TradeRequest
from api.agent.storage import free_connection, storage
from api.agent.switch import NOT_DEPLOYED, Trading
from api.agent.trade import payment as paying
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import store
from api.agent.trade.answers import TradeAnswers
from api.agent.trade.attest import Attester
from api.agent.trade.orders import SIMPLE_MAX, Order, OrderEntry
from api.agent.trade.outcomes import RESULT_WAIT_SECONDS, PreviousTrade, TradeOutcomes, intent_key
from api.agent.trade.payment import PRIMARY_TYPES, form_of, is_bound_to, payment_call
from api.agent.trade.rates import TradeRates
from api.context import Context
from api.database import DATABASE_ERRORS
from api.head import chain_now
from api.operations import Handler
from api.payments.attempts import Attempts, build_intent
from api.payments.authorization import Authorization, accepts_signature
from api.payments.funds import Funds, FundsReserved
from api.problems import Problem
from core.agent.bet import idem_hash
from core.chain import ChainClient, RpcError, checksum
from core.contracts.statuses import Form
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from core.metrics import counter
from core.money import decimal_text
from core.outbox import RELAY, Intent, MinedOutcome, report
from core.signatures import signer_of

log = get_logger(__name__)

ANSWERS = counter("vpm_agent_trade_answers", "Answers of POST /trade, by result or error code", ("answer",))

TAKE_IN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TradeContext:
    """A call for a trade on a known market, on its way through the steps.

    `rejected`: why the payment that was sent is not usable. `past`: the key's earlier payments; none has settled.
    `release`: releases the slot among the payments being checked.
    """

    trade: TradeRequest
    market: ListedMarket
    key_hash: bytes
    payment: Authorization | None
    rejected: str | None
    past: PreviousTrade
    snapshot: MarketsSnapshot
    release: Callable[[], None]


async def refuse_undeployed(context: Context, request: web.Request) -> NoReturn:
    """Refuse every trade until the settlement wallet is deployed."""
    await TradeRequest.read(request, allow_private=context.settings.allow_private_webhooks)
    raise problem("platform_paused", NOT_DEPLOYED)


class TradeHandler:
    """The handler of `POST /trade`. `client` is None without an RPC URL."""

    def __init__(
        self,
        context: Context,
        contracts: AgentContracts,
        client: ChainClient | None,
        balances: Balances,
        index: AgentIndex,
        switch: Trading,
        attester: Attester,
        links: Links,
    ) -> None:
        self._contracts = contracts
        self._client = client
        self._balances = balances
        self._pool = context.pool
        self._attempts = Attempts(context, "base", "Send the same request again for the outcome.")
        self._rates = TradeRates(context.limits, context.settings)
        self._index = index
        self._orders = OrderEntry(context.pool, contracts, switch)
        self._answers = TradeAnswers(contracts, attester, links)
        self._outcomes = TradeOutcomes(context, contracts, index, self._answers, self._attempts)
        # The longest a call to the node may take within a request.
        self._request_seconds = context.settings.rpc_request_path_timeout_seconds
        self._allow_private_callbacks = context.settings.allow_private_webhooks

    async def trade(self, request: web.Request) -> web.StreamResponse:
        trade = await TradeRequest.read(request, allow_private=self._allow_private_callbacks)
        snapshot = self._index.required()
        with self._attempts.checking_slot(request, trade_refusals.too_many_checked) as release:
            return await self._answer(request, trade, snapshot, release)

    async def _answer(
        self, request: web.Request, trade: TradeRequest, snapshot: MarketsSnapshot, release: Callable[[], None]
    ) -> web.StreamResponse:
        """Answer a call that holds a slot among the payments being checked. `release` releases it, since an
        accepted payment waits for its block without a slot."""
        payment, rejected = self._answers.read_payment(request, trade)
        paid = payment is not None
        counts = await self._rates.count_call(request, trade, paid=paid)
        key_hash = idem_hash(trade.idem_key)
        past = await self._outcomes.previous(trade, key_hash)
        if counts and not past.in_flight:  # even if the bet is invalid
            await self._rates.count_trade(request, trade, paid=paid, settled=past.landed is not None)
        market = await self._index.market(trade.market_id)
        if market is None:
            if not trade.simulate and past.is_for(trade.market_id):
                await self._refuse_undone(trade, key_hash, past)
            raise await self._no_market(trade, payment)
        if past.landed is not None:
            return await self._outcomes.receipt(trade, past.landed, replay=True, named=market)
        past.check_same(trade, market)
        try:
            return await self._answer_unsettled(
                TradeContext(trade, market, key_hash, payment, rejected, past, snapshot, release)
            )
        except Problem as refusal:
            if trade.simulate or (refusal.code in RETRIABLE and past.trade is None and payment is None):
                raise
            return await self._outcomes.receipt_or_refusal(refusal, trade, market, key_hash)

    async def _refuse_undone(self, trade: TradeRequest, key_hash: bytes, past: PreviousTrade) -> NoReturn:
        """Refuse an accepted trade whose market a reorganization removed from the chain. The refusal is final only once
        the blocks behind it are: until then another reorganization may restore both."""
        if past.in_flight or past.trade is None or await self._outcomes.may_settle(trade, key_hash):
            raise trade_refusals.listing_undone(past.tx_hash)
        facts = await self._facts(trade.wallet, key_hash, past.nonces)
        if facts.settled_stake:
            raise trade_refusals.listing_undone(past.tx_hash)
        await self._outcomes.account_for(trade.wallet, trade.size, past.nonces, facts)
        raise trade_refusals.no_market(trade.market_id, paid=False)

    async def _no_market(self, trade: TradeRequest, payment: Authorization | None) -> Problem:
        """Refuse an unknown market. Say that the payment was not sent only if it was never sent for any bet, under any
        key."""
        if payment is None:
            return trade_refusals.no_market(trade.market_id, paid=False)
        first = await self._bet_of_authorization(trade.wallet, payment)
        return (
            trade_refusals.no_market(trade.market_id, paid=True)
            if first is None
            else trade_refusals.authorization_taken()
        )

    async def _bet_of_authorization(self, wallet: str, payment: Authorization) -> bytes | None:
        async with storage("The trade records"), free_connection(self._pool) as connection:
            return await store.bet_of_authorization(connection, bytes_of(wallet), payment.nonce)

    async def _answer_unsettled(self, context: TradeContext) -> web.StreamResponse:
        """Answer for a bet that has not settled."""
        trade, past = context.trade, context.past
        if past.trade is not None and past.in_flight:
            context.release()
            return await self._outcomes.repeated(trade, past.trade.intent)
        order = self._orders.order(trade, context.market, context.key_hash)
        refusal: Problem | None = None
        try:
            order = await self._orders.check(trade, context.market, order, context.snapshot)
        except Problem as why:
            # Account for all payments before refusing a bet for good: its payer must not be asked to pay again.
            if order is None or trade.simulate or why.code in RETRIABLE or not (context.payment or past.nonces):
                raise
            refusal = why
        if trade.simulate:
            return self._answers.simulated(
                order, now=chain_now(context.snapshot.now), balance=await self._balances.get(order.wallet)
            )
        return await self._answer_paid(context, order, refusal)

    # ------------------------------------------------------------ payment

    async def _answer_paid(self, context: TradeContext, order: Order, refusal: Problem | None) -> web.StreamResponse:
        """Take the payment, or ask for one. `refusal`: why the bet cannot be taken."""
        payment, past, snapshot = context.payment, context.past, context.snapshot
        offered = () if payment is None else (payment.nonce,)
        nonces = tuple(dict.fromkeys((*offered, *past.nonces)))
        fault = None if payment is None else paying.mismatch(payment, order.bet.amount, order.hash)
        facts = await self._facts(order.wallet, order.bet.idem_hash, nonces, snapshot.head.hash)
        forged = None if payment is None else await self._signature_fault(payment, order, facts)
        if facts.settled_stake:  # settled, and not indexed yet
            return await self._outcomes.wait_for_receipt(order.request, facts.block)
        # Before any other refusal: a caller who has paid gets the outcome and is not asked to pay again.
        if payment is not None and payment.nonce in facts.used:
            return await self._handle_used_authorization(order, payment, facts, fault=fault or forged)
        await self._outcomes.account_for(order.wallet, order.bet.amount, past.nonces, facts)
        now = chain_now(snapshot.now)
        if refusal is not None:
            is_early = facts.timestamp < order.market.closes_at <= now
            raise trade_refusals.closing() if is_early and refusal.code == "market_closed" else refusal
        if payment is not None:
            closes_at = order.market.closes_at
            outside = paying.window_fault(payment, head_time=facts.timestamp, now=now, closes_at=closes_at)
            fault = fault or outside or forged
        if payment is None or fault is not None:
            await self._check_duplicate(order)
            await self._check_lanes(None)  # never ask for a signature that cannot be settled
            log.info("asked for payment", action="agent.challenge", code="payment_required", trade=order.resource_hash)
            return self._answers.challenge(order, fault or context.rejected, now)
        # Anyone could have copied such a payment from the chain, so it does not count towards the wallet's rate.
        if await self._bet_of_authorization(order.wallet, payment) not in (None, order.hash):
            raise trade_refusals.authorization_taken()
        kit = self._escape_kit(order, payment)
        await self._check_lanes(kit)
        _check_balance(order, facts)
        await self._rates.count_payment(order.request)
        return await self._settle(context, order, payment, kit, Funds(facts.balance, facts.block))

    async def _facts(
        self, wallet: str, key_hash: bytes, nonces: Sequence[bytes], guess: str | None = None
    ) -> PaymentFacts:
        """Read the chain's state of a payment; refuse for now if no node answers."""
        async with self._client_or_refusal() as client:
            return await read_facts(client, self._contracts, wallet, key_hash, nonces, self._request_seconds, guess)

    @contextlib.asynccontextmanager
    async def _client_or_refusal(self) -> AsyncIterator[ChainClient]:
        try:
            if self._client is None:
                raise trade_refusals.unavailable("Base cannot be reached")
            yield self._client
        except RpcError as error:
            log.warning("RPC unavailable for a trade", action="agent.no_chain", why=error)
            raise trade_refusals.unavailable("Base cannot be reached") from None

    async def _signature_fault(self, payment: Authorization, order: Order, facts: PaymentFacts) -> str | None:
        """Return why the signature of a payment is not valid in the form that its nonce implies, or None."""

        async def is_signed(form: Form) -> bool:
            digest = payment.digest(PRIMARY_TYPES[form], self._contracts.token_facts, self._contracts.chain_id)
            if not facts.wallet_has_code:
                return signer_of(digest, payment.signature) == checksum(order.wallet)
            async with self._client_or_refusal() as client:
                return await accepts_signature(client, order.wallet, digest, payment.signature, self._request_seconds)

        form = form_of(payment)
        if await is_signed(form):
            return None
        if await is_signed(Form.RECEIVE if form is Form.TRANSFER else Form.TRANSFER):
            return paying.wrong_form(form)
        return "The signature is not walletAddress's over this authorization."

    async def _check_lanes(self, kit: dict[str, Any] | None) -> None:
        async with storage("The state of the relayer"), free_connection(self._pool) as connection:
            lanes = await report(connection, self._contracts.chain_id, RELAY)
        if not lanes.works:
            raise trade_refusals.unavailable("the relayer is down or out of gas", kit)

    async def _check_duplicate(self, order: Order) -> None:
        """Refuse a bet that duplicates one in flight; checked before anything is signed and when a payment is
        accepted."""
        async with storage("The trade records"), free_connection(self._pool) as connection:
            await store.check_duplicate(connection, order.bet)

    # ------------------------------------------------------------ from a payment to its stake

    async def _settle(
        self,
        context: TradeContext,
        order: Order,
        payment: Authorization,
        kit: dict[str, Any] | None,
        funds: Funds,
    ) -> web.StreamResponse:
        """Accept a payment and wait for its stake. `funds`: the wallet's balance."""
        enqueued = await self._take_in(order, payment, context.past.attempt, kit, funds)
        context.release()
        if enqueued is None:  # another call with this key was faster: wait for its attempt
            past = await self._outcomes.previous(order.request, order.bet.idem_hash)
            past.check_same(order.request, context.market)
            if past.trade is None or not past.in_flight:
                raise trade_refusals.settling(kit, in_flight=True)
            return await self._outcomes.repeated(order.request, past.trade.intent)
        intent = await self._attempts.result(enqueued, RESULT_WAIT_SECONDS)
        if intent.refused or intent.outcome is MinedOutcome.REVERTED:
            try:
                facts = await self._facts(order.wallet, order.bet.idem_hash, (payment.nonce,))
            except Problem:  # it may have been refused because it is settled
                raise trade_refusals.settling(kit) from None
            if facts.settled_stake:  # another sender was faster with this very bet
                return await self._outcomes.wait_for_receipt(order.request, facts.block)
            # Another sender used the same authorization first: the keeper books its payment for the payer.
            if facts.was_used_elsewhere(payment.nonce):
                return await self._handle_used_authorization(order, payment, facts, fault=None)
            refusal = trade_refusals.refused(intent, kit)
            # A block at least as new as the refusing one has no stake under the key: the bet was not refused because
            # another sender had already placed it. A node that is behind that block proves nothing.
            is_proven = intent.block_number is not None and facts.block >= intent.block_number
            if refusal.code not in RETRIABLE and is_proven:
                raise refusal
        return await self._outcomes.answered(order.request, intent, kit, replay=False)

    async def _handle_used_authorization(
        self, order: Order, payment: Authorization, facts: PaymentFacts, *, fault: str | None
    ) -> web.StreamResponse:
        """Answer for an authorization that was used although its key has settled nothing. `fault`: why it does not pay
        for this order; if it does, the keeper books its payment."""
        if fault is None and payment.nonce not in facts.booked:
            async with (
                storage("The payment records"),
                free_connection(self._pool) as connection,
                connection.transaction(),
            ):
                await store.record_authorization(
                    connection, self._signed_bet(order, payment), order.request.callback_url
                )
        stake = await self._outcomes.used(payment, order.bet.amount, facts, fault=fault)
        if stake.idem_hash != order.bet.idem_hash:
            raise trade_refusals.has_paid(stake)
        return await self._outcomes.wait_for_receipt(order.request, stake.block)

    async def _take_in(
        self, order: Order, payment: Authorization, attempt: int, kit: dict[str, Any] | None, funds: Funds
    ) -> Intent | None:
        """Record the payment and enqueue its transaction; None if another call made this attempt first. `attempt`: the
        number of this key's earlier attempts."""
        chain_id = self._contracts.chain_id
        key = intent_key(chain_id, order.wallet, order.bet.idem_hash, attempt + 1)
        call = payment_call(self._contracts, "settle", order.bet, payment)
        try:
            async with (
                asyncio.timeout(TAKE_IN_SECONDS),
                free_connection(self._pool) as connection,
                connection.pipeline(),  # its statements share round trips
                connection.transaction(),
            ):
                return await store.take_in(
                    connection,
                    self._signed_bet(order, payment),
                    build_intent(key, "settle", chain_id, call, payment),
                    after_attempt=attempt,
                    funds=funds,
                    quote_id=order.request.quote_id if order.bet.amount > SIMPLE_MAX else None,
                    callback_url=order.request.callback_url,
                )
        except store.AttemptTaken:
            return None
        except FundsReserved as reserved:
            raise trade_refusals.funds_reserved(reserved.args[0], kit) from None
        except DATABASE_ERRORS as error:
            log.warning("failed to enqueue a trade", action="agent.no_database", why=error)
            message = "The trade may or may not have been recorded; send it again with the same idemKey."
            raise problem("internal_error", message, escapeKit=kit) from None

    # ------------------------------------------------------------ calls of the settlement wallet

    def _signed_bet(self, order: Order, payment: Authorization) -> store.SignedBet:
        # Everything after the selector, which is the same for `settle` and `credit`.
        arguments = payment_call(self._contracts, "credit", order.bet, payment).data[4:]
        return store.SignedBet(order.bet, order.hash, payment.nonce, arguments)

    def _escape_kit(self, order: Order, payment: Authorization) -> dict[str, Any] | None:
        """Return the call that anyone may send instead of us, if the authorization is bound to this bet."""
        if not is_bound_to(payment, order.hash):
            return None
        call = payment_call(self._contracts, "settle", order.bet, payment)
        return {
            "to": call.to,
            "data": hex_of(call.data),
            "chainId": self._contracts.chain_id,
            "expiresAt": payment.valid_before,
        }


def counted(trade: Handler) -> Handler:
    """Return `trade`, with its answers counted by result."""

    async def count(request: web.Request) -> web.StreamResponse:
        try:
            response = await trade(request)
        except Problem as refusal:
            ANSWERS.labels(refusal.code).inc()
            raise
        ANSWERS.labels("payment_required" if response.status == 402 else "ok").inc()
        return response

    return count


def _check_balance(order: Order, facts: PaymentFacts) -> None:
    if facts.balance < order.bet.amount:
        raise problem(
            "insufficient_balance",
            f"The wallet holds {decimal_text(facts.balance)} USDC, and the bet is {decimal_text(order.bet.amount)}.",
        )
