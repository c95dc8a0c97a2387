"""From a signed payment to what became of it: queued once, followed, credited when somebody else was faster.

While a payment may still be taken no answer asks for another: it is the receipt, or that the outcome is not known yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from api.agent.chain import AgentContracts, PaymentFacts, read_facts
from api.agent.errors import RETRIABLE, problem
from api.agent.facts import Arrival, ArrivalState, BookTotals, ListedMarket, Stake, key_of
from api.agent.index import AgentIndex
from api.agent.requests import TradeRequest
from api.agent.rows import read_arrival, read_attempts, read_by_key, read_by_nonce, read_totals
from api.agent.storage import storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import store
from api.agent.trade.calls import payment_call
from api.agent.trade.orders import SIMPLE_MAX, Order
from api.agent.trade.payment import Payment
from api.agent.trade.receipts import Receipts
from api.context import Context
from api.finality import for_now, may_land, read_final_block
from api.http.problem import Problem
from api.unreadable import UNREADABLE
from core.agent.bet import ZERO_ADDRESS, idem_hash
from core.beside import beside
from core.chain import ChainClient, RpcError
from core.contracts.statuses import Form, RefundReason
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.metrics import counter
from core.outbox import CREDIT, HAS_RESULT, RELAY, Intent, IntentRequest, MinedOutcome
from core.service.cancelling import end

log = get_logger(__name__)

UNKNOWN = counter(
    "vpm_agent_trades_unknown", "Answers to paid trades that were submitted and whose outcome was not recorded yet"
)

RESULT_WAIT_SECONDS = 10.0
SAME_KEY_WAIT_SECONDS = 4.0
INDEX_WAIT_SECONDS = 5.0
TAKE_IN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class LandedBet:
    """What settled under a key, and what stood on each outcome right after it; None for a payment owed back."""

    stake: Stake
    totals: BookTotals | None


@dataclass(frozen=True, slots=True)
class PastTrade:
    """What a key did before: what settled under it, or else the payment taken in last, and the nonces of all that were
    brought under it."""

    landed: LandedBet | None
    trade: store.KnownTrade | None = None
    nonces: tuple[bytes, ...] = ()

    @property
    def attempt(self) -> int:
        return 0 if self.trade is None else self.trade.attempt

    @property
    def is_on_its_way(self) -> bool:
        return self.trade is not None and not self.trade.is_over

    def check_same(self, asked: TradeRequest, market: ListedMarket) -> None:
        """409 when the payment taken in last was for another trade than the one asked for."""
        if (booked := self.trade) is None:
            return
        same = (market.key, market.outcome(asked.side), asked.size, asked.builder or ZERO_ADDRESS)
        if same != (booked.market_key, booked.outcome, booked.amount, booked.builder):
            raise trade_refusals.conflict(asked.idem_key)


class PaymentIntake:
    """The way of a payment from the request to the chain."""

    def __init__(self, context: Context, contracts: AgentContracts, index: AgentIndex, receipts: Receipts) -> None:
        self._contracts = contracts
        self._engine = context.primary  # what is said of money must not be behind what was just written
        self._pool = context.pool
        self._watch = context.watch
        self._index = index
        self._receipts = receipts
        # The longest a call to the node may take within a request.
        self._request_seconds = context.settings.rpc_request_path_timeout_seconds
        # How deep a block lies that nothing undoes, where the node does not say.
        self._finality_blocks = context.settings.chain("base").finality_blocks

    # ------------------------------------------------------------ what a key did before

    async def before(self, trade: TradeRequest, key_hash: bytes) -> PastTrade:
        """What the idempotency key did before, whatever it is asked for now."""
        async with beside(self._paid_under(trade, key_hash)) as paid:  # most keys are new: both are read
            async with storage("The trade records"), self._engine.connect() as connection:
                placed = await _placed(connection, trade.wallet, key_hash)
            return await paid if placed is None else PastTrade(placed)

    async def replayed(self, trade: TradeRequest, market: ListedMarket, landed: LandedBet) -> web.StreamResponse:
        """The receipt of what settled under the key before."""
        return await self._shown(trade, landed, replay=True, kit=None, named=market)

    async def _paid_under(self, trade: TradeRequest, key_hash: bytes) -> PastTrade:
        wallet = bytes_of(trade.wallet)
        async with storage("The trade records"), self._pool.connection() as connection:
            booked = await store.find_trade(connection, wallet, key_hash)
            return PastTrade(None, booked, await store.nonces_of(connection, wallet, key_hash))

    async def undone(self, client: ChainClient | None, trade: TradeRequest, key_hash: bytes) -> None:
        """Raises what became of a trade whose market the chain has no more, since a fork undid its listing; nothing
        when no payment for it was taken in.

        That it is over is said when the blocks that refuse it are final: before that another fork may bring both back.
        """
        past = await self._paid_under(trade, key_hash)
        booked, nonces = past.trade, past.nonces
        if booked is None or booked.market_key != key_of(trade.market_id):
            return
        if (trade.size, trade.builder or ZERO_ADDRESS) != (booked.amount, booked.builder):
            raise trade_refusals.conflict(trade.idem_key)
        if not booked.is_over:
            raise trade_refusals.undone_for_now(booked.intent)
        try:
            if client is None:
                raise trade_refusals.unavailable("Base cannot be reached")
            facts = await read_facts(client, self._contracts, trade.wallet, key_hash, nonces, self._request_seconds)
        except RpcError as error:
            log.warning("an undone trade has no chain", action="agent.no_chain", why=error)
            raise trade_refusals.unavailable("Base cannot be reached") from None
        for nonce in nonces:
            if facts.is_astray(nonce):
                await self.account_for(trade.wallet, trade.size, nonce, facts.block)
        async with storage("The trade records"), self._engine.connect() as reading:
            may_settle = await self._may_settle(reading, trade, key_hash, or_is_on_its_way=True)
        if facts.settled_stake or may_settle:
            raise trade_refusals.undone_for_now(booked.intent)
        raise trade_refusals.undone(booked.intent)

    async def repeated(self, trade: TradeRequest, intent: Intent) -> web.StreamResponse:
        """The answer to a call whose key is already on its way."""
        return await self._outcome(trade, intent, None, replay=True, seconds=SAME_KEY_WAIT_SECONDS)

    async def settled_soon(self, trade: TradeRequest, block: int) -> web.StreamResponse:
        """The receipt of what is on chain, which the index is about to show."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        return await self._landed(trade, None)

    # ------------------------------------------------------------ sending

    async def settle(
        self,
        client: ChainClient,
        order: Order,
        payment: Payment,
        attempt: int,
        kit: dict[str, Any] | None,
        *,
        balance: int,
    ) -> web.StreamResponse:
        """Takes a payment in and waits for its stake. `attempt`: how many of this key were made before. `balance`: what
        the wallet holds."""
        asked = await self._take_in("settle", order, payment, attempt, kit, balance)
        if asked is None:
            return await self._beaten(order, kit)
        intent, placed = await self._first_news(order.request, asked, RESULT_WAIT_SECONDS)
        if placed is not None:
            return await self._shown(order.request, placed, replay=False, kit=kit)
        if intent.refused or intent.outcome is MinedOutcome.REVERTED:
            facts = await self._facts_after(client, order, payment)
            if facts is None:  # perhaps it was refused because it is settled
                raise trade_refusals.settling(kit)
            if facts.settled_stake:  # somebody was faster with this very bet
                return await self.settled_soon(order.request, facts.block)
            # Somebody was faster with the same authorization: what it brought is the payer's.
            if facts.is_astray(payment.nonce):
                return await self.astray(order, payment, facts, attempt + 1, fault=None)
        return await self._outcome(order.request, intent, kit, replay=False, seconds=0)

    async def astray(
        self,
        order: Order,
        payment: Payment,
        facts: PaymentFacts,
        attempt: int,
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
        arrival, is_final = await self._arrival(payment.payer, payment.nonce, facts.block)
        if arrival is not None and arrival.value is not None and payment.form is Form.RECEIVE:
            # Only the contract takes it in this form, and books it in the same call: in a block after the one read.
            return await self._booked(order, payment, arrival.block)
        arrived = _arrived(arrival, is_final, self._contracts.settlement.address.lower())
        if fault is not None:
            raise trade_refusals.other_use(fault, arrived.tx)
        if arrived.value != order.bet.amount:
            raise trade_refusals.other_amount(arrived.value, order.bet.amount, arrived.tx)
        log.info("crediting a payment sent past us", action="agent.credit", trade=order.resource_hash)
        asked = await self._take_in("credit", order, payment, attempt, None)
        if asked is None:
            return await self._beaten(order, None)
        return await self._outcome(order.request, asked, None, replay=False, seconds=RESULT_WAIT_SECONDS)

    async def account_for(self, wallet: str, amount: int, nonce: bytes, block: int) -> None:
        """Raises what became of a payment that was brought under this key before and used since; nothing when it was
        cancelled, so that another may be asked for."""
        arrival, is_final = await self._arrival(wallet, nonce, block)
        if arrival is None:
            raise trade_refusals.unseen()
        if arrival.state is ArrivalState.CANCELED:
            return
        if arrival.value is None:
            raise trade_refusals.unpaired(arrival.tx)
        if is_final and arrival.value != amount:
            raise trade_refusals.other_amount(arrival.value, amount, arrival.tx)
        raise trade_refusals.arriving(arrival.value, arrival.tx)

    async def _arrival(self, payer: str, nonce: bytes, block: int) -> tuple[Arrival | None, bool]:
        """What the index holds of it once it holds this block, and whether that is final."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._engine.connect() as connection:
            arrival = await read_arrival(
                connection, self._contracts.chain_id, self._contracts.token.address, payer, nonce
            )
            final = await read_final_block(connection, self._contracts.chain_id, self._finality_blocks)
        return arrival, arrival is not None and arrival.block <= final

    async def _booked(self, order: Order, payment: Payment, block: int) -> web.StreamResponse:
        """The answer for an authorization that is booked: the receipt when it was booked for this very trade, however
        late that is noticed. That it paid for another one is said only of a stake that the index shows."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._engine.connect() as connection:
            stake = await read_by_nonce(connection, payment.payer, payment.nonce)
        if stake is None:
            raise trade_refusals.unseen()
        if stake.idem_hash == order.bet.idem_hash:
            return await self.settled_soon(order.request, stake.block)
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
        balance: int | None = None,
    ) -> Intent | None:
        """Books the payment and queues its transaction; None when another call made this attempt first. `balance`: of
        the wallet, where the money is yet to be moved."""
        call = payment_call(self._contracts, how, order.bet, payment)
        is_new = how == "settle"
        request = IntentRequest(
            key=_intent_key(self._contracts.chain_id, order.wallet, order.bet.idem_hash, attempt + 1),
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
                    balance=balance,
                    quote_id=order.request.quote_id if order.bet.amount > SIMPLE_MAX else None,
                    callback_url=order.request.callback_url,
                )
        except store.Overtaken:
            return None
        except store.TwinInFlight as twin:
            raise trade_refusals.twin(twin.args[0]) from None
        except store.MoneyOnItsWay as promised:
            raise trade_refusals.promised(promised.args[0], kit) from None
        except store.BroughtForAnother:
            raise trade_refusals.spoken_for() from None
        except store.LockTaken:
            raise problem("quote_mismatch", "The quote has served another trade.") from None
        except UNREADABLE as error:
            log.warning("a trade could not be queued", action="agent.no_database", why=error)
            raise problem("internal_error", "The trade could not be recorded; send it again.", escapeKit=kit) from None

    async def _beaten(self, order: Order, kit: dict[str, Any] | None) -> web.StreamResponse:
        """Another call of this key was first: its answer is ours."""
        past = await self.before(order.request, order.bet.idem_hash)
        if past.landed is not None:
            return await self.replayed(order.request, order.market, past.landed)
        past.check_same(order.request, order.market)
        if past.trade is None or not past.is_on_its_way:
            raise trade_refusals.settling(kit)
        return await self._outcome(order.request, past.trade.intent, kit, replay=True, seconds=SAME_KEY_WAIT_SECONDS)

    async def _facts_after(self, client: ChainClient, order: Order, payment: Payment) -> PaymentFacts | None:
        """What the chain says after it refused; None when it cannot be asked."""
        try:
            return await read_facts(
                client, self._contracts, order.wallet, order.bet.idem_hash, (payment.nonce,), self._request_seconds
            )
        except RpcError as error:
            log.warning("a refusal has no chain", action="agent.no_chain", why=error)
            return None

    # ------------------------------------------------------------ outcomes

    async def _first_news(self, trade: TradeRequest, intent: Intent, seconds: float) -> tuple[Intent, LandedBet | None]:
        """The stake once the index shows it, or the intent once the relayer knows that there will be none.

        Of a success both are news, and the receipt is made of the stake: who hears it of the relayer first waits for
        the index. What was known before stands when neither can be read.
        """
        reported = asyncio.create_task(self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds))
        seen = asyncio.create_task(self._staked(trade))
        try:
            await asyncio.wait((reported, seen), timeout=seconds + 1, return_when=asyncio.FIRST_COMPLETED)
            if reported.done() and not seen.done():
                with contextlib.suppress(*UNREADABLE):
                    intent = reported.result()
                if intent.succeeded:
                    await asyncio.wait((seen,), timeout=INDEX_WAIT_SECONDS)
            if seen.done() and seen.exception() is None:
                return intent, seen.result()
            return intent, None
        finally:
            await end(reported, seen)

    async def _staked(self, trade: TradeRequest) -> LandedBet:
        """Asks again at every news of the index, as long as it takes. The stake is read while the markets are, and
        told of when they are there: who has it then finds it in every other answer, too."""
        key_hash = idem_hash(trade.idem_key)
        while True:
            stirred = self._index.stirred
            with contextlib.suppress(*UNREADABLE):
                async with self._engine.connect() as connection:
                    placed = await _placed(connection, trade.wallet, key_hash)
                if placed is not None:
                    await self._index.reached(placed.stake.block, None)
                    if await self._index.markets((placed.stake.market_key,)):
                        return placed
            await stirred.wait()

    async def _outcome(
        self, trade: TradeRequest, intent: Intent, kit: dict[str, Any] | None, *, replay: bool, seconds: float
    ) -> web.StreamResponse:
        """Waits for the chain's answer as long as there is time, and says what is known then."""
        if seconds > 0:
            intent, placed = await self._first_news(trade, intent, seconds)
            if placed is not None:
                return await self._shown(trade, placed, replay=replay, kit=kit)
        if intent.succeeded:
            return await self._landed(trade, intent.tx_hash_hex, replay=replay, kit=kit)
        if intent.refused or intent.outcome in (MinedOutcome.REVERTED, MinedOutcome.CANCELLED) or intent.state.ended:
            raise trade_refusals.refused(intent)
        if intent.tx_hash_hex is not None and not replay:
            raise _unknown(intent.tx_hash_hex, kit)
        raise trade_refusals.settling(kit, intent.tx_hash_hex)

    async def standing(self, refusal: Problem, trade: TradeRequest, key_hash: bytes) -> Problem:
        """A refusal under a key, and that it is not for good while an attempt to settle the bet may still do so."""
        if refusal.code == "idem_conflict" or refusal.extra.get("moneyMoved"):
            return refusal  # of another bet than was sent; of what the payment did
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._engine.connect() as connection:
                may_settle = await self._may_settle(
                    connection, trade, key_hash, or_is_on_its_way=refusal.code not in RETRIABLE
                )
        except UNREADABLE as error:
            log.warning("whether a refusal is final cannot be read", action="agent.no_database", why=error)
            may_settle = True
        return for_now(refusal, "The same request tells.") if may_settle else refusal

    async def _may_settle(
        self,
        connection: AsyncConnection,
        trade: TradeRequest,
        key_hash: bytes,
        *,
        or_is_on_its_way: bool,
    ) -> bool:
        made, latest = await read_attempts(connection, trade.wallet, key_hash)
        keys = [_intent_key(self._contracts.chain_id, trade.wallet, key_hash, each) for each in range(1, made + 1)]
        # The keeper's attempts have keys of its own; the latest of a trade is the one it names.
        return await may_land(connection, [*keys, *latest], self._finality_blocks, or_is_on_its_way=or_is_on_its_way)

    async def _landed(
        self, trade: TradeRequest, tx_hash: str | None, *, replay: bool = True, kit: dict[str, Any] | None = None
    ) -> web.StreamResponse:
        """The receipt of what is on chain, if the index shows it."""
        placed = None
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._engine.connect() as connection:
                placed = await _placed(connection, trade.wallet, idem_hash(trade.idem_key))
        except UNREADABLE as error:
            log.warning("a settled trade cannot be read", action="agent.no_database", why=error)
        if placed is None:
            raise _unknown(tx_hash, kit) if tx_hash is not None else trade_refusals.settling(kit)
        return await self._shown(trade, placed, replay=replay, kit=kit)

    async def _shown(
        self,
        trade: TradeRequest,
        placed: LandedBet,
        *,
        replay: bool,
        kit: dict[str, Any] | None,
        named: ListedMarket | None = None,
    ) -> web.Response:
        """The receipt of what settled under the key; 409 when that was another trade than the one asked for."""
        stake = placed.stake
        named = await self._index.market(trade.market_id) if named is None else named
        if named is not None and not _same(trade, named, stake):
            raise trade_refusals.conflict(trade.idem_key)
        market = (await self._index.markets((stake.market_key,)))[stake.market_key]
        return self._receipts.settled(market, stake, placed.totals, replay=replay, kit=kit)


def _same(trade: TradeRequest, named: ListedMarket, stake: Stake) -> bool:
    if named.key != stake.market_key:
        return False
    if trade.size != stake.amount and stake.refund_reason is not RefundReason.OTHER_AMOUNT:
        return False
    # A payment owed back says no side.
    return stake.outcome is None or (named.outcome(trade.side), trade.builder) == (stake.outcome, stake.builder)


async def _placed(connection: AsyncConnection, wallet: str, key_hash: bytes) -> LandedBet | None:
    stake = await read_by_key(connection, wallet, key_hash)
    return None if stake is None else LandedBet(stake, await read_totals(connection, stake))


def _intent_key(chain_id: int, wallet: str, key_hash: bytes, attempt: int) -> str:
    return f"agent:{chain_id}:{wallet}:{key_hash.hex()}:{attempt}"


def _brought(contracts: AgentContracts, order: Order, payment: Payment) -> store.SignedBet:
    # What follows the selector, which is the same for `settle` and `credit`.
    arguments = payment_call(contracts, "credit", order.bet, payment).data[4:]
    return store.SignedBet(order.bet, order.hash, payment.nonce, payment.valid_before, arguments)


@dataclass(frozen=True, slots=True)
class Arrived:
    """Money that reached the settlement wallet by itself, for good."""

    value: int
    tx: bytes


def _arrived(arrival: Arrival | None, is_final: bool, to_us: str) -> Arrived:
    """What a payment has brought for good; raises as long as that is not known, and when it brought us nothing.
    `to_us`: the settlement wallet's address, in small letters."""
    if arrival is None:
        raise trade_refusals.unseen()
    if arrival.state is ArrivalState.CANCELED:
        raise trade_refusals.cancelled(arrival.tx)
    if arrival.value is None:
        raise trade_refusals.unpaired(arrival.tx)
    if arrival.recipient != to_us:
        raise trade_refusals.elsewhere(arrival.tx)
    if not is_final:
        raise trade_refusals.arriving(arrival.value, arrival.tx)
    return Arrived(arrival.value, arrival.tx)


def _unknown(tx_hash: str, kit: dict[str, Any] | None) -> Problem:
    """The refusal, counted: somebody is woken by it."""
    UNKNOWN.inc()
    return trade_refusals.unknown(tx_hash, kit)
