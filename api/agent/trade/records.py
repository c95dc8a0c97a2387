"""The records of trades: their payments and attempts, and what the chain and the index show about them.

A trade has landed when the index shows its stake, or its payment to refund, no matter who sent it. While a payment may
still be collected, no response asks for another one. The token may report a payment as used although its key has
settled nothing. Someone else has then sent the payment to the contract. As soon as the payment's block is final, the
keeper books the payment for its bet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from aiohttp import web

from api.agent.chain import AgentContracts, PaymentFacts
from api.agent.errors import free_connection, storage
from api.agent.facts import Arrival, BookTotals, ListedMarket, Stake, key_from_name
from api.agent.index import AgentIndex
from api.agent.notices.endpoints import add_callback
from api.agent.requests import TradeRequest
from api.agent.rows import STAKE_COLUMNS, read_arrival, read_by_nonce, stake_of
from api.agent.trade import refusals as trade_refusals
from api.agent.trade.answers import TradeAnswers
from api.agent.trade.orders import use_lock
from api.agent.trade.x402 import form_of
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

# The stake of a key, with each outcome's totals right after it: the current totals minus those of the later stakes. So
# the totals are always the same, and for a new stake none of the market's past is read. A second payment of a key is
# refunded; the key's stake comes before it.
_LANDED = f"""
SELECT {", ".join(f"s.{name}" for name in STAKE_COLUMNS)}, (
    SELECT array_agg(ARRAY[o.outcome, o.net - l.net, o.shares - l.shares, o.excess - l.excess, o.stakes - l.stakes])
    FROM agent_outcome o CROSS JOIN LATERAL (
        SELECT coalesce(sum(amount - fee), 0) AS net, coalesce(sum(shares), 0) AS shares,
            coalesce(sum(greatest(shares - (amount - fee), 0)), 0) AS excess, count(*) AS stakes
        FROM agent_stake WHERE market_id = o.market_id AND outcome = o.outcome AND ordinal > s.ordinal
    ) l WHERE o.market_id = s.market_id AND s.outcome IS NOT NULL
) AS totals
FROM agent_stake s WHERE s.wallet = %(wallet)s AND s.idem_hash = %(idem_hash)s ORDER BY s.outcome IS NULL LIMIT 1
"""  # noqa: S608 - constants only
# The same trade under another key that began within the last minute and is not known to have ended. The index may show
# its stake before the relayer has recorded that its transaction was mined.
_DUPLICATE = f"""(
    SELECT t.bet_hash FROM agent_trade t JOIN outbox_intent i ON i.id = t.intent_id
    WHERE t.wallet = %(wallet)s AND t.market_id = %(market_id)s AND t.outcome = %(outcome)s AND t.amount = %(amount)s
        AND t.idem_hash <> %(idem_hash)s AND t.created_at > now() - interval '{GUARD_SECONDS} seconds'
        AND i.state IN ('queued', 'signed', 'sent')
        AND NOT EXISTS (SELECT 1 FROM agent_stake s WHERE s.wallet = t.wallet AND s.idem_hash = t.idem_hash) LIMIT 1
)"""  # noqa: S608 - constants only
_PREVIOUS = f"""
SELECT s.*, ARRAY(SELECT nonce FROM agent_authorization WHERE wallet = %(wallet)s AND idem_hash = %(idem_hash)s
        ORDER BY brought_at DESC LIMIT {MAX_NONCES}),
    (SELECT bet_hash FROM agent_authorization WHERE wallet = %(wallet)s AND nonce = %(nonce)s),
    {_DUPLICATE}, {ATTEMPTS.columns}
FROM (VALUES (%(wallet)s::bytea, %(idem_hash)s::bytea)) AS k (wallet, idem_hash) LEFT JOIN LATERAL ({_LANDED}) s ON true
LEFT JOIN agent_trade b ON b.wallet = k.wallet AND b.idem_hash = k.idem_hash
LEFT JOIN outbox_intent i ON i.id = b.intent_id
"""  # noqa: S608 - constants only
# The update changes nothing; it returns the row that was there before.
_RECORD = f"""
INSERT INTO agent_authorization AS known (wallet, nonce, bet_hash, idem_hash, amount, arguments)
VALUES (%(wallet)s, %(nonce)s, %(bet_hash)s, %(idem_hash)s, %(amount)s, %(arguments)s)
ON CONFLICT (wallet, nonce) DO UPDATE SET bet_hash = known.bet_hash RETURNING bet_hash, {_DUPLICATE}
"""  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class LandedBet:
    """The stake that settled under a key, and the outcomes' totals right after it (None for a payment to refund)."""

    stake: Stake
    totals: BookTotals | None


@dataclass(frozen=True, slots=True)
class PreviousTrade:
    """The result of earlier calls with a key: the settled stake or, without one, the last attempt. `nonces`: the newest
    authorizations, any of which may have been used. `paid_for`: the hash of the bet that this call's payment was first
    sent for, if it was sent before. `duplicate`: the hash of the same bet in flight under another key."""

    landed: LandedBet | None = None
    nonces: tuple[bytes, ...] = ()
    paid_for: bytes | None = None
    duplicate: bytes | None = None
    attempt: Attempt | None = None

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
    """Raise 409 if the key's last accepted payment was for a different trade."""
    builder = None if trade.builder is None else bytes_of(trade.builder)
    bet = (market.key, market.outcome(trade.side), trade.size, builder)
    if attempt is not None and attempt.details != bet:
        raise trade_refusals.conflict(trade.idem_key)


class TradeOutcomes:
    def __init__(self, context: Context, contracts: AgentContracts, index: AgentIndex, answers: TradeAnswers) -> None:
        self._contracts = contracts
        self._primary = context.primary  # answers about money must include what was just written
        self._pool = context.pool
        self._index = index
        # The depth of a final block, for nodes that do not report finality.
        self._finality_blocks = context.settings.chain("base").finality_blocks
        self._answers = answers

    async def previous(
        self, trade: TradeRequest, key: BetKey, payment: Authorization | None, market: ListedMarket | None
    ) -> PreviousTrade:
        values = {
            **key.values,
            "nonce": None if payment is None else payment.nonce,
            "market_id": None if market is None else market.key,
            "outcome": None if market is None else market.outcome(trade.side),
            "amount": trade.size,
        }
        async with storage("The trade records"), free_connection(self._pool) as connection:
            row = await connection.fetch_one(_PREVIOUS.encode(), values, prepare=True)
        assert row is not None
        nonces, paid_for, duplicate, *attempt = row[len(STAKE_COLUMNS) + 1 :]
        if (landed := _landed_of(row)) is not None:
            return PreviousTrade(landed, paid_for=paid_for)
        return PreviousTrade(None, tuple(nonces), paid_for, duplicate, ATTEMPTS.from_row(attempt))

    async def landed(self, trade: TradeRequest) -> LandedBet | None:
        """Return the stake or refund that the index shows under the key; None if the index cannot be read."""
        key = {"wallet": bytes_of(trade.wallet), "idem_hash": idem_hash(trade.idem_key)}
        try:
            async with asyncio.timeout(INDEX_WAIT_SECONDS), self._pool.connection() as connection:
                row = await connection.fetch_one(_LANDED.encode(), key, prepare=True)
        except DATABASE_ERRORS as error:
            log.warning("failed to read a settled trade", action="agent.no_database", why=error)
            return None
        return None if row is None else _landed_of(row)

    async def wait_for_receipt(
        self,
        trade: TradeRequest,
        block: int,
        *,
        tx_hash: str | None = None,
        replay: bool = True,
        kit: Mapping[str, Any] | None = None,
    ) -> web.StreamResponse:
        """Wait until the index has the stake's block, then respond with the receipt. If the stake does not appear in
        time, report an unknown outcome."""
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
        """Respond with a stake's receipt; raise 409 if the stake is from a different trade. `named`: the request's
        market, if known."""
        stake = landed.stake
        named = await self._index.market(trade.market_id) if named is None else named
        if named is not None and not _same(trade, named, stake):
            raise trade_refusals.conflict(trade.idem_key)
        market = (await self._index.markets((stake.market_key,)))[stake.market_key]
        return self._answers.settled(market, stake, landed.totals, replay=replay, kit=kit)

    async def account_for(self, wallet: str, amount: int, nonces: tuple[bytes, ...], facts: PaymentFacts) -> None:
        """Account for earlier payments. Return if all the used ones were cancelled; otherwise raise a refusal that
        reports the outcome."""
        for nonce in nonces:
            if facts.was_used_elsewhere(nonce):
                arrival, is_final = await self._read(wallet, nonce, facts.block)
                if arrival is None or not arrival.cancelled:
                    self._refuse(arrival, amount, is_final=is_final)

    async def used(self, payment: Authorization, amount: int, facts: PaymentFacts, *, fault: str | None) -> Stake:
        """Return the stake that a used authorization was booked as. If there is none, raise a refusal that reports the
        outcome."""
        if payment.nonce in facts.booked:
            return await self._booked(payment, facts.block)
        arrival, is_final = await self._read(payment.payer, payment.nonce, facts.block)
        if arrival is not None and arrival.value is not None and form_of(payment) is Form.RECEIVE:
            # Only the contract takes it in this form, and books it in the same call: in a block after the one read.
            return await self._booked(payment, arrival.block)
        if arrival is not None and arrival.cancelled:
            raise trade_refusals.cancelled(arrival.tx)
        if fault is not None and is_final and arrival is not None and arrival.value is not None:
            raise trade_refusals.other_use(fault, arrival.tx)
        self._refuse(arrival, amount, is_final=is_final)

    def _refuse(self, arrival: Arrival | None, amount: int, *, is_final: bool) -> NoReturn:
        """Refuse a used payment that the index does not show as cancelled. The index has only payments to the
        settlement contract."""
        if arrival is None:
            raise trade_refusals.payment_not_indexed()
        if arrival.value is None:
            raise trade_refusals.unpaired(arrival.tx)
        if is_final and arrival.value != amount:
            raise trade_refusals.other_amount(arrival.value, amount, arrival.tx)
        raise trade_refusals.not_booked_yet(arrival.value, arrival.tx)

    async def _booked(self, payment: Authorization, block: int) -> Stake:
        """Wait for the index, then return the stake that an authorization was booked as."""
        await self._index.wait_for_block(block, INDEX_WAIT_SECONDS)
        async with storage("The payment records"), self._primary.connect() as connection:
            stake = await read_by_nonce(connection, payment.payer, payment.nonce)
        if stake is None:
            raise trade_refusals.payment_not_indexed()
        return stake

    async def _read(self, payer: str, nonce: bytes, block: int) -> tuple[Arrival | None, bool]:
        """Return an authorization's state in the index at `block`, and whether the state is final."""
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


def _landed_of(row: Sequence[Any]) -> LandedBet | None:
    *stake, totals = row[: len(STAKE_COLUMNS) + 1]
    if stake[0] is None:
        return None
    by_outcome = {
        int(outcome): (int(net), int(shares), int(excess), int(bets))
        for outcome, net, shares, excess, bets in totals or ()
    }
    return LandedBet(stake_of(stake), by_outcome or None)


def bet_key(chain_id: int, wallet: str, idem_hash: bytes) -> BetKey:
    return BetKey({"wallet": bytes_of(wallet), "idem_hash": idem_hash}, f"agent:{chain_id}:{wallet}:{idem_hash.hex()}")


async def record_authorization(
    connection: Connection, bet: Bet, bet_hash: bytes, signed: SignedCall, callback_url: str | None
) -> bytes | None:
    """Record which bet an authorization pays for. Refuse the authorization if it was recorded for another bet before.
    Return the hash of the same bet in flight under another key, or None.

    A failed transaction makes its authorization public, so the authorization pays for the bet it was first sent for, or
    for nothing. If someone else sends the payment to the contract, this row alone tells the keeper how to book it.
    """
    values: dict[str, Any] = {
        **asdict(bet),
        "wallet": bytes_of(bet.wallet),
        "nonce": signed.authorization.nonce,
        "bet_hash": bet_hash,
        "arguments": signed.call.data[4:],  # what follows the selector is the same for `settle` and `credit`
    }
    row = await connection.fetch_one(_RECORD.encode(), values, prepare=True)
    assert row is not None
    recorded_for: bytes = row[0]
    duplicate: bytes | None = row[1]
    if recorded_for != bet_hash:
        raise trade_refusals.authorization_taken()
    if callback_url is not None:
        await add_callback(connection, values["wallet"], bet_hash, callback_url)
    return duplicate


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
        duplicate = await record_authorization(connection, bet, bet_hash, signed, callback_url)
        if duplicate is not None:
            raise trade_refusals.duplicate_in_flight(duplicate)
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
