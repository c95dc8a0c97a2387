"""The records of trades. They hold the payments and attempts, and turn what the chain and the index show into answers.

A trade is accepted once its payment is recorded. It has landed once the index shows its result, no matter who sent it:
a stake, or a payment to refund. The receipt of a landed trade calls it settled, which is the specification's term.
While a payment may still be taken, no answer asks for another one: the answer is the receipt, or says that the outcome
is not known yet.

If the token reports a payment as used while its key has settled nothing, the payment reached the contract without us.
The keeper books the payment, from a final block, for the bet it was sent for. This module reports that outcome to the
payer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from api.agent.chain import AgentContracts, PaymentFacts
from api.agent.facts import Arrival, ArrivalState, BookTotals, ListedMarket, Stake, key_from_name
from api.agent.index import AgentIndex
from api.agent.notices.endpoints import add_callback
from api.agent.requests import TradeRequest
from api.agent.rows import read_arrival, read_by_key, read_by_nonce, read_totals
from api.agent.storage import free_connection, storage
from api.agent.trade import refusals as trade_refusals
from api.agent.trade.answers import TradeAnswers
from api.agent.trade.orders import use_lock
from api.agent.trade.payment import form_of
from api.context import Context
from api.database import DATABASE_ERRORS
from api.payments.attempts import Attempt, Attempts, BetKey, Funds
from api.payments.authorization import Authorization, SignedCall
from api.payments.pipeline import read_final_block
from core.agent.bet import ZERO_ADDRESS, Bet, idem_hash
from core.contracts.statuses import Form, RefundReason
from core.db.engine import Connection
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger

log = get_logger(__name__)

INDEX_WAIT_SECONDS = 5.0
# How long the same bet under another key is refused while the first is in flight.
GUARD_SECONDS = 60
MAX_NONCES = 8

ATTEMPTS = Attempts(
    "agent_trade",
    ("wallet", "idem_hash"),
    payer="wallet",
    asked_at="created_at",
    details=("market_id", "outcome", "amount", "builder"),
    key_is_bet=False,
)

_PREVIOUS = f"""
SELECT ARRAY(SELECT nonce FROM agent_authorization WHERE wallet = %(wallet)s AND idem_hash = %(idem_hash)s
        ORDER BY brought_at DESC LIMIT {MAX_NONCES}),
    (SELECT bet_hash FROM agent_authorization WHERE wallet = %(wallet)s AND nonce = %(nonce)s),
    {ATTEMPTS.columns}
FROM (VALUES (%(wallet)s::bytea, %(idem_hash)s::bytea)) AS k (wallet, idem_hash)
LEFT JOIN agent_trade b USING (wallet, idem_hash) LEFT JOIN outbox_intent i ON i.id = b.intent_id
"""  # noqa: S608 - constants only
# The update changes nothing; it returns the row that was there before.
_RECORD = b"""
INSERT INTO agent_authorization AS known (wallet, nonce, bet_hash, idem_hash, amount, arguments)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (wallet, nonce) DO UPDATE SET bet_hash = known.bet_hash RETURNING bet_hash
"""


@dataclass(frozen=True, slots=True)
class LandedBet:
    """The stake that settled under a key. `totals`: the totals of each outcome right after the stake, or None for a
    payment to refund."""

    stake: Stake
    totals: BookTotals | None


@dataclass(frozen=True, slots=True)
class PreviousTrade:
    """The earlier calls of a key: the stake that settled under it, or else its last attempt and the nonces of all its
    authorizations. `paid_for`: the bet that the payment of this call was first sent for, or None if the payment was not
    sent before."""

    landed: LandedBet | None
    attempt: Attempt | None = None
    nonces: tuple[bytes, ...] = ()
    paid_for: bytes | None = None

    @property
    def attempts(self) -> int:
        return 0 if self.attempt is None else self.attempt.number

    @property
    def in_flight(self) -> bool:
        return self.attempt is not None and self.attempt.intent.may_land

    @property
    def tx_hash(self) -> str | None:
        if self.landed is not None:
            return hex_of(self.landed.stake.tx)
        return None if self.attempt is None else self.attempt.intent.tx_hash_hex

    def is_for(self, market_id: str) -> bool:
        """Return whether the earlier calls bet on the market with this id."""
        if self.landed is not None:
            return self.landed.stake.market_key == key_from_name(market_id)
        return self.attempt is not None and self.attempt.details[0] == key_from_name(market_id)


def check_same(attempt: Attempt | None, trade: TradeRequest, market: ListedMarket) -> None:
    """Raise 409 if the last accepted payment of the key was for a different trade."""
    builder = None if trade.builder is None else bytes_of(trade.builder)
    bet = (market.key, market.outcome(trade.side), trade.size, builder)
    if attempt is not None and attempt.details != bet:
        raise trade_refusals.conflict(trade.idem_key)


class TradeOutcomes:
    """The outcomes of trades, as the answers to their payers."""

    def __init__(
        self,
        context: Context,
        contracts: AgentContracts,
        index: AgentIndex,
        answers: TradeAnswers,
    ) -> None:
        self._contracts = contracts
        self._primary = context.primary  # answers about money must include what was just written
        self._pool = context.pool
        self._index = index
        # The depth of a final block, for nodes that do not report finality.
        self._finality_blocks = context.settings.chain("base").finality_blocks
        self._answers = answers

    async def previous(self, trade: TradeRequest, key: BetKey, payment: Authorization | None) -> PreviousTrade:
        """Return the earlier calls of the key, even if this request is for another bet."""
        async with storage("The trade records"), self._primary.connect() as connection:
            landed = await _read_landed(connection, trade)
        if landed is not None:
            return PreviousTrade(landed)
        async with storage("The trade records"), free_connection(self._pool) as connection:
            nonce = None if payment is None else payment.nonce
            return PreviousTrade(None, *await read_previous(connection, key, nonce))

    async def landed(self, trade: TradeRequest) -> LandedBet | None:
        """Return the stake or refund that the index shows under the key. Return None if there is none or if the index
        cannot be read."""
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._primary.connect() as connection:
                return await _read_landed(connection, trade)
        except DATABASE_ERRORS as error:
            log.warning("failed to read a settled trade", action="agent.no_database", why=error)
            return None

    async def wait_for_receipt(
        self,
        trade: TradeRequest,
        block: int,
        *,
        tx_hash: str | None = None,
        replay: bool = True,
        kit: Mapping[str, Any] | None = None,
    ) -> web.StreamResponse:
        """Wait until the index has `block`, since which the stake is on the chain, and answer with the receipt. Refuse
        as not known yet if the index does not show the stake in time."""
        await self._index.wait_for_block(block, INDEX_WAIT_SECONDS)
        landed = await self.landed(trade)
        if landed is None:
            raise trade_refusals.settling() if tx_hash is None else trade_refusals.unknown(tx_hash)
        return await self.receipt(trade, landed, replay=replay, kit=kit)

    async def receipt(
        self,
        trade: TradeRequest,
        landed: LandedBet,
        *,
        replay: bool,
        kit: Mapping[str, Any] | None = None,
        named: ListedMarket | None = None,
    ) -> web.Response:
        """Answer with the receipt of the stake that settled under the key; raise 409 if the stake was a different
        trade. `named`: the request's market, if already known."""
        stake = landed.stake
        named = await self._index.market(trade.market_id) if named is None else named
        if named is not None and not _same(trade, named, stake):
            raise trade_refusals.conflict(trade.idem_key)
        market = (await self._index.markets((stake.market_key,)))[stake.market_key]
        return self._answers.settled(market, stake, landed.totals, replay=replay, kit=kit)

    # ------------------------------------------------------------ payments that reached the contract without us

    async def account_for(self, wallet: str, amount: int, nonces: tuple[bytes, ...], facts: PaymentFacts) -> None:
        """Raise the outcome of an earlier payment of this key that was used since. If all earlier payments were
        cancelled, raise nothing, so that the caller may ask for another payment."""
        for nonce in nonces:
            if facts.was_used_elsewhere(nonce):
                arrival, is_final = await self._read(wallet, nonce, facts.block)
                if arrival is None or arrival.state is not ArrivalState.CANCELED:
                    self._refuse(arrival, amount, is_final=is_final)

    async def used(self, payment: Authorization, amount: int, facts: PaymentFacts, *, fault: str | None) -> Stake:
        """Return the stake that a used authorization was booked as. If it was not booked, raise its outcome. `fault`:
        why the authorization does not pay for this bet of `amount`."""
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
        """Raise the refusal for a payment that was not cancelled, from what the index shows. The index holds only
        payments to us."""
        if arrival is None:
            raise trade_refusals.payment_not_indexed()
        if arrival.value is None:
            raise trade_refusals.unpaired(arrival.tx)
        if is_final and arrival.value != amount:
            raise trade_refusals.other_amount(arrival.value, amount, arrival.tx)
        raise trade_refusals.not_booked_yet(arrival.value, arrival.tx)

    async def _booked(self, payment: Authorization, block: int) -> Stake:
        """Wait until the index shows the stake of a booked authorization, and return the stake."""
        await self._index.wait_for_block(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            stake = await read_by_nonce(connection, payment.payer, payment.nonce)
        if stake is None:
            raise trade_refusals.payment_not_indexed()
        return stake

    async def _read(self, payer: str, nonce: bytes, block: int) -> tuple[Arrival | None, bool]:
        """Wait until the index has this block. Return the state of an authorization in the index, and whether the state
        is final."""
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
    # A payment to refund has no side.
    return stake.outcome is None or (named.outcome(trade.side), trade.builder) == (stake.outcome, stake.builder)


async def _read_landed(connection: AsyncConnection, trade: TradeRequest) -> LandedBet | None:
    stake = await read_by_key(connection, trade.wallet, idem_hash(trade.idem_key))
    return None if stake is None else LandedBet(stake, await read_totals(connection, stake))


# ---------------------------------------------------------------- accepted payments


def bet_key(chain_id: int, wallet: str, idem_hash: bytes) -> BetKey:
    """Return the bet key in the table `agent_trade` for a wallet's idempotency key."""
    return BetKey({"wallet": bytes_of(wallet), "idem_hash": idem_hash}, f"agent:{chain_id}:{wallet}:{idem_hash.hex()}")


async def read_previous(
    connection: Connection, key: BetKey, nonce: bytes | None
) -> tuple[Attempt | None, tuple[bytes, ...], bytes | None]:
    """Return the last attempt of a key, the nonces of all authorizations sent under the key, and the bet that pays with
    `nonce`.

    The nonces are sorted newest first; all are returned, since each authorization may have been used. The last value is
    the hash of the bet that the authorization with `nonce` was first sent for, or None.
    """
    row = await connection.fetch_one(_PREVIOUS.encode(), {**key.values, "nonce": nonce}, prepare=True)
    assert row is not None
    nonces, paid_for, *attempt = row
    return ATTEMPTS.from_row(attempt), tuple(nonces), paid_for


async def check_duplicate(connection: Connection, trade: Bet) -> None:
    """Refuse a trade if the same trade began under another key within the last minute and is not known to have ended.
    The index may show the stake of that other trade before the relayer has recorded that its transaction was mined."""
    cursor = await connection.execute(
        "SELECT t.bet_hash FROM agent_trade t JOIN outbox_intent i ON i.id = t.intent_id "
        "WHERE t.wallet = %s AND t.market_id = %s AND t.outcome = %s AND t.amount = %s AND t.idem_hash <> %s "
        "AND t.created_at > now() - make_interval(secs => %s) AND i.state IN ('queued', 'signed', 'sent') "
        "AND NOT EXISTS (SELECT 1 FROM agent_stake s WHERE s.wallet = t.wallet AND s.idem_hash = t.idem_hash) LIMIT 1",
        (
            bytes_of(trade.wallet),
            trade.market_id,
            trade.outcome,
            trade.amount,
            trade.idem_hash,
            GUARD_SECONDS,
        ),
    )
    row = await cursor.fetchone()
    if row is not None:
        raise trade_refusals.duplicate_in_flight(row[0])


async def record_authorization(
    connection: Connection, bet: Bet, bet_hash: bytes, signed: SignedCall, callback_url: str | None
) -> None:
    """Record which bet an authorization pays for. Refuse the authorization if it was recorded for another bet before.

    A failed transaction makes its authorization public, so the authorization pays for the bet it was first sent for, or
    for nothing. If the payment reaches the contract without us, the keeper books the payment by this row alone.
    """
    wallet = bytes_of(bet.wallet)
    arguments = signed.call.data[4:]  # what follows the selector is the same for `settle` and the keeper's `credit`
    values = (wallet, signed.authorization.nonce, bet_hash, bet.idem_hash, bet.amount, arguments)
    row = await connection.fetch_one(_RECORD, values, prepare=True)
    assert row is not None
    if row[0] != bet_hash:
        raise trade_refusals.authorization_taken()
    if callback_url is not None:
        await add_callback(connection, wallet, bet_hash, callback_url)


async def add_attempt(
    connection: Connection,
    key: BetKey,
    bet: Bet,
    bet_hash: bytes,
    signed: SignedCall,
    *,
    after: int,
    funds: Funds,
    quote_id: str | None,
    callback_url: str | None,
) -> Attempt:
    """Record the payment and enqueue its transaction, in the caller's database transaction; see `Attempts.add`."""

    async def check() -> None:
        await record_authorization(connection, bet, bet_hash, signed, callback_url)
        await check_duplicate(connection, bet)
        if quote_id is not None:
            await use_lock(connection, quote_id, bytes_of(bet.wallet), bet.idem_hash)

    row = {
        "market_id": bet.market_id,
        "outcome": bet.outcome,
        "amount": bet.amount,
        "builder": None if bet.builder == ZERO_ADDRESS else bytes_of(bet.builder),
        "bet_hash": bet_hash,
        "nonce": signed.authorization.nonce,
    }
    return await ATTEMPTS.add(connection, key, row, signed, after=after, funds=funds, check=check)
