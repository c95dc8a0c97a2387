"""Price locks and accepted payments, in PostgreSQL."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from api.agent.errors import problem
from api.agent.notices.endpoints import add_callback
from api.agent.trade import refusals as trade_refusals
from api.payments.attempts import Attempt, Attempts, BetKey, Funds
from api.payments.authorization import SignedCall
from core.agent.bet import ZERO_ADDRESS, Bet
from core.db.engine import Connection
from core.hexadecimal import bytes_of

LOCK_SECONDS = 60
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
class Lock:
    """A stored price lock. `expired`: by the database's clock."""

    market_key: bytes
    outcome: int
    amount: int
    expired: bool
    wallet: bytes | None
    idem_hash: bytes | None


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


def bet_key(chain_id: int, wallet: str, idem_hash: bytes) -> BetKey:
    """Return the key in `agent_trade` of a wallet's idempotency key."""
    return BetKey({"wallet": bytes_of(wallet), "idem_hash": idem_hash}, f"agent:{chain_id}:{wallet}:{idem_hash.hex()}")


async def read_previous(
    connection: Connection, key: BetKey, nonce: bytes | None
) -> tuple[Attempt | None, tuple[bytes, ...], bytes | None]:
    """Return the last attempt of a key; the nonces of all authorizations sent under it, newest first, since each may
    have been used; and the hash of the bet that the authorization of this nonce was first sent for, if any."""
    row = await connection.fetch_one(_PREVIOUS.encode(), {**key.values, "nonce": nonce}, prepare=True)
    assert row is not None
    nonces, paid_for, *attempt = row
    return ATTEMPTS.from_row(attempt), tuple(nonces), paid_for


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


async def record_authorization(
    connection: Connection, bet: Bet, bet_hash: bytes, signed: SignedCall, callback_url: str | None
) -> None:
    """Record which bet an authorization pays for; refuse it if that was another bet before.

    A failed transaction makes its authorization public, so it pays for the bet it was first sent for, or nothing. And
    if its payment reaches the contract without us, the keeper books it by this row alone.
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
            await _use_lock(connection, quote_id, bytes_of(bet.wallet), bet.idem_hash)

    row = {
        "market_id": bet.market_id,
        "outcome": bet.outcome,
        "amount": bet.amount,
        "builder": None if bet.builder == ZERO_ADDRESS else bytes_of(bet.builder),
        "bet_hash": bet_hash,
        "nonce": signed.authorization.nonce,
    }
    return await ATTEMPTS.add(connection, key, row, signed, after=after, funds=funds, check=check)


async def _use_lock(connection: Connection, quote_id: str, wallet: bytes, idem_hash: bytes) -> None:
    """Bind a price lock to a trade; refuse if it was used for another."""
    cursor = await connection.execute(
        "UPDATE agent_quote SET wallet = %s, idem_hash = %s WHERE quote_id = %s "
        "AND (wallet IS NULL OR (wallet = %s AND idem_hash = %s)) RETURNING quote_id",
        (wallet, idem_hash, quote_id, wallet, idem_hash),
    )
    if await cursor.fetchone() is None:
        raise problem("quote_mismatch", "The quote was used for another trade.")
