"""The outcome of a trade: what its key did before, what the chain and the index say now, and the answer that says so.

A trade is accepted once its payment is recorded here, and has landed once the index shows the result, no matter who
sent it: a stake, or a payment to give back. Its receipt calls it settled, the word of the specification. While a
payment may still be taken no answer asks for another: it is the receipt, or says that the outcome is not known yet.

A payment that the token calls used while its key has settled nothing was brought past us. The keeper books it, from a
final block, for the bet that its payer brought it for; here its payer learns what became of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.agent.chain import AgentContracts, PaymentFacts
from api.agent.errors import RETRIABLE
from api.agent.facts import Arrival, ArrivalState, BookTotals, ListedMarket, Stake, key_from_name
from api.agent.index import AgentIndex
from api.agent.requests import TradeRequest
from api.agent.rows import read_arrival, read_by_key, read_by_nonce, read_totals
from api.agent.storage import free_connection, storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import store
from api.agent.trade.answers import TradeAnswers
from api.agent.trade.payment import form_of
from api.context import Context
from api.database import DATABASE_ERRORS
from api.http.problem import Problem
from api.payments.attempts import Attempts, ReadKeys, read_final_block
from api.payments.authorization import Authorization
from core.agent.bet import ZERO_ADDRESS, idem_hash
from core.contracts.statuses import Form, RefundReason
from core.db.schema.agent import agent_trade
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from core.metrics import counter
from core.outbox import Intent

log = get_logger(__name__)

UNKNOWN = counter(
    "vpm_agent_trades_unknown", "Answers to paid trades that were submitted and whose outcome was not recorded yet"
)

RESULT_WAIT_SECONDS = 10.0
SAME_KEY_WAIT_SECONDS = 4.0
INDEX_WAIT_SECONDS = 5.0


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
        return self.trade is not None and self.trade.intent.may_land

    @property
    def tx_hash(self) -> str | None:
        if self.landed is not None:
            return hex_of(self.landed.stake.tx)
        return None if self.trade is None else self.trade.intent.tx_hash_hex

    def is_for(self, market_id: str) -> bool:
        """Return whether it bet on the market of this id."""
        bet = self.trade if self.landed is None else self.landed.stake
        return bet is not None and bet.market_key == key_from_name(market_id)

    def check_same(self, asked: TradeRequest, market: ListedMarket) -> None:
        """409 when the payment taken in last was for another trade than the one asked for."""
        if (booked := self.trade) is None:
            return
        same = (market.key, market.outcome(asked.side), asked.size, asked.builder or ZERO_ADDRESS)
        if same != (booked.market_key, booked.outcome, booked.amount, booked.builder):
            raise trade_refusals.conflict(asked.idem_key)


class TradeOutcomes:
    """What became of trades, as the answers to their payers."""

    def __init__(
        self,
        context: Context,
        contracts: AgentContracts,
        index: AgentIndex,
        answers: TradeAnswers,
        attempts: Attempts,
    ) -> None:
        self._contracts = contracts
        self._primary = context.primary  # what is said of money must not be behind what was just written
        self._pool = context.pool
        self._index = index
        # How deep a block lies that nothing undoes, where the node does not say.
        self._finality_blocks = context.settings.chain("base").finality_blocks
        self._answers = answers
        self._attempts = attempts

    async def before(self, trade: TradeRequest, key_hash: bytes) -> PastTrade:
        """Return what the idempotency key did before, even if this request is for another bet."""
        async with storage("The trade records"), self._primary.connect() as connection:
            landed = await _read_landed(connection, trade.wallet, key_hash)
        if landed is not None:
            return PastTrade(landed)
        wallet = bytes_of(trade.wallet)
        async with storage("The trade records"), free_connection(self._pool) as connection:
            booked = await store.find_trade(connection, wallet, key_hash)
            return PastTrade(None, booked, await store.nonces_of(connection, wallet, key_hash))

    async def repeated(self, trade: TradeRequest, intent: Intent) -> web.StreamResponse:
        """Answer a call whose key is already on its way."""
        intent = await self._attempts.result(intent, SAME_KEY_WAIT_SECONDS)
        return await self.answered(trade, intent, None, replay=True)

    async def settled_soon(self, trade: TradeRequest, block: int) -> web.StreamResponse:
        """Answer with the receipt of what is on chain, which the index is about to show."""
        await self._index.wait_for_block(block, INDEX_WAIT_SECONDS)
        return await self._receipt_if_landed(trade, None)

    async def answered(
        self, trade: TradeRequest, intent: Intent, kit: dict[str, Any] | None, *, replay: bool
    ) -> web.StreamResponse:
        """Answer with what is known of an attempt.

        That the bet is refused for good is not known here: the next call finds the attempt over, and asks the chain.
        """
        if intent.succeeded:
            assert intent.block_number is not None
            await self._index.wait_for_block(intent.block_number, INDEX_WAIT_SECONDS)
            return await self._receipt_if_landed(trade, intent.tx_hash_hex, replay=replay, kit=kit)
        if not intent.may_land:
            refusal = trade_refusals.refused(intent, kit)
            raise refusal if refusal.code in RETRIABLE else trade_refusals.settling(kit, intent.tx_hash_hex)
        if intent.tx_hash_hex is not None and not replay:
            raise trade_refusals.unknown(intent.tx_hash_hex, kit)
        raise trade_refusals.settling(kit, intent.tx_hash_hex, is_on_its_way=True)

    async def after_all(
        self, refusal: Problem, trade: TradeRequest, market: ListedMarket, key_hash: bytes
    ) -> web.StreamResponse:
        """Answer with the receipt of a bet that landed while it was checked: what refuses it may be what it did itself,
        in a block that the index has and the node that was asked does not. Else raise the refusal, marked as not final
        while an attempt to settle the bet may still do so."""
        if refusal.code == "idem_conflict" or refusal.extra.get("moneyMoved"):
            raise refusal  # of another bet than was sent; of what the payment did
        landed = await self._landed(trade, key_hash)
        if landed is not None:
            return await self.receipt(trade, landed, replay=True, named=market)
        if refusal.code == "internal_error" and "txHash" in refusal.extra:
            UNKNOWN.inc()  # pages the operator
        raise await self._attempts.worded(refusal, self._keys(trade, key_hash))

    async def may_settle(self, trade: TradeRequest, key_hash: bytes) -> bool:
        """Return whether an attempt to settle the key may still be mined; True if that is unknown."""
        return await self._attempts.may_land(self._keys(trade, key_hash))

    def _keys(self, trade: TradeRequest, key_hash: bytes) -> ReadKeys:
        return partial(_read_intent_keys, self._contracts.chain_id, trade.wallet, key_hash)

    async def _landed(self, trade: TradeRequest, key_hash: bytes) -> LandedBet | None:
        """Return what the index shows under the key; None also when it cannot be read."""
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._primary.connect() as connection:
                return await _read_landed(connection, trade.wallet, key_hash)
        except DATABASE_ERRORS as error:
            log.warning("a settled trade cannot be read", action="agent.no_database", why=error)
            return None

    async def _receipt_if_landed(
        self, trade: TradeRequest, tx_hash: str | None, *, replay: bool = True, kit: dict[str, Any] | None = None
    ) -> web.StreamResponse:
        """Answer with the receipt of what is on chain, if the index shows it."""
        landed = await self._landed(trade, idem_hash(trade.idem_key))
        if landed is None:
            raise trade_refusals.unknown(tx_hash, kit) if tx_hash is not None else trade_refusals.settling(kit)
        return await self.receipt(trade, landed, replay=replay, kit=kit)

    async def receipt(
        self,
        trade: TradeRequest,
        landed: LandedBet,
        *,
        replay: bool,
        kit: dict[str, Any] | None = None,
        named: ListedMarket | None = None,
    ) -> web.Response:
        """Answer with the receipt of what settled under the key; 409 when that was another trade than the one asked
        for. `named`: the market that was, once it is known."""
        stake = landed.stake
        named = await self._index.market(trade.market_id) if named is None else named
        if named is not None and not _same(trade, named, stake):
            raise trade_refusals.conflict(trade.idem_key)
        market = (await self._index.markets((stake.market_key,)))[stake.market_key]
        return self._answers.settled(market, stake, landed.totals, replay=replay, kit=kit)

    # ------------------------------------------------------------ payments brought past us

    async def account_for(self, wallet: str, amount: int, nonces: tuple[bytes, ...], facts: PaymentFacts) -> None:
        """Raise what became of a payment that was brought under this key before and used since; nothing if all of them
        were cancelled, so that another may be asked for."""
        for nonce in nonces:
            if facts.was_used_elsewhere(nonce):
                arrival, is_final = await self._read(wallet, nonce, facts.block)
                if arrival is None or arrival.state is not ArrivalState.CANCELED:
                    self._refuse(arrival, amount, is_final=is_final)

    async def used(self, payment: Authorization, amount: int, facts: PaymentFacts, *, fault: str | None) -> Stake:
        """Return what an authorization was booked as; raise what became of it if it was not. `fault`: why it does not
        pay for this bet of `amount`."""
        if payment.nonce in facts.booked:
            return await self._booked(payment, facts.block)
        arrival, is_final = await self._read(payment.payer, payment.nonce, facts.block)
        if arrival is not None and arrival.value is not None and form_of(payment) is Form.RECEIVE:
            # Only the contract takes it in this form, and books it in the same call: in a block after the one read.
            return await self._booked(payment, arrival.block)
        if arrival is not None and arrival.state is ArrivalState.CANCELED:
            raise trade_refusals.cancelled(arrival.tx)
        if fault is not None and is_final and arrival is not None and arrival.value is not None:
            raise trade_refusals.other_use(fault, arrival.tx)
        self._refuse(arrival, amount, is_final=is_final)

    def _refuse(self, arrival: Arrival | None, amount: int, *, is_final: bool) -> NoReturn:
        """Raise what is known of a payment that was not cancelled. The index holds no payments but those to us."""
        if arrival is None:
            raise trade_refusals.unseen()
        if arrival.value is None:
            raise trade_refusals.unpaired(arrival.tx)
        if is_final and arrival.value != amount:
            raise trade_refusals.other_amount(arrival.value, amount, arrival.tx)
        raise trade_refusals.arriving(arrival.value, arrival.tx)

    async def _booked(self, payment: Authorization, block: int) -> Stake:
        """Wait for the index to show an authorization that is booked, however late that is noticed."""
        await self._index.wait_for_block(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            stake = await read_by_nonce(connection, payment.payer, payment.nonce)
        if stake is None:
            raise trade_refusals.unseen()
        return stake

    async def _read(self, payer: str, nonce: bytes, block: int) -> tuple[Arrival | None, bool]:
        """Return what the index holds of it once it holds this block, and whether that is final."""
        await self._index.wait_for_block(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            arrival = await read_arrival(
                connection, self._contracts.chain_id, self._contracts.token.address, payer, nonce
            )
            final = await read_final_block(connection, self._contracts.chain_id, self._finality_blocks)
        return arrival, arrival is not None and arrival.block <= final


def _same(trade: TradeRequest, named: ListedMarket, stake: Stake) -> bool:
    if named.key != stake.market_key:
        return False
    if trade.size != stake.amount and stake.refund_reason is not RefundReason.OTHER_AMOUNT:
        return False
    # A payment owed back says no side.
    return stake.outcome is None or (named.outcome(trade.side), trade.builder) == (stake.outcome, stake.builder)


async def _read_landed(connection: AsyncConnection, wallet: str, key_hash: bytes) -> LandedBet | None:
    stake = await read_by_key(connection, wallet, key_hash)
    return None if stake is None else LandedBet(stake, await read_totals(connection, stake))


async def _read_intent_keys(chain_id: int, wallet: str, key_hash: bytes, connection: AsyncConnection) -> list[str]:
    """Return the keys of all attempts so far."""
    trade = agent_trade.c
    query = select(trade.attempt).where(trade.wallet == bytes_of(wallet), trade.idem_hash == key_hash)
    made = (await connection.execute(query)).scalar() or 0
    return [intent_key(chain_id, wallet, key_hash, each) for each in range(1, made + 1)]


def intent_key(chain_id: int, wallet: str, key_hash: bytes, attempt: int) -> str:
    return f"agent:{chain_id}:{wallet}:{key_hash.hex()}:{attempt}"
