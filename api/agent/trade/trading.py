"""POST /trade: checks a bet in a fixed order, asks for payment, has it settled once, and reports the outcome.

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
from api.agent.trade.outcomes import RESULT_WAIT_SECONDS, PastTrade, TradeOutcomes, intent_key
from api.agent.trade.payment import PRIMARY_TYPES, form_of, is_bound_to, payment_call
from api.agent.trade.rates import TradeRates
from api.context import Context
from api.database import DATABASE_ERRORS
from api.head import chain_now
from api.http.operation import Handler
from api.http.problem import Problem
from api.payments.attempts import Attempts, attempt_of
from api.payments.authorization import Authorization, accepts_signature
from api.payments.funds import Funds, MoneyPromised
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

ANSWERS = counter("vpm_agent_trade_answers", "What POST /trade answered", ("answer",))

TAKE_IN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TradeContext:
    """One call for a trade of a known market, as it goes down the steps.

    `rejected`: why there is no payment although one was sent. `past`: what was paid under this key, of which nothing is
    booked. `leave`: gives its place among the payments being checked back.
    """

    trade: TradeRequest
    market: ListedMarket
    key_hash: bytes
    payment: Authorization | None
    rejected: str | None
    past: PastTrade
    snapshot: MarketsSnapshot
    leave: Callable[[], None]


async def refuse_undeployed(context: Context, request: web.Request) -> NoReturn:
    """Refuse every trade, until the settlement wallet is deployed."""
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
        self._attempts = Attempts(context, "base", "The same request tells.")
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
        with self._attempts.place(request, trade_refusals.crowded) as leave:
            return await self._checked(request, trade, snapshot, leave)

    async def _checked(
        self, request: web.Request, trade: TradeRequest, snapshot: MarketsSnapshot, leave: Callable[[], None]
    ) -> web.StreamResponse:
        """Answer a call that holds a place among the payments being checked. `leave` gives the place back: a payment
        that was taken in, now or before, waits for its block without one."""
        payment, rejected = self._answers.payment_in(request, trade)
        paid = payment is not None
        counts = await self._rates.arrived(request, trade, paid=paid)
        key_hash = idem_hash(trade.idem_key)
        past = await self._outcomes.before(trade, key_hash)
        if counts and not past.is_on_its_way:  # even if the bet is invalid
            await self._rates.asked(request, trade, paid=paid, settled=past.landed is not None)
        market = await self._index.market(trade.market_id)
        if market is None:
            if not trade.simulate and past.is_for(trade.market_id):
                await self._refuse_undone(trade, key_hash, past)
            raise await self._no_market(trade, payment)
        if past.landed is not None:
            return await self._outcomes.receipt(trade, past.landed, replay=True, named=market)
        past.check_same(trade, market)
        try:
            return await self._unsettled(
                TradeContext(trade, market, key_hash, payment, rejected, past, snapshot, leave)
            )
        except Problem as refusal:
            if trade.simulate or (refusal.code in RETRIABLE and past.trade is None and payment is None):
                raise
            return await self._outcomes.after_all(refusal, trade, market, key_hash)

    async def _refuse_undone(self, trade: TradeRequest, key_hash: bytes, past: PastTrade) -> NoReturn:
        """Refuse a trade that was taken in and whose market the chain has no more, since a fork undid its listing. It
        is not over until the blocks that refuse the bet are final: before that another fork may bring both back."""
        if past.is_on_its_way or past.trade is None or await self._outcomes.may_settle(trade, key_hash):
            raise trade_refusals.undone(past.tx_hash)
        facts = await self._facts(trade.wallet, key_hash, past.nonces)
        if facts.settled_stake:
            raise trade_refusals.undone(past.tx_hash)
        await self._outcomes.account_for(trade.wallet, trade.size, past.nonces, facts)
        raise trade_refusals.no_market(trade.market_id, paid=False)

    async def _no_market(self, trade: TradeRequest, payment: Authorization | None) -> Problem:
        """Say of a payment that it was not sent only if it was brought for no bet, under any key."""
        if payment is None:
            return trade_refusals.no_market(trade.market_id, paid=False)
        first = await self._brought_for(trade.wallet, payment)
        return trade_refusals.no_market(trade.market_id, paid=True) if first is None else trade_refusals.spoken_for()

    async def _brought_for(self, wallet: str, payment: Authorization) -> bytes | None:
        async with storage("The trade records"), free_connection(self._pool) as connection:
            return await store.brought_for(connection, bytes_of(wallet), payment.nonce)

    async def _unsettled(self, context: TradeContext) -> web.StreamResponse:
        """Answer for a bet that has not settled."""
        trade, past = context.trade, context.past
        if past.trade is not None and past.is_on_its_way:
            context.leave()
            return await self._outcomes.repeated(trade, past.trade.intent)
        order = self._orders.order(trade, context.market, context.key_hash)
        refusal: Problem | None = None
        try:
            order = await self._orders.check(trade, context.market, order, context.snapshot)
        except Problem as why:
            # What was paid is accounted for before a bet is refused for good: its payer must not be sent to pay again.
            if order is None or trade.simulate or why.code in RETRIABLE or not (context.payment or past.nonces):
                raise
            refusal = why
        if trade.simulate:
            return self._answers.simulated(
                order, now=chain_now(context.snapshot.now), balance=await self._balances.get(order.wallet)
            )
        return await self._real(context, order, refusal)

    # ------------------------------------------------------------ payment

    async def _real(self, context: TradeContext, order: Order, refusal: Problem | None) -> web.StreamResponse:
        """Take the payment, or ask for one. `refusal`: why the bet is not taken."""
        payment, past, snapshot = context.payment, context.past, context.snapshot
        offered = () if payment is None else (payment.nonce,)
        nonces = tuple(dict.fromkeys((*offered, *past.nonces)))
        fault = None if payment is None else paying.not_for(payment, order.bet.amount, order.hash)
        facts = await self._facts(order.wallet, order.bet.idem_hash, nonces, snapshot.head.hash)
        forged = None if payment is None else await self._why_forged(payment, order, facts)
        if facts.settled_stake:  # settled, and the index has not shown it yet
            return await self._outcomes.settled_soon(order.request, facts.block)
        # Before any other refusal: a caller who has paid gets the outcome, and is not asked to pay again.
        if payment is not None and payment.nonce in facts.used:
            return await self._used(order, payment, facts, fault=fault or forged)
        await self._outcomes.account_for(order.wallet, order.bet.amount, past.nonces, facts)
        now = chain_now(snapshot.now)
        if refusal is not None:
            is_early = facts.timestamp < order.market.closes_at <= now
            raise trade_refusals.closing() if is_early and refusal.code == "market_closed" else refusal
        if payment is not None:
            closes_at = order.market.closes_at
            outside = paying.outside_its_window(payment, head_time=facts.timestamp, now=now, closes_at=closes_at)
            fault = fault or outside or forged
        if payment is None or fault is not None:
            await self._check_twin(order)
            await self._check_lanes(None)  # never ask for a signature that cannot be settled
            log.info("asked for payment", action="agent.challenge", code="payment_required", trade=order.resource_hash)
            return self._answers.challenge(order, fault or context.rejected, now)
        # Anyone may have read such a payment off the chain, so it counts for its caller and not for the wallet.
        if await self._brought_for(order.wallet, payment) not in (None, order.hash):
            raise trade_refusals.spoken_for()
        kit = self._escape_kit(order, payment)
        await self._check_lanes(kit)
        _check_balance(order, facts)
        await self._rates.taken(order.request)
        return await self._settle(context, order, payment, kit, Funds(facts.balance, facts.block))

    async def _facts(
        self, wallet: str, key_hash: bytes, nonces: Sequence[bytes], guess: str | None = None
    ) -> PaymentFacts:
        """Ask the chain about a payment; refuse for now when it cannot be asked."""
        async with self._reached() as client:
            return await read_facts(client, self._contracts, wallet, key_hash, nonces, self._request_seconds, guess)

    @contextlib.asynccontextmanager
    async def _reached(self) -> AsyncIterator[ChainClient]:
        try:
            if self._client is None:
                raise trade_refusals.unavailable("Base cannot be reached")
            yield self._client
        except RpcError as error:
            log.warning("a trade has no chain", action="agent.no_chain", why=error)
            raise trade_refusals.unavailable("Base cannot be reached") from None

    async def _why_forged(self, payment: Authorization, order: Order, facts: PaymentFacts) -> str | None:
        """Return why the wallet has not signed a payment in the form that its nonce says, or None."""

        async def is_signed(form: Form) -> bool:
            digest = payment.digest(PRIMARY_TYPES[form], self._contracts.token_facts, self._contracts.chain_id)
            if not facts.wallet_has_code:
                return signer_of(digest, payment.signature) == checksum(order.wallet)
            async with self._reached() as client:
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

    async def _check_twin(self, order: Order) -> None:
        """Asked before anything is signed, and again when the payment is taken in."""
        async with storage("The trade records"), free_connection(self._pool) as connection:
            await store.check_twin(connection, order.bet)

    # ------------------------------------------------------------ from a payment to its stake

    async def _settle(
        self,
        context: TradeContext,
        order: Order,
        payment: Authorization,
        kit: dict[str, Any] | None,
        funds: Funds,
    ) -> web.StreamResponse:
        """Take a payment in and wait for its stake. `funds`: of the wallet."""
        asked = await self._take_in(order, payment, context.past.attempt, kit, funds)
        context.leave()
        if asked is None:  # another call with this key was faster: its attempt is waited for
            past = await self._outcomes.before(order.request, order.bet.idem_hash)
            past.check_same(order.request, context.market)
            if past.trade is None or not past.is_on_its_way:
                raise trade_refusals.settling(kit, is_on_its_way=True)
            return await self._outcomes.repeated(order.request, past.trade.intent)
        intent = await self._attempts.result(asked, RESULT_WAIT_SECONDS)
        if intent.refused or intent.outcome is MinedOutcome.REVERTED:
            try:
                facts = await self._facts(order.wallet, order.bet.idem_hash, (payment.nonce,))
            except Problem:  # perhaps it was refused because it is settled
                raise trade_refusals.settling(kit) from None
            if facts.settled_stake:  # another sender was faster with this very bet
                return await self._outcomes.settled_soon(order.request, facts.block)
            # Another sender was faster with the same authorization: its money is the payer's.
            if facts.was_used_elsewhere(payment.nonce):
                return await self._used(order, payment, facts, fault=None)
            refusal = trade_refusals.refused(intent, kit)
            # A block at least as new as the refusing one has no stake under the key: the bet was not refused because
            # another sender had already placed it. A node that is behind that block proves nothing.
            is_proven = intent.block_number is not None and facts.block >= intent.block_number
            if refusal.code not in RETRIABLE and is_proven:
                raise refusal
        return await self._outcomes.answered(order.request, intent, kit, replay=False)

    async def _used(
        self, order: Order, payment: Authorization, facts: PaymentFacts, *, fault: str | None
    ) -> web.StreamResponse:
        """Answer for an authorization that was used while its key has settled nothing. `fault`: why it does not pay for
        this order; if it does, the keeper books what it brought."""
        if fault is None and payment.nonce not in facts.booked:
            async with (
                storage("The payment records"),
                free_connection(self._pool) as connection,
                connection.transaction(),
            ):
                await store.bring(connection, self._signed_bet(order, payment), order.request.callback_url)
        stake = await self._outcomes.used(payment, order.bet.amount, facts, fault=fault)
        if stake.idem_hash != order.bet.idem_hash:
            raise trade_refusals.has_paid(stake)
        return await self._outcomes.settled_soon(order.request, stake.block)

    async def _take_in(
        self, order: Order, payment: Authorization, attempt: int, kit: dict[str, Any] | None, funds: Funds
    ) -> Intent | None:
        """Book the payment and queue its transaction; None when another call made this attempt first. `attempt`: how
        many of this key were made before."""
        chain_id = self._contracts.chain_id
        key = intent_key(chain_id, order.wallet, order.bet.idem_hash, attempt + 1)
        call = payment_call(self._contracts, "settle", order.bet, payment)
        try:
            async with (
                asyncio.timeout(TAKE_IN_SECONDS),
                free_connection(self._pool) as connection,
                connection.pipeline(),  # its statements share their ways to the database and back
                connection.transaction(),
            ):
                return await store.take_in(
                    connection,
                    self._signed_bet(order, payment),
                    attempt_of(key, "settle", chain_id, call, payment),
                    after_attempt=attempt,
                    funds=funds,
                    quote_id=order.request.quote_id if order.bet.amount > SIMPLE_MAX else None,
                    callback_url=order.request.callback_url,
                )
        except store.Overtaken:
            return None
        except MoneyPromised as promised:
            raise trade_refusals.promised(promised.args[0], kit) from None
        except DATABASE_ERRORS as error:
            log.warning("failed to queue a trade", action="agent.no_database", why=error)
            message = "It is not known whether the trade was recorded; send it again with the same idemKey."
            raise problem("internal_error", message, escapeKit=kit) from None

    # ------------------------------------------------------------ calls of the settlement wallet

    def _signed_bet(self, order: Order, payment: Authorization) -> store.SignedBet:
        # What follows the selector, which is the same for `settle` and `credit`.
        arguments = payment_call(self._contracts, "credit", order.bet, payment).data[4:]
        return store.SignedBet(order.bet, order.hash, payment.nonce, arguments)

    def _escape_kit(self, order: Order, payment: Authorization) -> dict[str, Any] | None:
        """Return the call that anyone may send instead of us; only an authorization bound to this bet has one."""
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
    """Count the answers of `trade` by what they say."""

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
