"""From a signed payment to the outbox: queued once, and credited when it was sent past us.

What became of it is told by `outcomes.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from api.agent.chain import AgentContracts, PaymentFacts, read_facts
from api.agent.errors import RETRIABLE, problem
from api.agent.index import AgentIndex
from api.agent.rows import read_by_nonce
from api.agent.storage import storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import store
from api.agent.trade.arrivals import INDEX_WAIT_SECONDS, PaymentArrivals, brought_for_good
from api.agent.trade.calls import payment_call
from api.agent.trade.orders import SIMPLE_MAX, Order
from api.agent.trade.outcomes import TradeOutcomes, intent_key
from api.agent.trade.payment import Payment
from api.context import Context
from api.database import DATABASE_ERRORS
from api.funds import Funds, MoneyPromised
from core.chain import ChainClient, RpcError
from core.contracts.statuses import Form
from core.log import get_logger
from core.outbox import CREDIT, RELAY, Intent, IntentRequest, MinedOutcome

log = get_logger(__name__)

RESULT_WAIT_SECONDS = 10.0
TAKE_IN_SECONDS = 5.0


class PaymentIntake:
    """The way of a payment from the request to the outbox."""

    def __init__(
        self,
        context: Context,
        contracts: AgentContracts,
        index: AgentIndex,
        outcomes: TradeOutcomes,
        arrivals: PaymentArrivals,
    ) -> None:
        self._contracts = contracts
        self._primary = context.primary  # what is said of money must not be behind what was just written
        self._pool = context.pool
        self._index = index
        self._outcomes = outcomes
        self._arrivals = arrivals
        # The longest a call to the node may take within a request.
        self._request_seconds = context.settings.rpc_request_path_timeout_seconds

    async def settle(
        self,
        client: ChainClient,
        order: Order,
        payment: Payment,
        attempt: int,
        kit: dict[str, Any] | None,
        leave: Callable[[], None],
        *,
        funds: Funds,
    ) -> web.StreamResponse:
        """Take a payment in and wait for its stake. `attempt`: how many of this key were made before. `leave`: called
        once it is taken in. `funds`: of the wallet."""
        asked = await self._take_in("settle", order, payment, attempt, kit, funds)
        leave()
        if asked is None:
            return await self._beaten(order, kit)
        intent, landed = await self._outcomes.first_news(order.request, asked, RESULT_WAIT_SECONDS)
        if landed is not None:
            return await self._outcomes.receipt(order.request, landed, replay=False, kit=kit)
        if intent.refused or intent.outcome is MinedOutcome.REVERTED:
            facts = await self._facts_after(client, order, payment)
            if facts is None:  # perhaps it was refused because it is settled
                raise trade_refusals.settling(kit)
            if facts.settled_stake:  # somebody was faster with this very bet
                return await self._outcomes.settled_soon(order.request, facts.block)
            # Somebody was faster with the same authorization: what it brought is the payer's.
            if facts.is_astray(payment.nonce):
                return await self.astray(order, payment, facts, attempt + 1, leave, fault=None)
            refusal = trade_refusals.refused(intent, kit)
            # No stake under the key in a block no older than that which refused the bet: what refused it was not the
            # bet itself, brought by somebody else. A node that is behind that block proves nothing.
            is_proven = intent.block_number is not None and facts.block >= intent.block_number
            if refusal.code not in RETRIABLE and is_proven:
                raise refusal
        return await self._outcomes.answered(order.request, intent, kit, replay=False, seconds=0)

    async def astray(
        self,
        order: Order,
        payment: Payment,
        facts: PaymentFacts,
        attempt: int,
        leave: Callable[[], None],
        *,
        fault: str | None,
    ) -> web.StreamResponse:
        """An authorization that the token calls used, while its key has settled nothing: by what, and what now.

        What it brought is booked from a final block alone, and only for the bet that its payer brought it for. `fault`:
        why it does not pay for this order.
        """
        if payment.nonce in facts.booked:
            return await self._booked(order, payment, facts.block)
        if fault is None:
            await self._bring(order, payment)
        arrival, is_final = await self._arrivals.read(payment.payer, payment.nonce, facts.block)
        if arrival is not None and arrival.value is not None and payment.form is Form.RECEIVE:
            # Only the contract takes it in this form, and books it in the same call: in a block after the one read.
            return await self._booked(order, payment, arrival.block)
        tx, value = brought_for_good(arrival, is_final)
        if value is None:
            raise trade_refusals.cancelled(tx)
        if fault is not None:
            raise trade_refusals.other_use(fault, tx)
        if value != order.bet.amount:
            raise trade_refusals.other_amount(value, order.bet.amount, tx)
        log.info("crediting a payment sent past us", action="agent.credit", trade=order.resource_hash)
        asked = await self._take_in("credit", order, payment, attempt, None)
        leave()
        if asked is None:
            return await self._beaten(order, None)
        return await self._outcomes.answered(order.request, asked, None, replay=False, seconds=RESULT_WAIT_SECONDS)

    async def _booked(self, order: Order, payment: Payment, block: int) -> web.StreamResponse:
        """The answer for an authorization that is booked: the receipt when it was booked for this very trade, however
        late that is noticed. That it paid for another one is said only of a stake that the index shows."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            stake = await read_by_nonce(connection, payment.payer, payment.nonce)
        if stake is None:
            raise trade_refusals.unseen()
        if stake.idem_hash == order.bet.idem_hash:
            return await self._outcomes.settled_soon(order.request, stake.block)
        raise trade_refusals.has_paid(stake)

    async def _bring(self, order: Order, payment: Payment) -> None:
        """Keeps what a payment is for, so that it is booked even if its payer never comes back."""
        try:
            async with storage("The payment records"), self._pool.connection() as connection:
                await store.bring(connection, _brought(self._contracts, order, payment))
        except store.BroughtForAnother:
            raise trade_refusals.spoken_for() from None

    async def _take_in(
        self,
        how: str,
        order: Order,
        payment: Payment,
        attempt: int,
        kit: dict[str, Any] | None,
        funds: Funds | None = None,
    ) -> Intent | None:
        """Books the payment and queues its transaction; None when another call made this attempt first. `funds`: of
        the wallet, where the money is yet to be moved."""
        call = payment_call(self._contracts, how, order.bet, payment)
        is_new = how == "settle"
        request = IntentRequest(
            key=intent_key(self._contracts.chain_id, order.wallet, order.bet.idem_hash, attempt + 1),
            chain_id=self._contracts.chain_id,
            group=RELAY if is_new else CREDIT,
            kind=how,
            to=call.to,
            data=call.data,
            replay_safe=True,
            not_after=payment.valid_before if is_new else None,
            payer=payment.payer,
        )
        try:
            async with (
                asyncio.timeout(TAKE_IN_SECONDS),
                self._pool.connection() as connection,
                connection.pipeline(),  # its statements share their ways to the database and back
                connection.transaction(),
            ):
                return await store.take_in(
                    connection,
                    _brought(self._contracts, order, payment),
                    request,
                    after_attempt=attempt,
                    funds=funds,
                    quote_id=order.request.quote_id if order.bet.amount > SIMPLE_MAX else None,
                    callback_url=order.request.callback_url,
                )
        except store.Overtaken:
            return None
        except store.TwinInFlight as twin:
            raise trade_refusals.twin(twin.args[0]) from None
        except MoneyPromised as promised:
            raise trade_refusals.promised(promised.args[0], kit) from None
        except store.BroughtForAnother:
            raise trade_refusals.spoken_for() from None
        except store.LockTaken:
            raise problem("quote_mismatch", "The quote has served another trade.") from None
        except DATABASE_ERRORS as error:
            log.warning("failed to queue a trade", action="agent.no_database", why=error)
            message = "It is not known whether the trade was recorded; send it again with the same idemKey."
            raise problem("internal_error", message, escapeKit=kit) from None

    async def _beaten(self, order: Order, kit: dict[str, Any] | None) -> web.StreamResponse:
        """Another call of this key was first: its answer is ours."""
        past = await self._outcomes.before(order.request, order.bet.idem_hash)
        if past.landed is not None:
            return await self._outcomes.receipt(order.request, past.landed, replay=True, named=order.market)
        past.check_same(order.request, order.market)
        if past.trade is None or not past.is_on_its_way:
            raise trade_refusals.settling(kit)
        return await self._outcomes.repeated(order.request, past.trade.intent, kit)

    async def _facts_after(self, client: ChainClient, order: Order, payment: Payment) -> PaymentFacts | None:
        """What the chain says after it refused; None when it cannot be asked."""
        try:
            return await read_facts(
                client, self._contracts, order.wallet, order.bet.idem_hash, (payment.nonce,), self._request_seconds
            )
        except RpcError as error:
            log.warning("a refusal has no chain", action="agent.no_chain", why=error)
            return None


def _brought(contracts: AgentContracts, order: Order, payment: Payment) -> store.SignedBet:
    # What follows the selector, which is the same for `settle` and `credit`.
    arguments = payment_call(contracts, "credit", order.bet, payment).data[4:]
    return store.SignedBet(order.bet, order.hash, payment.nonce, payment.valid_before, arguments)
