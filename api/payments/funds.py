"""A wallet's balance at a block, and how much of it its pending bets already need.

Each bet is simulated on a balance that the wallet's other pending bets have not spent yet: of ten bets over one dollar
nine would revert, at our expense.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class Funds:
    """A wallet's token units at the end of a block, before anything that later blocks spend."""

    amount: int
    block: int


class MoneyPromised(Exception):
    """The refusal of a bet that the wallet cannot pay on top of its pending ones, which need `args[0]`."""


# Pending bets, and those mined after the balance's block; without what the token already spent by that block or the
# wallet cancelled at any time. No authorization is valid for two hours.
_PROMISED = b"""
SELECT coalesce(sum(b.amount), 0) FROM (%b) AS b (wallet, nonce, amount, intent_id, asked_at)
JOIN outbox_intent i ON i.id = b.intent_id
WHERE b.wallet = %%(wallet)s AND i.chain_id = %%(chain_id)s AND b.nonce <> %%(nonce)s
    AND (i.state IN ('queued', 'signed', 'sent') OR (i.outcome = 'succeeded' AND i.block_number > %%(block)s))
    AND b.asked_at > now() - interval '2 hours'
    AND NOT EXISTS (SELECT FROM token_authorization t
        WHERE t.chain_id = i.chain_id AND t.authorizer = b.wallet AND t.nonce = b.nonce
            AND (t.block_number <= %%(block)s OR t.state = 'canceled'))
"""


class Promises:
    """The pending spends of one surface's wallets. `asked`: a SELECT of its bets: wallet, nonce, amount, intent_id,
    asked_at."""

    def __init__(self, asked: bytes) -> None:
        self._query = _PROMISED % asked

    async def wait_for_turn(self, connection: Connection, chain_id: int, wallet: bytes) -> None:
        """Lock the wallet until the transaction ends, so that its bets are checked one after the other."""
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(encode(%s, 'hex'), %s))"
        await connection.execute(lock, (wallet, chain_id))

    async def check(
        self, connection: Connection, funds: Funds, *, chain_id: int, wallet: bytes, nonce: bytes, amount: int
    ) -> None:
        """Raise MoneyPromised unless the funds also cover a bet of `amount`, paid by the authorization of this nonce.
        Call with the wallet locked."""
        asked = {"chain_id": chain_id, "wallet": wallet, "nonce": nonce, "block": funds.block}
        row = await (await connection.execute(self._query, asked, prepare=True)).fetchone()
        assert row is not None
        promised = int(row[0])
        if promised + amount > funds.amount:
            raise MoneyPromised(promised)
