"""What a wallet holds, and when; and what of it is promised to its bets that are on their way.

Each bet is tried on a balance that the wallet's others have not used yet: of ten over one dollar nine would revert, at
our expense.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class Funds:
    """A wallet's token units at the end of a block. What a later block takes, whoever tells of it, is still in them."""

    amount: int
    block: int


class MoneyPromised(Exception):
    """The refusal of a bet for which the wallet holds too little beside its others that are on their way; `args[0]` is
    what those take."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What a bet would take of its wallet, by an authorization's nonce."""

    chain_id: int
    wallet: bytes
    nonce: bytes
    amount: int


# What is on its way, or was mined above the block that the balance is of. Not what the token says was taken by then,
# nor what its wallet has cancelled, however lately: that never takes anything. What is credited was taken before. Two
# hours are longer than any authorization is good for.
_PROMISED = b"""
SELECT coalesce(sum(b.amount), 0) FROM (%b) AS b (wallet, nonce, amount, intent_id, asked_at)
JOIN outbox_intent i ON i.id = b.intent_id
WHERE b.wallet = %%(wallet)s AND i.chain_id = %%(chain_id)s AND b.nonce <> %%(nonce)s AND i.kind <> 'credit'
    AND (i.state IN ('queued', 'signed', 'sent') OR (i.outcome = 'succeeded' AND i.block_number > %%(block)s))
    AND b.asked_at > now() - interval '2 hours'
    AND NOT EXISTS (SELECT FROM token_authorization t
        WHERE t.chain_id = i.chain_id AND t.authorizer = b.wallet AND t.nonce = b.nonce
            AND (t.block_number <= %%(block)s OR t.state = 'canceled'))
"""


class Promises:
    """The promises of one surface's wallets. `asked`: a SELECT of the bets that were asked for: wallet, nonce, amount,
    intent_id, asked_at."""

    def __init__(self, asked: bytes) -> None:
        self._query = _PROMISED % asked

    async def wait_for_turn(self, connection: Connection, chain_id: int, wallet: bytes) -> None:
        """One wallet's bets are asked for one after the other: of two askers one waits for the other's commit."""
        lock = "SELECT pg_advisory_xact_lock(hashtextextended(encode(%s, 'hex'), %s))"
        await connection.execute(lock, (wallet, chain_id))

    async def check(self, connection: Connection, spend: Spend, funds: Funds) -> None:
        """MoneyPromised unless the funds are enough for this one, too; in its wallet's turn."""
        asked = {"chain_id": spend.chain_id, "wallet": spend.wallet, "nonce": spend.nonce, "block": funds.block}
        row = await (await connection.execute(self._query, asked, prepare=True)).fetchone()
        assert row is not None
        promised = int(row[0])
        if promised + spend.amount > funds.amount:
            raise MoneyPromised(promised)
