"""A wallet's balance at a block, and the part of it that is reserved for the wallet's pending bets.

Each bet is simulated on a balance that the wallet's other pending bets have not spent yet. Without this check, nine of
ten bets backed by the same dollar would revert, at our expense.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class Funds:
    """A wallet's token units at the end of a block, before anything that later blocks spend."""

    amount: int
    block: int


class FundsReserved(Exception):
    """The wallet cannot pay this bet on top of its pending ones, which need `args[0]`."""


# Sums the pending bets and those mined after the balance's block, without those whose authorization was spent by that
# block or cancelled at any time. Authorizations are valid for less than two hours.
_RESERVED = b"""
SELECT coalesce(sum(b.amount), 0) FROM (%b) AS b (wallet, nonce, amount, intent_id, asked_at)
JOIN outbox_intent i ON i.id = b.intent_id
WHERE b.wallet = %%(wallet)s AND i.chain_id = %%(chain_id)s AND b.nonce <> %%(nonce)s
    AND (i.state IN ('queued', 'signed', 'sent') OR (i.outcome = 'succeeded' AND i.block_number > %%(block)s))
    AND b.asked_at > now() - interval '2 hours'
    AND NOT EXISTS (SELECT FROM token_authorization t
        WHERE t.chain_id = i.chain_id AND t.authorizer = b.wallet AND t.nonce = b.nonce
            AND (t.block_number <= %%(block)s OR t.state = 'canceled'))
"""


class PendingSpends:
    """The pending spends of one surface's wallets. `bets`: a SELECT of wallet, nonce, amount, intent_id, asked_at."""

    def __init__(self, bets: bytes) -> None:
        self._query = _RESERVED % bets

    async def lock_wallet(self, connection: Connection, chain_id: int, wallet: bytes) -> None:
        """Lock the wallet until the transaction ends, so that its bets are checked one at a time."""
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(encode(%s, 'hex'), %s))"
        await connection.execute(lock, (wallet, chain_id))

    async def check(
        self, connection: Connection, funds: Funds, *, chain_id: int, wallet: bytes, nonce: bytes, amount: int
    ) -> None:
        """Raise FundsReserved unless the funds also cover a bet of `amount`, paid with the authorization `nonce`. The
        wallet must be locked."""
        values = {"chain_id": chain_id, "wallet": wallet, "nonce": nonce, "block": funds.block}
        row = await (await connection.execute(self._query, values, prepare=True)).fetchone()
        assert row is not None
        reserved = int(row[0])
        if reserved + amount > funds.amount:
            raise FundsReserved(reserved)
