"""`POST /trade`: checks a bet in a fixed order, asks for payment, settles the bet once, and reports the outcome. A
resubmitted trade never settles twice, because the contract accepts a key and an authorization only once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, NoReturn

from aiohttp import web
from prometheus_client import Counter

from api.agent.chain import AgentContracts, PaymentFacts, read_facts
from api.agent.errors import RETRIABLE, busy, free_connection, problem, storage
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.index import NOT_DEPLOYED, AgentParts
from api.agent.requests import TradeRequest
from api.agent.trade import records, x402
from api.agent.trade import refusals as trade_refusals
from api.agent.trade.answers import Attester, TradeAnswers
from api.agent.trade.orders import SIMPLE_MAX, Order, TradeRates, check_order, order_for
from api.agent.trade.records import PreviousTrade, TradeOutcomes, check_same
from api.agent.trade.x402 import PRIMARY_TYPES, form_of, is_bound_to, settle_call
from api.context import Context
from api.database import DATABASE_ERRORS
from api.head import chain_now
from api.operations import Handler
from api.payments.attempts import Attempt, Funds, FundsReserved
from api.payments.authorization import Authorization, SignedCall, accepts_signature
from api.payments.pipeline import Payments, Submission, asks_to_retry
from api.problems import Problem
from core.agent.bet import idem_hash
from core.chain import ChainClient, RpcError, checksum
from core.contracts.statuses import Form
from core.log import get_logger
from core.money import decimal_text
from core.outbox import RELAY, Intent, MinedOutcome, report
from core.signatures import signer_of

log = get_logger(__name__)

ANSWERS = Counter("vpm_agent_trade_answers", "Responses to POST /trade, by result or error code", ("answer",))
UNKNOWN = Counter("vpm_agent_trades_unknown", "Responses to submitted trades whose outcome had not been recorded yet")

RESULT_WAIT_SECONDS = 10.0
SAME_KEY_WAIT_SECONDS = 4.0
ENQUEUE_SECONDS = 5.0


async def refuse_undeployed(context: Context, request: web.Request) -> NoReturn:
    await TradeRequest.read(request, allow_private=context.settings.allow_private_webhooks)
    raise problem("platform_paused", NOT_DEPLOYED)


class TradeHandler:
    def __init__(self, parts: AgentParts, contracts: AgentContracts, attester: Attester) -> None:
        context, self.index, self.client = parts.context, parts.index, parts.client
        self.parts = parts
        self.contracts = contracts
        self.pool = context.pool
        self.payments = Payments(context, "base", records.ATTEMPTS, "Send the same request again for the outcome.")
        self.rates = TradeRates(context.limits, context.settings)
        self.answers = TradeAnswers(contracts, attester, parts.links)
        self.outcomes = TradeOutcomes(context, contracts, parts.index, self.answers)
        # The longest a call to the node may take within a request.
        self.request_seconds = context.settings.rpc_request_path_timeout_seconds
        self._allow_private_callbacks = context.settings.allow_private_webhooks

    async def trade(self, request: web.Request) -> web.StreamResponse:
        trade = await TradeRequest.read(request, allow_private=self._allow_private_callbacks)
        snapshot = self.index.required()
        return await self.payments.run(request, TradeSubmission(self, request, trade, snapshot))


class TradeSubmission(Submission[web.StreamResponse]):
    def __init__(
        self, service: TradeHandler, request: web.Request, trade: TradeRequest, snapshot: MarketsSnapshot
    ) -> None:
        self._key_hash = idem_hash(trade.idem_key)
        self.key = records.bet_key(service.contracts.chain_id, trade.wallet, self._key_hash)
        self._service = service
        self._request = request
        self._trade = trade
        self._snapshot = snapshot
        self._past = PreviousTrade()
        self._market: ListedMarket | None = None  # once this call is for the key's trade, which may settle meanwhile
        self._payment: Authorization | None = None
        self._rejected: str | None = None  # why the payment that was sent is not usable
        self._order: Order | None = None  # once this call has stored its attempt
        self._checked_block: int | None = None  # that shows no stake under the key after the attempt has ended
        # The call that anyone may send instead of us, while its authorization is unused and bound to this bet.
        self._escape_kit: Mapping[str, Any] | None = None

    def too_many(self) -> Problem:
        return busy()

    def wait_seconds(self) -> float:
        return SAME_KEY_WAIT_SECONDS if self._order is None else RESULT_WAIT_SECONDS

    async def check(self) -> web.StreamResponse | Intent:
        service, request, trade = self._service, self._request, self._trade
        self._payment, self._rejected = service.answers.read_payment(request, trade)
        paid = self._payment is not None
        counts = await service.rates.count_call(request, trade, paid=paid)
        market = await service.index.market(trade.market_id)
        past = self._past = await service.outcomes.previous(trade, self.key, self._payment, market)
        if counts and not past.in_flight:  # even if the bet is invalid
            await service.rates.count_trade(request, trade, paid=paid, settled=past.landed is not None)
        if market is None:
            if not trade.simulate and past.is_for(trade.market_id):
                await self._refuse_undone(past)
            if past.paid_for is not None:  # it may not say that the payment was never sent
                raise trade_refusals.authorization_taken()
            raise trade_refusals.no_market(trade.market_id, paid=paid)
        if past.landed is not None:
            self.release()
            return await service.outcomes.receipt(trade, past.landed, replay=True, named=market)
        check_same(past.attempt, trade, market)
        self._market = market
        if past.attempt is not None and past.in_flight:
            return past.attempt.intent
        order = order_for(service.contracts, trade, market, self._key_hash)
        refusal: Problem | None = None
        try:
            order = await check_order(service.parts, trade, market, order, self._snapshot)
        except Problem as why:
            # Account for all payments before refusing a bet for good: its payer must not be asked to pay again.
            if order is None or trade.simulate or why.code in RETRIABLE or not (paid or past.nonces):
                raise
            refusal = why
        if trade.simulate:
            balance = await service.parts.balances.get(order.bet.wallet)
            return service.answers.simulated(order, now=chain_now(self._snapshot.now), balance=balance)
        return await self._check_payment(order, market, refusal)

    async def _refuse_undone(self, past: PreviousTrade) -> NoReturn:
        """Refuse a trade that was accepted before a reorganization removed its market from the chain. The refusal
        becomes final together with the new blocks. Until then, another reorganization may restore the market and the
        trade."""
        trade = self._trade
        if past.in_flight or past.attempt is None or await self._service.payments.may_land(self.key):
            raise trade_refusals.listing_undone(past.tx_hash)
        facts = await self._facts(past.nonces)
        if facts.settled_stake:
            raise trade_refusals.listing_undone(past.tx_hash)
        await self._service.outcomes.account_for(trade.wallet, trade.size, past.nonces, facts)
        raise trade_refusals.no_market(trade.market_id, paid=False)

    async def _check_payment(
        self, order: Order, market: ListedMarket, refusal: Problem | None
    ) -> web.StreamResponse | Intent:
        """Accept the payment, or ask for one. `refusal`: why the bet itself is refused, or None."""
        payment, past, outcomes = self._payment, self._past, self._service.outcomes
        offered = () if payment is None else (payment.nonce,)
        nonces = tuple(dict.fromkeys((*offered, *past.nonces)))
        fault = None if payment is None else x402.mismatch(payment, order.bet.amount, order.hash)
        facts = await self._facts(nonces, self._snapshot.head.hash)
        forged = None if payment is None else await self._signature_fault(payment, order, facts)
        if facts.settled_stake:  # settled, and not indexed yet
            return await self._receipt(facts.block)
        # Before any other refusal: a caller who has paid gets the outcome and is not asked to pay again.
        if payment is not None and payment.nonce in facts.used:
            return await self._handle_used_authorization(order, payment, facts, fault=fault or forged)
        await outcomes.account_for(order.bet.wallet, order.bet.amount, past.nonces, facts)
        now = chain_now(self._snapshot.now)
        if refusal is not None:
            is_early = facts.timestamp < market.closes_at <= now
            raise trade_refusals.closing() if is_early and refusal.code == "market_closed" else refusal
        if payment is not None:
            outside = x402.window_fault(payment, head_time=facts.timestamp, now=now, closes_at=market.closes_at)
            fault = fault or outside or forged
        if payment is None or fault is not None:
            return await self._ask_for_payment(order, fault or self._rejected, now)
        # Anyone could have copied such a payment from the chain, so it does not count towards the wallet's rate.
        if past.paid_for not in (None, order.hash):
            raise trade_refusals.authorization_taken()
        signed = settle_call(self._service.contracts, order.bet, payment)
        self._escape_kit = signed.escape_kit if is_bound_to(payment, order.hash) else None
        await self._check_lanes()
        if facts.balance < order.bet.amount:
            held, needed = decimal_text(facts.balance), decimal_text(order.bet.amount)
            raise problem("insufficient_balance", f"The wallet holds {held} USDC, but the bet is {needed} USDC.")
        await self._service.rates.count_payment(order.request)
        attempt = await self._enqueue(order, signed, Funds(facts.balance, facts.block))
        if attempt.is_new:
            self._order = order
        else:  # another call with this key was faster: wait for its attempt
            check_same(attempt, order.request, market)
        return attempt.intent

    async def _ask_for_payment(self, order: Order, why: str | None, now: int) -> web.StreamResponse:
        """Respond with a 402. `why`: why this request's payment was not accepted."""
        if self._past.duplicate is not None:
            raise trade_refusals.duplicate_in_flight(self._past.duplicate)
        await self._check_lanes()
        log.info("asked for payment", action="agent.challenge", code="payment_required", trade=order.resource_hash)
        return self._service.answers.challenge(order, why, now)

    async def _facts(self, nonces: Sequence[bytes], guess: str | None = None) -> PaymentFacts:
        """Read the facts about a payment. Raise a retriable refusal if no node responds."""
        service = self._service
        async with self._client_or_refusal() as client:
            return await read_facts(
                client, service.contracts, self._trade.wallet, self._key_hash, nonces, service.request_seconds, guess
            )

    @contextlib.asynccontextmanager
    async def _client_or_refusal(self) -> AsyncIterator[ChainClient]:
        try:
            if self._service.client is None:
                raise trade_refusals.unavailable("Base cannot be reached")
            yield self._service.client
        except RpcError as error:
            log.warning("failed to reach Base for a trade", action="agent.no_chain", why=error)
            raise trade_refusals.unavailable("Base cannot be reached") from None

    async def _signature_fault(self, payment: Authorization, order: Order, facts: PaymentFacts) -> str | None:
        """Return why the signature is not valid in the form that the nonce implies, or None if it is valid."""

        async def is_signed(form: Form) -> bool:
            digest = payment.digest(
                PRIMARY_TYPES[form], self._service.contracts.token_facts, self._service.contracts.chain_id
            )
            if not facts.wallet_has_code:
                return signer_of(digest, payment.signature) == checksum(order.bet.wallet)
            async with self._client_or_refusal() as client:
                return await accepts_signature(
                    client, order.bet.wallet, digest, payment.signature, self._service.request_seconds
                )

        form = form_of(payment)
        if await is_signed(form):
            return None
        if await is_signed(Form.RECEIVE if form is Form.TRANSFER else Form.TRANSFER):
            return x402.wrong_form(form)
        return "The signature was not made by walletAddress."

    async def _check_lanes(self) -> None:
        async with storage("The state of the relayer"), free_connection(self._service.pool) as connection:
            lanes = await report(connection, self._service.contracts.chain_id, RELAY)
        if not lanes.works:
            raise trade_refusals.unavailable("the relayer is down or out of gas")

    async def _enqueue(self, order: Order, signed: SignedCall, funds: Funds) -> Attempt:
        """Record the payment and store an attempt, unless another call has already stored one."""
        try:
            async with (
                asyncio.timeout(ENQUEUE_SECONDS),
                free_connection(self._service.pool) as connection,
                connection.pipeline(),  # its statements share round trips
                connection.transaction(),
            ):
                return await records.add_attempt(
                    connection,
                    self.key,
                    order.bet,
                    order.hash,
                    signed,
                    after=0 if self._past.attempt is None else self._past.attempt.number,
                    funds=funds,
                    quote_id=order.request.quote_id if order.bet.amount > SIMPLE_MAX else None,
                    callback_url=order.request.callback_url,
                )
        except FundsReserved as reserved:
            raise trade_refusals.funds_reserved(reserved.args[0]) from None
        except DATABASE_ERRORS as error:
            log.warning("failed to enqueue a trade", action="agent.no_database", why=error)
            message = "The trade may or may not have been recorded; send it again with the same idemKey."
            raise problem("internal_error", message) from None

    async def _handle_used_authorization(
        self, order: Order, payment: Authorization, facts: PaymentFacts, *, fault: str | None
    ) -> web.StreamResponse:
        """Handle a used authorization if its key has settled nothing. The keeper books the authorization if there is no
        `fault`."""
        self._escape_kit = None
        if fault is None and payment.nonce not in facts.booked:
            async with (
                storage("The payment records"),
                free_connection(self._service.pool) as connection,
                connection.transaction(),
            ):
                signed = settle_call(self._service.contracts, order.bet, payment)
                await records.record_authorization(
                    connection, order.bet, order.hash, signed, order.request.callback_url
                )
        stake = await self._service.outcomes.used(payment, order.bet.amount, facts, fault=fault)
        if stake.idem_hash != order.bet.idem_hash:
            raise trade_refusals.has_paid(stake)
        return await self._receipt(stake.block)

    async def _receipt(self, block: int) -> web.StreamResponse:
        self.release()
        return await self._service.outcomes.wait_for_receipt(self._trade, block)

    async def landed(self, intent: Intent) -> web.StreamResponse:
        assert intent.block_number is not None
        is_own = self._order is not None
        return await self._service.outcomes.wait_for_receipt(
            self._trade,
            intent.block_number,
            tx_hash=intent.tx_hash_hex,
            replay=not is_own,
            kit=self._escape_kit if is_own else None,
        )

    async def landed_otherwise(self, intent: Intent) -> web.StreamResponse | None:
        order, payment = self._order, self._payment
        if order is None or payment is None:  # the next call finds the other call's attempt ended, and checks the chain
            return None
        try:
            facts = await self._facts((payment.nonce,))
        except Problem:  # it may have been refused because it is settled
            raise trade_refusals.settling() from None
        if facts.settled_stake:  # another sender was faster with this very bet
            return await self._receipt(facts.block)
        # Another sender used the same authorization first: the keeper books its payment for the payer.
        if facts.was_used_elsewhere(payment.nonce):
            return await self._handle_used_authorization(order, payment, facts, fault=None)
        self._checked_block = facts.block
        return None

    async def refused(self, intent: Intent) -> NoReturn:
        refusal = trade_refusals.refused(intent)
        # A block at least as new as the refusing one has no stake under the key: the bet was not refused because
        # another sender had already placed it. A node that is behind that block proves nothing.
        block, checked = intent.block_number, self._checked_block
        is_proven = block is not None and checked is not None and checked >= block
        is_refused = intent.refused or intent.outcome is MinedOutcome.REVERTED
        if refusal.code in RETRIABLE or (is_proven and is_refused):
            raise refusal
        raise trade_refusals.settling(intent.tx_hash_hex)

    def pending(self, intent: Intent) -> NoReturn:
        if intent.tx_hash_hex is not None and self._order is not None:
            raise trade_refusals.unknown(intent.tx_hash_hex)
        raise trade_refusals.settling(intent.tx_hash_hex, in_flight=True)

    def escape_kit_for(self, refusal: Problem) -> Mapping[str, Any] | None:
        # While the same bet is in flight as another trade, which the refusal names, this call would bet twice.
        carries = asks_to_retry(refusal) and "tradeId" not in refusal.extra
        return self._escape_kit if carries else None

    def is_settled(self, refusal: Problem) -> bool:
        if self._market is None or self._trade.simulate:
            return True
        if refusal.code in RETRIABLE and self._past.attempt is None and self._payment is None:
            return True
        # About a different bet; or about what the payment did.
        return refusal.code == "idem_conflict" or bool(refusal.extra.get("moneyMoved"))

    async def landed_meanwhile(self, refusal: Problem) -> web.StreamResponse | None:
        landed = None if self.is_settled(refusal) else await self._service.outcomes.landed(self._trade)
        if landed is None:
            return None
        self.release()
        return await self._service.outcomes.receipt(self._trade, landed, replay=True, named=self._market)


def counted(trade: Handler) -> Handler:
    async def count(request: web.Request) -> web.StreamResponse:
        try:
            response = await trade(request)
        except Problem as refusal:
            ANSWERS.labels(refusal.code).inc()
            if refusal.code == "internal_error" and "txHash" in refusal.extra:
                UNKNOWN.inc()  # pages the operator
            raise
        ANSWERS.labels("payment_required" if response.status == 402 else "ok").inc()
        return response

    return count
