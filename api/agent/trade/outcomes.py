"""What became of a trade: what its key did before, what the chain and the index say now, and the answer that tells it.

A trade is taken in once its payment is written down here, and has landed once the index shows what it made, whoever
brought it there: a stake, or a payment that is owed back. Its receipt calls it settled, the word of the specification.
While a payment may still be taken no answer asks for another: it is the receipt, or that the outcome is not known yet.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from api.agent.chain import AgentContracts
from api.agent.errors import RETRIABLE
from api.agent.facts import BookTotals, ListedMarket, Stake
from api.agent.index import AgentIndex
from api.agent.requests import TradeRequest
from api.agent.rows import read_attempts, read_by_key, read_totals
from api.agent.storage import storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade import store
from api.agent.trade.arrivals import INDEX_WAIT_SECONDS
from api.agent.trade.receipts import Receipts
from api.context import Context
from api.database import DATABASE_ERRORS
from api.finality import for_now, may_land
from api.http.problem import Problem
from core.agent.bet import ZERO_ADDRESS, idem_hash
from core.contracts.statuses import RefundReason
from core.hexadecimal import bytes_of
from core.log import get_logger
from core.metrics import counter
from core.outbox import HAS_RESULT, Intent, MinedOutcome
from core.service.cancelling import background_task, end

log = get_logger(__name__)

UNKNOWN = counter(
    "vpm_agent_trades_unknown", "Answers to paid trades that were submitted and whose outcome was not recorded yet"
)

SAME_KEY_WAIT_SECONDS = 4.0


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


class TradeOutcomes:
    """What became of trades, as the answers to their payers."""

    def __init__(self, context: Context, contracts: AgentContracts, index: AgentIndex, receipts: Receipts) -> None:
        self._chain_id = contracts.chain_id
        self._primary = context.primary  # what is said of money must not be behind what was just written
        self._pool = context.pool
        self._watch = context.watch
        self._index = index
        self._receipts = receipts
        # How deep a block lies that nothing undoes, where the node does not say.
        self._finality_blocks = context.settings.chain("base").finality_blocks

    async def before(self, trade: TradeRequest, key_hash: bytes) -> PastTrade:
        """What the idempotency key did before, whatever it is asked for now."""
        async with background_task(self.paid_under(trade, key_hash)) as paid:  # most keys are new: both are read
            async with storage("The trade records"), self._primary.connect() as connection:
                landed = await _read_landed(connection, trade.wallet, key_hash)
            return await paid if landed is None else PastTrade(landed)

    async def paid_under(self, trade: TradeRequest, key_hash: bytes) -> PastTrade:
        wallet = bytes_of(trade.wallet)
        async with storage("The trade records"), self._pool.connection() as connection:
            booked = await store.find_trade(connection, wallet, key_hash)
            return PastTrade(None, booked, await store.nonces_of(connection, wallet, key_hash))

    async def repeated(
        self, trade: TradeRequest, intent: Intent, kit: dict[str, Any] | None = None
    ) -> web.StreamResponse:
        """The answer to a call whose key is already on its way."""
        return await self.answered(trade, intent, kit, replay=True, seconds=SAME_KEY_WAIT_SECONDS)

    async def settled_soon(self, trade: TradeRequest, block: int) -> web.StreamResponse:
        """The receipt of what is on chain, which the index is about to show."""
        await self._index.reached(block, INDEX_WAIT_SECONDS)
        return await self._receipt_if_landed(trade, None)

    async def first_news(self, trade: TradeRequest, intent: Intent, seconds: float) -> tuple[Intent, LandedBet | None]:
        """The stake once the index shows it, or the intent once the relayer knows that there will be none.

        Of a success both are news, and the receipt is made of the stake: who hears it of the relayer first waits for
        the index. What was known before stands when neither can be read.
        """
        reported = asyncio.create_task(self._watch.wait(intent.id, HAS_RESULT, timeout_seconds=seconds))
        seen = asyncio.create_task(self._staked(trade))
        try:
            await asyncio.wait((reported, seen), timeout=seconds + 1, return_when=asyncio.FIRST_COMPLETED)
            if reported.done() and not seen.done():
                with contextlib.suppress(*DATABASE_ERRORS):
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
            with contextlib.suppress(*DATABASE_ERRORS):
                async with self._primary.connect() as connection:
                    landed = await _read_landed(connection, trade.wallet, key_hash)
                if landed is not None:
                    await self._index.reached(landed.stake.block, None)
                    if await self._index.markets((landed.stake.market_key,)):
                        return landed
            await stirred.wait()

    async def answered(
        self, trade: TradeRequest, intent: Intent, kit: dict[str, Any] | None, *, replay: bool, seconds: float
    ) -> web.StreamResponse:
        """Waits for the chain's answer as long as there is time, and says what is known then.

        That the bet is refused for good is not known here: the next call finds the attempt over, and asks the chain.
        """
        if seconds > 0:
            intent, landed = await self.first_news(trade, intent, seconds)
            if landed is not None:
                return await self.receipt(trade, landed, replay=replay, kit=kit)
        if intent.succeeded:
            return await self._receipt_if_landed(trade, intent.tx_hash_hex, replay=replay, kit=kit)
        if intent.refused or intent.outcome in (MinedOutcome.REVERTED, MinedOutcome.CANCELLED) or intent.state.ended:
            refusal = trade_refusals.refused(intent, kit)
            raise refusal if refusal.code in RETRIABLE else trade_refusals.settling(kit, intent.tx_hash_hex)
        if intent.tx_hash_hex is not None and not replay:
            raise _unknown(intent.tx_hash_hex, kit)
        raise trade_refusals.settling(kit, intent.tx_hash_hex, is_on_its_way=True)

    async def after_all(
        self, refusal: Problem, trade: TradeRequest, market: ListedMarket, key_hash: bytes
    ) -> web.StreamResponse:
        """The receipt of a bet that landed while it was looked at: what refuses it may be what it did itself, in a
        block that the index has and the node that was asked does not. Else the refusal, and that it is not for good
        while an attempt to settle the bet may still do so."""
        if refusal.code == "idem_conflict" or refusal.extra.get("moneyMoved"):
            raise refusal  # of another bet than was sent; of what the payment did
        landed, may_settle = None, True
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._primary.connect() as connection:
                landed = await _read_landed(connection, trade.wallet, key_hash)
                may_settle = await self.may_settle(
                    connection, trade, key_hash, or_is_on_its_way=refusal.code not in RETRIABLE
                )
        except DATABASE_ERRORS as error:
            log.warning("whether a refusal is final cannot be read", action="agent.no_database", why=error)
        if landed is not None:
            return await self.receipt(trade, landed, replay=True, named=market)
        raise for_now(refusal, "The same request tells.") if may_settle else refusal

    async def may_settle(
        self,
        connection: AsyncConnection,
        trade: TradeRequest,
        key_hash: bytes,
        *,
        or_is_on_its_way: bool,
    ) -> bool:
        made, latest = await read_attempts(connection, trade.wallet, key_hash)
        keys = [intent_key(self._chain_id, trade.wallet, key_hash, each) for each in range(1, made + 1)]
        # The keeper's attempts have keys of its own; the latest of a trade is the one it names.
        return await may_land(connection, [*keys, *latest], self._finality_blocks, or_is_on_its_way=or_is_on_its_way)

    async def _receipt_if_landed(
        self, trade: TradeRequest, tx_hash: str | None, *, replay: bool = True, kit: dict[str, Any] | None = None
    ) -> web.StreamResponse:
        """The receipt of what is on chain, if the index shows it."""
        landed = None
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._primary.connect() as connection:
                landed = await _read_landed(connection, trade.wallet, idem_hash(trade.idem_key))
        except DATABASE_ERRORS as error:
            log.warning("a settled trade cannot be read", action="agent.no_database", why=error)
        if landed is None:
            raise _unknown(tx_hash, kit) if tx_hash is not None else trade_refusals.settling(kit)
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
        """The receipt of what settled under the key; 409 when that was another trade than the one asked for. `named`:
        the market that was, once it is known."""
        stake = landed.stake
        named = await self._index.market(trade.market_id) if named is None else named
        if named is not None and not _same(trade, named, stake):
            raise trade_refusals.conflict(trade.idem_key)
        market = (await self._index.markets((stake.market_key,)))[stake.market_key]
        return self._receipts.settled(market, stake, landed.totals, replay=replay, kit=kit)


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


def intent_key(chain_id: int, wallet: str, key_hash: bytes, attempt: int) -> str:
    return f"agent:{chain_id}:{wallet}:{key_hash.hex()}:{attempt}"


def _unknown(tx_hash: str, kit: dict[str, Any] | None) -> Problem:
    """The refusal, counted: somebody is woken by it."""
    UNKNOWN.inc()
    return trade_refusals.unknown(tx_hash, kit)
