"""Price locks and accepted payments, in PostgreSQL."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from api.agent.errors import problem
from api.agent.notices.endpoints import add_callback
from api.agent.trade import refusals as trade_refusals
from api.payments.funds import Funds, PendingSpends
from core.agent.bet import ZERO_ADDRESS, Bet
from core.db.engine import Connection
from core.hexadecimal import bytes_of, hex_of
from core.outbox import Intent, IntentRequest, enqueue, read

LOCK_SECONDS = 60
GUARD_SECONDS = 60
MAX_NONCES = 8

_PENDING_SPENDS = PendingSpends(b"SELECT wallet, nonce, amount, intent_id, created_at FROM agent_trade")


@dataclass(frozen=True, slots=True)
class Lock:
    """A stored price lock. `expired`: by the database's clock."""

    market_key: bytes
    outcome: int
    amount: int
    expired: bool
    wallet: bytes | None
    idem_hash: bytes | None


@dataclass(frozen=True, slots=True)
class KnownTrade:
    """The last accepted payment of a key, and its intent."""

    market_key: bytes
    outcome: int
    amount: int
    builder: str
    attempt: int
    intent: Intent


def new_quote_id() -> str:
    return f"q_{secrets.token_hex(16)}"


async def save_lock(
    connection: Connection, quote_id: str, market_key: bytes, outcome: int, amount: int, seconds: int
) -> datetime:
    """Store a lock for `seconds` and return when it expires."""
    cursor = await connection.execute(
        "INSERT INTO agent_quote (quote_id, market_id, outcome, amount, expires_at) "
        "VALUES (%s, %s, %s, %s, now() + make_interval(secs => %s)) RETURNING expires_at",
        (quote_id, market_key, outcome, amount, seconds),
    )
    row = await cursor.fetchone()
    assert row is not None
    expires_at: datetime = row[0]
    return expires_at


async def find_lock(connection: Connection, quote_id: str) -> Lock | None:
    cursor = await connection.execute(
        "SELECT market_id, outcome, amount, expires_at <= now(), wallet, idem_hash "
        "FROM agent_quote WHERE quote_id = %s",
        (quote_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Lock(row[0], row[1], int(row[2]), *row[3:])


async def find_trade(connection: Connection, wallet: bytes, idem_hash: bytes) -> KnownTrade | None:
    cursor = await connection.execute(
        "SELECT market_id, outcome, amount, builder, attempt, intent_id "
        "FROM agent_trade WHERE wallet = %s AND idem_hash = %s",
        (wallet, idem_hash),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    intent = await read(connection, row[5])
    assert intent is not None  # intents are never deleted
    builder = ZERO_ADDRESS if row[3] is None else hex_of(row[3])
    return KnownTrade(row[0], row[1], int(row[2]), builder, row[4], intent)


async def read_nonces(connection: Connection, wallet: bytes, idem_hash: bytes) -> tuple[bytes, ...]:
    """Return the nonces of all authorizations sent under a key, newest first: each may have been used."""
    cursor = await connection.execute(
        "SELECT nonce FROM agent_authorization WHERE wallet = %s AND idem_hash = %s ORDER BY brought_at DESC LIMIT %s",
        (wallet, idem_hash, MAX_NONCES),
    )
    return tuple(row[0] for row in await cursor.fetchall())


async def check_duplicate(connection: Connection, trade: Bet) -> None:
    """Refuse a trade while the same one under another key, begun within a minute, is not known to have ended. The index
    may show its stake before the relayer has recorded that its transaction was mined."""
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


class AttemptTaken(Exception):
    """Another call has already made this attempt."""


async def bet_of_authorization(connection: Connection, wallet: bytes, nonce: bytes) -> bytes | None:
    """Return the hash of the bet an authorization was first sent for, or None."""
    cursor = await connection.execute(
        "SELECT bet_hash FROM agent_authorization WHERE wallet = %s AND nonce = %s", (wallet, nonce)
    )
    row = await cursor.fetchone()
    return None if row is None else row[0]


@dataclass(frozen=True, slots=True)
class SignedBet:
    """A bet and the payment its payer signed for it. `arguments`: both, encoded for `settle` and `credit`."""

    bet: Bet
    bet_hash: bytes
    nonce: bytes
    arguments: bytes

    @property
    def wallet(self) -> bytes:
        return bytes_of(self.bet.wallet)


async def record_authorization(connection: Connection, brought: SignedBet, callback_url: str | None) -> None:
    """Record which bet an authorization pays for; refuse it if that was another bet before.

    A failed transaction makes its authorization public, so it pays for the bet it was first sent for, or nothing. And
    if its payment reaches the contract without us, the keeper books it by this row alone.
    """
    bet = brought.bet
    await connection.execute(
        "INSERT INTO agent_authorization (wallet, nonce, bet_hash, idem_hash, amount, arguments) "
        "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (brought.wallet, brought.nonce, brought.bet_hash, bet.idem_hash, bet.amount, brought.arguments),
    )
    if await bet_of_authorization(connection, brought.wallet, brought.nonce) != brought.bet_hash:
        raise trade_refusals.authorization_taken()
    if callback_url is not None:
        await add_callback(connection, brought.wallet, brought.bet_hash, callback_url)


async def take_in(
    connection: Connection,
    brought: SignedBet,
    request: IntentRequest,
    *,
    after_attempt: int,
    funds: Funds,
    quote_id: str | None,
    callback_url: str | None,
) -> Intent:
    """Record the payment and enqueue its transaction, in the caller's database transaction. Raises AttemptTaken if
    another call has made this attempt. `funds`: the wallet's balance."""
    trade, wallet = brought.bet, brought.wallet
    # One wallet's payments are accepted one at a time: the checks below hold until the insert commits.
    await _PENDING_SPENDS.lock_wallet(connection, request.chain_id, wallet)
    booked = await find_trade(connection, wallet, trade.idem_hash)
    if (0 if booked is None else booked.attempt) != after_attempt:
        raise AttemptTaken
    await record_authorization(connection, brought, callback_url)
    await check_duplicate(connection, trade)
    await _PENDING_SPENDS.check(
        connection, funds, chain_id=request.chain_id, wallet=wallet, nonce=brought.nonce, amount=trade.amount
    )
    if quote_id is not None:
        cursor = await connection.execute(
            "UPDATE agent_quote SET wallet = %s, idem_hash = %s WHERE quote_id = %s "
            "AND (wallet IS NULL OR (wallet = %s AND idem_hash = %s)) RETURNING quote_id",
            (wallet, trade.idem_hash, quote_id, wallet, trade.idem_hash),
        )
        if await cursor.fetchone() is None:
            raise problem("quote_mismatch", "The quote was used for another trade.")
    intent = await enqueue(connection, request)
    builder = None if trade.builder == ZERO_ADDRESS else bytes_of(trade.builder)
    await connection.execute(
        "INSERT INTO agent_trade (wallet, idem_hash, market_id, outcome, amount, builder, bet_hash, nonce, attempt, "
        "intent_id) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) ON CONFLICT (wallet, idem_hash) DO UPDATE SET "
        "bet_hash = excluded.bet_hash, nonce = excluded.nonce, attempt = excluded.attempt, "
        "intent_id = excluded.intent_id, created_at = now()",
        (
            wallet,
            trade.idem_hash,
            trade.market_id,
            trade.outcome,
            trade.amount,
            builder,
            brought.bet_hash,
            brought.nonce,
            after_attempt + 1,
            intent.id,
        ),
    )
    return intent
