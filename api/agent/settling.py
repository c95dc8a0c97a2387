"""From a signed payment to what became of it: queued once, followed, credited when somebody else was faster.

After a broadcast no answer asks for another payment: it is the receipt, or that the outcome is not known yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from api.agent import store, trade_refusals
from api.agent.chain import AgentContracts, PaymentFacts, read_facts
from api.agent.facts import Market, Stake
from api.agent.index import AgentIndex
from api.agent.models import TradeRequest
from api.agent.orders import SIMPLE_MAX, Order
from api.agent.problems import problem
from api.agent.receipts import Receipts
from api.agent.rows import read_by_key
from api.agent.storage import storage
from api.agent.x402 import Payment
from api.unreadable import UNREADABLE
from core.chain import ChainClient, RpcError
from core.db.engine import Pool
from core.db.schema.index_shared import token_authorization
from core.log import get_logger
from core.mirror.bet import ZERO_ADDRESS, idem_hash
from core.outbox import HAS_RESULT, RELAY, Intent, IntentRequest, IntentWatch, Outcome

log = get_logger(__name__)

RESULT_WAIT_SECONDS = 10.0
SAME_KEY_WAIT_SECONDS = 4.0
INDEX_WAIT_SECONDS = 5.0
TAKE_IN_SECONDS = 5.0


class Settling:
    """`request_seconds`: the longest a call to the node may take within a request."""

    def __init__(
        self,
        engine: AsyncEngine,
        pool: Pool,
        watch: IntentWatch,
        index: AgentIndex,
        receipts: Receipts,
        *,
        request_seconds: float,
        wait_seconds: float = RESULT_WAIT_SECONDS,
    ) -> None:
        self._engine = engine
        self._pool = pool
        self._watch = watch
        self._index = index
        self._receipts = receipts
        self._request_seconds = request_seconds
        self._wait_seconds = wait_seconds

    # ------------------------------------------------------------ what a key did before

    async def before(
        self, wanted: TradeRequest, market: Market, key_hash: bytes
    ) -> web.Response | store.KnownTrade | None:
        """What the idempotency key did before: the answer when it settled, the payment taken in, or nothing."""
        async with storage("The trade records"), self._engine.connect() as connection:
            stake = await read_by_key(connection, wanted.wallet, key_hash)
        if stake is not None:
            return self._shown(wanted, stake, replay=True, kit=None, named=market)
        async with storage("The trade records"), self._pool.connection() as write:
            known = await store.find_trade(write, bytes.fromhex(wanted.wallet[2:]), key_hash)
        if known is not None:
            same = (market.key, market.outcome(wanted.side), wanted.size, wanted.builder or ZERO_ADDRESS)
            if same != (known.market_key, known.outcome, known.amount, known.builder):
                raise trade_refusals.conflict(wanted.idem_key)
        return known

    async def repeated(self, wanted: TradeRequest, intent: Intent) -> web.StreamResponse:
        """The answer to a call whose key is already on its way."""
        return await self._outcome(wanted, intent, None, replay=True, seconds=SAME_KEY_WAIT_SECONDS)

    async def settled_soon(self, wanted: TradeRequest, block: int) -> web.StreamResponse:
        """The receipt of what is on chain, which the index is about to show."""
        return await self._settled_soon(wanted, block, None)

    # ------------------------------------------------------------ sending

    async def settle(
        self,
        client: ChainClient,
        contracts: AgentContracts,
        order: Order,
        payment: Payment,
        attempt: int,
        kit: dict[str, Any] | None,
    ) -> web.StreamResponse:
        """Takes a payment in and waits for its stake. `attempt`: how many of this key were made before."""
        asked = await self._take_in("settle", contracts, order, payment, attempt, kit)
        if asked is None:
            return await self._beaten(order, kit)
        intent, stake = await self._first_news(order.request, asked, self._wait_seconds)
        if stake is not None:
            return self._shown(order.request, stake, replay=False, kit=kit)
        if intent.refused or intent.outcome is Outcome.REVERTED:
            spent = await self._spent_meanwhile(client, contracts, order, payment)
            if spent is not None:  # somebody was faster with the same authorization: what it brought is the payer's
                return await self.credit(contracts, order, payment, spent, attempt + 1, kit)
        return await self._outcome(order.request, intent, kit, replay=False, seconds=0)

    async def credit(
        self,
        contracts: AgentContracts,
        order: Order,
        payment: Payment,
        facts: PaymentFacts,
        attempt: int,
        kit: dict[str, Any] | None,
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
        async with storage("The payment records"), self._engine.connect() as connection:
            landed = (await connection.execute(query)).first()
        if landed is None:
            raise problem("payment_invalid", "This authorization was already used or cancelled.")
        log.info("crediting a payment sent past us", action="agent.credit", trade=order.resource_hash)
        asked = await self._take_in("credit", contracts, order, payment, attempt, kit)
        if asked is None:
            return await self._beaten(order, kit)
        return await self._outcome(order.request, asked, kit, replay=False, seconds=self._wait_seconds)

    async def _take_in(
        self,
        how: str,
        contracts: AgentContracts,
        order: Order,
        payment: Payment,
        attempt: int,
        kit: dict[str, Any] | None,
    ) -> Intent | None:
        """Books the payment and queues its transaction; None when another call made this attempt first."""
        call = contracts.call(how, order.intent, payment)
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
            async with (
                asyncio.timeout(TAKE_IN_SECONDS),
                self._pool.connection() as connection,
                connection.transaction(),
            ):
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
            raise trade_refusals.twin(twin.args[0]) from None
        except store.BroughtForAnother:
            raise trade_refusals.spoken_for() from None
        except store.LockTaken:
            raise problem("quote_mismatch", "The quote has served another trade.") from None
        except UNREADABLE as error:
            log.warning("a trade could not be queued", action="agent.no_database", why=error)
            raise problem("internal_error", "The trade could not be recorded; send it again.", escapeKit=kit) from None
        return None if asked is None else asked.intent

    async def _beaten(self, order: Order, kit: dict[str, Any] | None) -> web.StreamResponse:
        """Another call of this key was first: its answer is ours."""
        known = await self.before(order.request, order.market, order.intent.idem_hash)
        if isinstance(known, web.Response):
            return known
        if known is None or known.is_over:
            raise trade_refusals.settling(kit)
        return await self._outcome(order.request, known.intent, kit, replay=True, seconds=SAME_KEY_WAIT_SECONDS)

    async def _spent_meanwhile(
        self, client: ChainClient, contracts: AgentContracts, order: Order, payment: Payment
    ) -> PaymentFacts | None:
        """The facts, when the transaction was refused because the authorization had been used straight on the token."""
        try:
            facts = await read_facts(
                client, contracts, order.wallet, order.intent.idem_hash, payment.nonce, self._request_seconds
            )
        except RpcError as error:
            log.warning("a refusal has no chain", action="agent.no_chain", why=error)
            return None
        return facts if facts.used and not facts.booked and not facts.settled_stake else None

    # ------------------------------------------------------------ outcomes

    async def _first_news(self, wanted: TradeRequest, intent: Intent, seconds: float) -> tuple[Intent, Stake | None]:
        """The intent once the relayer knows what became of it, or the stake once the index shows it: the first of both.

        The index usually is, by the relayer's look at the chain and its write. What was known before stands when
        neither can be read.
        """
        told = asyncio.create_task(self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds))
        seen = asyncio.create_task(self._staked(wanted))
        try:
            await asyncio.wait((told, seen), timeout=seconds + 1, return_when=asyncio.FIRST_COMPLETED)
            if seen.done() and seen.exception() is None:
                return intent, seen.result()
            if told.done():
                with contextlib.suppress(*UNREADABLE):
                    intent = told.result()
            return intent, None
        finally:
            for task in (told, seen):
                task.cancel()
            await asyncio.gather(told, seen, return_exceptions=True)

    async def _staked(self, wanted: TradeRequest) -> Stake:
        """Asks again at every change of the index, as long as it takes."""
        key_hash = idem_hash(wanted.idem_key)
        while True:
            tick = self._index.tick
            with contextlib.suppress(*UNREADABLE):
                async with self._engine.connect() as connection:
                    stake = await read_by_key(connection, wanted.wallet, key_hash)
                if stake is not None and stake.market_key in self._index.required().markets:
                    return stake
            await self._index.changed(tick)

    async def _outcome(
        self, wanted: TradeRequest, intent: Intent, kit: dict[str, Any] | None, *, replay: bool, seconds: float
    ) -> web.StreamResponse:
        """Waits for the chain's answer as long as there is time, and says what is known then."""
        if seconds > 0:
            intent, stake = await self._first_news(wanted, intent, seconds)
            if stake is not None:
                return self._shown(wanted, stake, replay=replay, kit=kit)
        if intent.succeeded:
            return await self._settled_soon(
                wanted, intent.block_number or 0, intent.tx_hash_hex, replay=replay, kit=kit
            )
        if intent.refused or intent.outcome in (Outcome.REVERTED, Outcome.CANCELLED) or intent.state.ended:
            raise trade_refusals.refused(intent)
        if intent.tx_hash_hex is not None:
            raise trade_refusals.unknown(intent.tx_hash_hex, kit)
        raise trade_refusals.settling(kit)

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
        stake = None
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._engine.connect() as connection:
                stake = await read_by_key(connection, wanted.wallet, idem_hash(wanted.idem_key))
        except UNREADABLE as error:
            log.warning("a settled trade cannot be read", action="agent.no_database", why=error)
        if stake is None:
            raise trade_refusals.unknown(tx_hash, kit) if tx_hash is not None else trade_refusals.settling(kit)
        return self._shown(wanted, stake, replay=replay, kit=kit)

    def _shown(
        self,
        wanted: TradeRequest,
        stake: Stake,
        *,
        replay: bool,
        kit: dict[str, Any] | None,
        named: Market | None = None,
    ) -> web.Response:
        """The receipt of what settled under the key; 409 when that was another trade than the one asked for."""
        venue = self._index.required()
        named = venue.market(wanted.market_id) if named is None else named
        if named is not None and not _same(wanted, named, stake):
            raise trade_refusals.conflict(wanted.idem_key)
        return self._receipts.settled(venue.markets[stake.market_key], stake, replay=replay, kit=kit)


def _same(wanted: TradeRequest, named: Market, stake: Stake) -> bool:
    if (named.key, wanted.size) != (stake.market_key, stake.amount):
        return False
    # A payment owed back says no side.
    return stake.outcome is None or (named.outcome(wanted.side), wanted.builder) == (stake.outcome, stake.builder)
