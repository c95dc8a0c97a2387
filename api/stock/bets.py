"""Bets submitted to the relay, and their attempts in `relay_bet`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from api.payments.attempts import build_intent
from api.payments.funds import Funds, PendingSpends
from api.stock.authorization import StockBet
from api.stock.bodies.relay import EscapeKit
from api.stock.chain import StockContracts
from api.stock.requests import RelayRequest
from core.chain import Call, checksum
from core.contracts.deployments import Token
from core.db.engine import Connection
from core.db.schema.relay import relay_bet
from core.hexadecimal import bytes_of, hex_of
from core.outbox import Intent, IntentConflict, IntentRequest, enqueue, read
from core.signatures import signer_of, with_usual_v


@dataclass(frozen=True, slots=True)
class BetKey:
    """A bet's identity: its chain, its signer and the nonce of its authorization, which commits to market, side and
    amount. The same nonce signed for another time is the same bet."""

    chain_id: int
    signer: bytes
    nonce: bytes

    def intent_keys(self, attempts: int) -> list[str]:
        """Return the keys of the first `attempts` intents, in order."""
        bet = f"relay:{self.chain_id}:{self.signer.hex()}:{self.nonce.hex()}"
        return [f"{bet}:{attempt}" for attempt in range(1, attempts + 1)]

    async def read_intent_keys(self, connection: AsyncConnection) -> list[str]:
        """Return the keys of all intents so far."""
        bet = relay_bet.c
        query = select(bet.attempt).where(
            bet.chain_id == self.chain_id, bet.signer == self.signer, bet.nonce == self.nonce
        )
        return self.intent_keys((await connection.execute(query)).scalar() or 0)


@dataclass(frozen=True, slots=True)
class RelayedBet:
    """A bet submitted to the relay. is_signed: by its wallet's key. call: the call that places it, with the signature
    in the form the token accepts. named_chain, named_settler: from its body, if present."""

    bet: StockBet
    is_signed: bool
    call: Call
    key: BetKey
    named_chain: int | None
    named_settler: str | None

    @classmethod
    def of(cls, body: RelayRequest, contracts: StockContracts, token: Token, chain_id: int) -> RelayedBet:
        bet = StockBet(
            chain_id=chain_id,
            settler=contracts.settler.address,
            signer=checksum(body.from_.lower()),
            market_id=int(body.market_id),
            outcome=body.outcome,
            amount=int(body.amount),
            valid_after=int(body.valid_after),
            valid_before=int(body.valid_before),
            salt=bytes_of(body.salt, 32),
        )
        signature = bytes_of(body.signature)
        usual = with_usual_v(signature)
        is_signed = signer_of(bet.digest(token), usual) == bet.signer
        call = bet.call(contracts.settler, usual if is_signed else signature)
        key = BetKey(chain_id, bytes_of(bet.signer), bet.nonce)
        return cls(bet, is_signed, call, key, body.chain_id, body.service_vpm)

    @property
    def nonce_hex(self) -> str:
        return hex_of(self.key.nonce)

    @property
    def escape_kit(self) -> EscapeKit:
        """Return the call, so that the bettor can send it without us."""
        return EscapeKit(
            to=self.call.to,
            data=hex_of(self.call.data),
            chain_id=self.bet.chain_id,
            expires_at=min(self.bet.valid_before, 2**53 - 1),
        )

    def intent(self, attempt: int) -> IntentRequest:
        """Build the intent of attempt number `attempt`."""
        key = self.key.intent_keys(attempt)[-1]
        return build_intent(key, "enter", self.bet.chain_id, self.call, self.bet.authorization)


@dataclass(frozen=True, slots=True)
class KnownBet:
    """A bet the relay accepted. `intent`: its last attempt as it stands. confirmation_sent: its sender received an
    answer that said it is booked."""

    attempt: int
    intent: Intent
    confirmation_sent: bool


async def find(connection: Connection, key: BetKey) -> KnownBet | None:
    """Return the accepted bet, or None."""
    cursor = await connection.execute(
        "SELECT attempt, intent_id, confirmation_sent_at IS NOT NULL FROM relay_bet "
        "WHERE chain_id = %s AND signer = %s AND nonce = %s",
        (key.chain_id, key.signer, key.nonce),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    attempt, intent_id, confirmation_sent = row
    intent = await read(connection, intent_id)
    assert intent is not None  # intents of bets are never deleted
    return KnownBet(attempt, intent, confirmation_sent)


_PENDING_SPENDS = PendingSpends(
    b"SELECT signer, nonce, amount, intent_id, asked_at FROM relay_bet WHERE chain_id = %(chain_id)s"
)


async def ask(connection: Connection, relayed: RelayedBet, attempt: int, funds: Funds) -> KnownBet:
    """Enqueue attempt number `attempt` in the caller's transaction; return the bet as it stands then, also if another
    request was first. Raises FundsReserved if the wallet's funds are reserved for its other bets.

    Requests for one wallet's bets run one at a time: the second waits for the first's commit, then finds its bet.
    Another attempt is made only if the last one can no longer land; an earlier confirmation is then void.
    """
    key, bet = relayed.key, relayed.bet
    await _PENDING_SPENDS.lock_wallet(connection, key.chain_id, key.signer)
    known = await find(connection, key)
    if known is not None and known.attempt != attempt - 1:
        return known
    await _PENDING_SPENDS.check(
        connection, funds, chain_id=key.chain_id, wallet=key.signer, nonce=key.nonce, amount=bet.amount
    )
    try:
        intent = await enqueue(connection, relayed.intent(attempt))
    except IntentConflict as conflict:  # its row was lost, and it is signed for another window now: the same bet
        intent = conflict.intent
    await connection.execute(
        "INSERT INTO relay_bet (chain_id, signer, nonce, market_id, amount, attempt, intent_id) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (chain_id, signer, nonce) DO UPDATE SET "
        "attempt = excluded.attempt, intent_id = excluded.intent_id, asked_at = now(), "
        "confirmation_sent_at = NULL",
        (key.chain_id, key.signer, key.nonce, bet.market_id, bet.amount, attempt, intent.id),
    )
    return KnownBet(attempt, intent, confirmation_sent=False)


# Joined by `entered_by`, since the owner of a transferred position did not place it; and by `entered_at`, which is
# indexed.
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


async def count_recent_returns(connection: Connection, key: BetKey) -> int:
    """Count the signer's bets of the last hour of which less than the market's smallest bet was accepted."""
    row = await (await connection.execute(_RETURNED, (key.signer, key.chain_id), prepare=True)).fetchone()
    assert row is not None
    return int(row[0])


async def mark_confirmation_sent(connection: Connection, key: BetKey) -> None:
    """Record that the sender received the confirmation; from now on the signature counts as used."""
    await connection.execute(
        "UPDATE relay_bet SET confirmation_sent_at = coalesce(confirmation_sent_at, now()) "
        "WHERE chain_id = %s AND signer = %s AND nonce = %s",
        (key.chain_id, key.signer, key.nonce),
    )
