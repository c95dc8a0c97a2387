"""Relayed bets in the database: which transaction belongs to an authorization, and asking for a new one."""

from __future__ import annotations

from dataclasses import dataclass

from api.funds import Funds, Promises, Spend
from api.stock.relayed import BetKey, RelayedBet
from core.db.engine import Connection
from core.outbox import Intent, IntentConflict, enqueue, read


@dataclass(frozen=True, slots=True)
class KnownBet:
    """A bet the relay took in. `intent` is its last attempt as it stands, None where there was none yet; `landed` is
    the transaction in which it was found to have landed without us, which a fork may have undone since."""

    attempt: int
    intent: Intent | None
    landed: bytes | None
    was_told: bool

    @property
    def is_ours(self) -> bool:
        """It has landed, by our transaction."""
        return self.intent is not None and self.intent.succeeded

    @property
    def landed_in(self) -> bytes | None:
        """The transaction it has landed in."""
        return self.intent.tx_hash if self.intent is not None and self.is_ours else self.landed

    @property
    def may_land(self) -> bool:
        """It has landed, or its transaction may still."""
        if self.landed_in is not None:
            return True
        return self.intent is not None and not self.intent.state.ended and self.intent.outcome is None


async def find(connection: Connection, key: BetKey) -> KnownBet | None:
    cursor = await connection.execute(
        "SELECT attempt, intent_id, tx_hash, confirmed_told_at IS NOT NULL FROM relay_bet "
        "WHERE chain_id = %s AND signer = %s AND nonce = %s",
        (key.chain_id, key.signer, key.nonce),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    attempt, intent_id, landed, was_told = row
    intent = None if intent_id is None else await read(connection, intent_id)
    return KnownBet(attempt, intent, landed, was_told)


_PROMISES = Promises(b"SELECT signer, nonce, amount, intent_id, asked_at FROM relay_bet WHERE chain_id = %(chain_id)s")


async def ask(connection: Connection, relayed: RelayedBet, attempt: int, funds: Funds) -> KnownBet:
    """Asks for attempt number `attempt` in the caller's transaction; the bet as it stands then, also where
    somebody else asked first. `funds`: of its wallet; MoneyPromised when that is promised.

    One wallet's bets are asked for one after the other: of two askers one waits for the other's commit, then finds it.
    Another attempt is made only of what has not landed, or stands no longer: what was told of it is over.
    """
    key, bet = relayed.key, relayed.bet
    await _PROMISES.wait_for_turn(connection, key.chain_id, key.signer)
    if attempt == 1:
        cursor = await connection.execute(
            "INSERT INTO relay_bet (chain_id, signer, nonce, market_id, amount, intent_id) "
            "VALUES (%s, %s, %s, %s, %s, 0) ON CONFLICT DO NOTHING",
            (key.chain_id, key.signer, key.nonce, bet.market_id, bet.amount),
        )
    else:
        cursor = await connection.execute(
            "UPDATE relay_bet SET attempt = %s, intent_id = 0, tx_hash = NULL, asked_at = now(), "
            "confirmed_told_at = NULL WHERE chain_id = %s AND signer = %s AND nonce = %s AND attempt = %s",
            (attempt, key.chain_id, key.signer, key.nonce, attempt - 1),
        )
    if cursor.rowcount != 1:
        taken_in = await find(connection, key)
        assert taken_in is not None  # rows are never deleted
        return taken_in
    await _PROMISES.check(connection, Spend(key.chain_id, key.signer, key.nonce, bet.amount), funds)
    try:
        intent = await enqueue(connection, relayed.intent(attempt))
    except IntentConflict as asked_before:  # its row here was lost, and it is signed for another time now: the same bet
        intent = asked_before.intent
    await connection.execute(
        "UPDATE relay_bet SET intent_id = %s WHERE chain_id = %s AND signer = %s AND nonce = %s",
        (intent.id, key.chain_id, key.signer, key.nonce),
    )
    return KnownBet(attempt, intent, landed=None, was_told=False)


# Whoever was given a position did not place it. Positions are found by when they were entered, as their index is.
_RETURNED = b"""
SELECT count(*) FROM outbox_intent i
JOIN token_authorization t ON t.chain_id = i.chain_id AND t.authorizer = i.payer AND t.tx = i.tx_hash
JOIN stock_position p ON p.entered_at = t.at AND p.vintage > 0 AND p.entry_tx = t.tx AND p.entered_by = t.authorizer
JOIN stock_vintage v ON v.market_id = p.market_id AND v.vintage = p.vintage
JOIN stock_market m ON m.market_id = p.market_id
WHERE i.payer = %s AND i.chain_id = %s AND i.mined_at > now() - interval '1 hour'
AND CASE p.outcome WHEN 0 THEN p.offered * v.accepted_up < m.min_entry * v.offered_up
    ELSE p.offered * v.accepted_down < m.min_entry * v.offered_down END
"""


async def returned_lately(connection: Connection, key: BetKey) -> int:
    """How many of the signer's bets that we sent within an hour were accepted with less than their market's least."""
    row = await (await connection.execute(_RETURNED, (key.signer, key.chain_id), prepare=True)).fetchone()
    assert row is not None
    return int(row[0])


async def remember_landed(connection: Connection, relayed: RelayedBet, tx_hash: bytes) -> None:
    """A bet found on the chain that our transactions did not bring there. Its intent stays: a fork may undo it."""
    key, bet = relayed.key, relayed.bet
    await connection.execute(
        "INSERT INTO relay_bet (chain_id, signer, nonce, market_id, amount, tx_hash) "
        "VALUES (%s, %s, %s, %s, %s, %s) "
        "ON CONFLICT (chain_id, signer, nonce) DO UPDATE SET tx_hash = excluded.tx_hash",
        (key.chain_id, key.signer, key.nonce, bet.market_id, bet.amount, tx_hash),
    )


async def mark_told(connection: Connection, key: BetKey) -> None:
    """Somebody has been told that the bet is booked; from now on its signature counts as used."""
    await connection.execute(
        "UPDATE relay_bet SET confirmed_told_at = coalesce(confirmed_told_at, now()) "
        "WHERE chain_id = %s AND signer = %s AND nonce = %s",
        (key.chain_id, key.signer, key.nonce),
    )
