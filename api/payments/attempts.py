"""The attempts to put signed bets on the chain, stored with their intents before anything is sent.

A wallet's bets are accepted one at a time, and only as many as the wallet can pay for. Simulation cannot replace this
limit, because the simulated balance still includes what pending bets will spend. Without the limit, nine of ten bets
backed by the same dollar would revert, at the service's expense.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.payments.authorization import SignedCall
from core.chain.heads import final_block
from core.db.engine import Connection
from core.outbox import (
    Intent,
    IntentConflict,
    IntentState,
    MinedOutcome,
    enqueue,
    intent_columns,
    intent_from_row,
)


@dataclass(frozen=True, slots=True)
class Funds:
    """A wallet's balance in token units at the end of a block. Spending in later blocks is not subtracted."""

    amount: int
    block: int


class FundsReserved(Exception):
    """The wallet cannot cover this bet on top of its pending ones. `args[0]`: the amount that the pending bets need."""


@dataclass(frozen=True, slots=True)
class BetKey:
    """A bet's identity: the values of its table's key columns, and the prefix of its intents' keys."""

    values: Mapping[str, Any]
    prefix: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last attempt to place a bet. `intent`: the intent in its current state. `details`: further columns of the
    bet's row. `is_new`: whether this request stored the attempt."""

    number: int
    intent: Intent
    details: tuple[Any, ...]
    is_new: bool = False


class Attempts:
    """The attempts to place one surface's bets, stored in the surface's table of bets.

    The table has a row for each bet, with the columns nonce, amount, attempt and intent_id. `payer`: the name of the
    wallet column. `asked_at`: the name of the column with the last attempt's time. `details`: the columns that
    `Attempt.details` holds. `key_is_bet`: whether the key commits to the whole bet. If it does, any intent under the
    key places this bet.
    """

    def __init__(
        self,
        table: str,
        key: Sequence[str],
        *,
        payer: str,
        asked_at: str,
        details: Sequence[str],
        key_is_bet: bool,
    ) -> None:
        self._table = table
        self._key = tuple(key)
        self._payer = payer
        self._asked_at = asked_at
        self._details = tuple(details)
        self._key_is_bet = key_is_bet
        is_bet = " AND ".join(f"b.{name} = %({name})s" for name in key)
        self.columns = ", ".join(["b.attempt", *(f"b.{name}" for name in details), intent_columns("i")])
        """The columns of an Attempt in a SELECT from this table as b and outbox_intent as i, for `from_row`."""
        self._find = (
            f"SELECT {self.columns} FROM {table} b "  # noqa: S608 - constants only
            f"LEFT JOIN outbox_intent i ON i.id = b.intent_id WHERE {is_bet}"
        )
        self._intents = f"""
            SELECT i.state, i.outcome, i.block_number, c.number, c.finalized_number
            FROM {table} b CROSS JOIN generate_series(1, b.attempt) AS made (number)
            JOIN outbox_intent i ON i.key = %(prefix)s::text || ':' || made.number
            LEFT JOIN chain_cursor c ON c.chain_id = i.chain_id WHERE {is_bet}
        """  # noqa: S608 - constants only
        # Sums the pending bets and those mined after the balance's block, without those whose authorization was spent
        # by that block or cancelled at any time. Authorizations are valid for less than two hours.
        of_chain = "b.chain_id = %(chain_id)s AND " if "chain_id" in key else ""  # where the index begins with it
        self._reserved = f"""
            SELECT coalesce(sum(b.amount), 0) FROM {table} b JOIN outbox_intent i ON i.id = b.intent_id
            WHERE {of_chain}b.{payer} = %(payer)s AND i.chain_id = %(chain_id)s AND b.nonce <> %(nonce)s
                AND (i.state IN ('queued', 'signed', 'sent')
                    OR (i.outcome = 'succeeded' AND i.block_number > %(block)s))
                AND b.{asked_at} > now() - interval '2 hours'
                AND NOT EXISTS (SELECT FROM token_authorization t
                    WHERE t.chain_id = i.chain_id AND t.authorizer = b.{payer} AND t.nonce = b.nonce
                        AND (t.block_number <= %(block)s OR t.state = 'canceled'))
        """  # noqa: S608 - constants only

    async def find(self, connection: Connection, key: BetKey) -> Attempt | None:
        """Return the last attempt of the bet with this key, or None."""
        row = await connection.fetch_one(self._find.encode(), key.values, prepare=True)
        return None if row is None else self.from_row(row)

    def from_row(self, row: Sequence[Any]) -> Attempt | None:
        """Build an Attempt from the values of `columns`. Return None for an outer join without a row."""
        number, *rest = row
        if number is None:
            return None
        details, intent = rest[: len(self._details)], rest[len(self._details) :]
        assert intent[0] is not None  # intents of bets are never deleted
        return Attempt(number, intent_from_row(intent), tuple(details))

    async def add(
        self,
        connection: Connection,
        key: BetKey,
        row: Mapping[str, Any],
        signed: SignedCall,
        *,
        after: int,
        funds: Funds,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> Attempt:
        """Store attempt number `after` + 1 and its intent in the caller's transaction, and return the attempt. If
        another request has already stored that attempt number, return the stored attempt instead.

        The wallet is locked until the transaction ends. A concurrent request waits for the commit and then finds this
        attempt. Raise FundsReserved if `funds`, the wallet's balance, does not cover the bet on top of the pending
        ones. `row`: the other columns of the bet. `check`: the surface's own checks, run under the lock.
        """
        values = {**key.values, **row}
        lock = b"SELECT pg_advisory_xact_lock(hashtextextended(encode(%s, 'hex'), %s))"
        await connection.execute(lock, (values[self._payer], signed.chain_id), prepare=True)
        known = await self.find(connection, key)
        if known is not None and known.number != after:
            return known
        if check is not None:
            await check()
        await self._check_funds(connection, values, signed.chain_id, funds)
        try:
            intent = await enqueue(connection, signed.intent(f"{key.prefix}:{after + 1}"))
        except IntentConflict as conflict:
            if not self._key_is_bet:
                raise
            intent = conflict.intent  # the bet's row was lost, and it is signed for another window now
        stored = {**values, "attempt": after + 1, "intent_id": intent.id}
        await connection.execute(self._upsert(stored).encode(), stored, prepare=True)
        return Attempt(after + 1, intent, tuple(stored.get(name) for name in self._details), is_new=True)

    def _upsert(self, columns: Iterable[str]) -> str:
        names = ", ".join(columns)
        values = ", ".join(f"%({name})s" for name in columns)
        changed = ", ".join(f"{name} = excluded.{name}" for name in columns if name not in self._key)
        return f"""
            INSERT INTO {self._table} ({names}) VALUES ({values})
            ON CONFLICT ({", ".join(self._key)}) DO UPDATE SET {changed}, {self._asked_at} = now()
        """  # noqa: S608 - constants only

    async def _check_funds(self, connection: Connection, bet: Mapping[str, Any], chain_id: int, funds: Funds) -> None:
        payer, nonce = bet[self._payer], bet["nonce"]
        values = {"chain_id": chain_id, "payer": payer, "nonce": nonce, "block": funds.block}
        row = await connection.fetch_one(self._reserved.encode(), values, prepare=True)
        assert row is not None
        reserved = int(row[0])
        if reserved + bet["amount"] > funds.amount:
            raise FundsReserved(reserved)

    async def may_land(
        self, connection: Connection, key: BetKey, finality_blocks: int, *, or_in_flight: bool = True
    ) -> bool:
        """Return whether one of the attempts so far may still place a refused bet.

        Until the block in which an attempt reverted is final, a reorganization may replace that block. `or_in_flight`:
        whether an intent that is pending or mined also counts.
        """
        rows = await connection.fetch_all(self._intents.encode(), {**key.values, "prefix": key.prefix}, prepare=True)
        for state, outcome, block, indexed, finalized in rows:
            if outcome in (MinedOutcome.REVERTED, MinedOutcome.CANCELLED):
                if indexed is None or block > final_block(indexed, finalized, finality_blocks):
                    return True
            elif or_in_flight and (outcome is not None or not IntentState(state).ended):
                return True
        return False
