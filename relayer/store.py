"""A lane's writes to the database. Each first locks the lane's row and checks the lease.

So a process that wrongly believes that it holds the lane changes nothing: its write raises `LeaseLost`. The triggers on
outbox_intent refuse impossible changes of state, write the history and notify.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from psycopg.abc import QueryNoTemplate

from core.db.engine import Connection, ConnectionPool
from core.hexadecimal import hex_of
from core.outbox import IntentState, LaneStatus, MinedOutcome
from relayer.leases import Lease, LeaseLost
from relayer.pending_notices import announce
from relayer.queries import CALL_COLUMNS, CALL_WIDTH, call_from, end_claims
from relayer.signing import Fees, LocalSigner, Signed, Unsigned
from relayer.transactions import Call, FormerTransaction, IntentRefusal, LaneTransaction, Mined, Prepared

# A process suspended inside a transaction must not lock a lane's row for longer.
IDLE_IN_TRANSACTION_MS = 5_000


_TRANSACTION_COLUMNS = (
    CALL_COLUMNS + b", i.nonce, i.state, extract(epoch FROM clock_timestamp() - i.state_at)::float8, i.payer_code, "
    b"i.outcome, i.block_number, i.block_hash"
)
_LIVE = b"lane_id = %s AND state IN ('signed', 'sent', 'mined')"
_ENDED_FROM = b"lane_id = %s AND nonce >= %s AND state IN ('final', 'failed', 'replaced') AND NOT is_thinned"
# Signed bytes of a nonce that was given up remain; they belong to no transaction and can never be mined.
_ATTEMPTS = b"""
SELECT t.intent_id, t.nonce, t.hash, t.raw, t.max_fee_wei, t.max_priority_fee_wei, t.gas_limit, t.is_cancel
FROM outbox_transaction t JOIN outbox_intent i ON i.id = t.intent_id
WHERE i.id = ANY(%s) AND t.nonce = i.nonce AND t.lane_id = i.lane_id
ORDER BY t.intent_id, t.signed_at, t.max_fee_wei
"""
_MINED = b"""
UPDATE outbox_intent i SET state = 'mined', tx_hash = u.hash, outcome = u.outcome, reason_code = u.code,
    reason = u.reason, block_number = u.block, block_hash = u.block_hash, gas_used = u.gas, fee_wei = u.fee,
    mined_at = clock_timestamp(), state_at = clock_timestamp()
FROM unnest(%s::bigint[], %s::bytea[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[], %s::bigint[],
    %s::numeric[]) AS u (id, hash, outcome, code, reason, block, block_hash, gas, fee)
WHERE i.id = u.id AND i.lane_id = %s AND i.state IN ('signed', 'sent') RETURNING i.id
"""


class LaneStore:
    """The writes of one lane under one lease, one transaction each. `pool` is in autocommit."""

    def __init__(self, pool: ConnectionPool, lease: Lease) -> None:
        self._pool = pool
        self.lease = lease

    @contextlib.asynccontextmanager
    async def _fenced(self) -> AsyncIterator[tuple[Connection, int | None]]:
        """Open a transaction that locks the lane's row, and yield the lane's next nonce; raise LeaseLost if another
        process holds the lane."""
        async with self._pool.connection() as connection, connection.transaction():
            # Not in a pipeline with BEGIN: PostgreSQL 18 then does not enforce the idle timeout.
            row = await connection.fetch_one(
                "SELECT next_nonce, set_config('idle_in_transaction_session_timeout', %s, true) FROM outbox_lane "
                "WHERE id = %s AND epoch = %s AND lease_until > clock_timestamp() FOR UPDATE",
                (str(IDLE_IN_TRANSACTION_MS), self.lease.lane_id, self.lease.epoch),
                prepare=True,
            )
            if row is None:
                raise LeaseLost(f"Lane {self.lease.lane_id} is no longer ours (epoch {self.lease.epoch}).")
            yield connection, row[0]

    async def _write(self, query: QueryNoTemplate, *values: object) -> set[int]:
        """Run one statement in its own fenced transaction; return the ids it returns, if any."""
        async with self._fenced() as (connection, _):
            cursor = await connection.execute(query, values, prepare=True)
            return {row[0] for row in await cursor.fetchall()} if cursor.description else set()

    # Reading

    async def transactions(self) -> tuple[list[LaneTransaction], int | None, int | None]:
        """Return the transactions that are not final, ordered by nonce; also the lane's next nonce, and the highest
        nonce in its rows."""
        async with self._fenced() as (connection, next_nonce):
            transactions = await self._read(connection, _LIVE, self.lease.lane_id)
            highest = await connection.fetch_value(
                "SELECT max(nonce) FROM outbox_intent WHERE lane_id = %s", (self.lease.lane_id,)
            )
        return transactions, next_nonce, highest

    async def ended_from(self, nonce: int) -> list[LaneTransaction]:
        """Return the transactions of ended intents with this nonce or a later one."""
        async with self._fenced() as (connection, _):
            return await self._read(connection, _ENDED_FROM, self.lease.lane_id, nonce)

    async def _read(self, connection: Connection, condition: bytes, *values: int) -> list[LaneTransaction]:
        """Return the transactions of the rows that meet a condition, ordered by nonce, each with everything signed for
        its nonce."""
        query = b"SELECT " + _TRANSACTION_COLUMNS + b" FROM outbox_intent i WHERE " + condition + b" ORDER BY nonce"
        rows = await connection.fetch_all(query, values)
        by_intent: dict[int, list[Signed]] = {}
        for row in await connection.fetch_all(_ATTEMPTS, ([row[0] for row in rows],)):
            by_intent.setdefault(row[0], []).append(_attempt_read(row[1:]))
        return [_transaction_read(row, by_intent[row[0]]) for row in rows]

    async def take_back(self, intent_id: int, former: FormerTransaction) -> LaneTransaction | None:
        """Give a queued intent its former nonce back, because its former transaction landed. Return None if the intent
        is no longer queued."""
        async with self._fenced() as (connection, _):
            done = await connection.execute(
                "UPDATE outbox_intent i SET state = 'signed', lane_id = %(lane)s, nonce = %(nonce)s,"
                " tx_hash = %(hash)s, reason_code = NULL, reason = NULL, state_at = clock_timestamp()"
                " WHERE i.id = %(id)s AND i.state = 'queued' AND NOT EXISTS ("
                "SELECT FROM outbox_intent o WHERE o.lane_id = %(lane)s AND o.nonce = %(nonce)s)",
                {"id": intent_id, "lane": self.lease.lane_id, "nonce": former.nonce, "hash": former.hash},
            )
            if done.rowcount != 1:
                return None
            (transaction,) = await self._read(connection, b"id = %s", intent_id)
        return transaction

    # Before the chain

    async def refuse(self, refusals: Sequence[IntentRefusal]) -> set[int]:
        """Refuse queued intents without giving them a nonce; return the ids of those that were still queued."""
        return await self._write(
            "UPDATE outbox_intent i SET state = 'failed', reason_code = u.code, reason = u.reason, "
            "block_number = u.block, state_at = clock_timestamp() "
            "FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[]) AS u (id, code, reason, block)"
            " WHERE i.id = u.id AND i.state = 'queued' RETURNING i.id",
            *_columns((each.candidate.intent_id, each.code, each.reason, each.block_number) for each in refusals),
        )

    async def sign(
        self, prepared: Sequence[Prepared], ready: Mapping[Unsigned, Signed] | None = None
    ) -> list[LaneTransaction]:
        """Assign nonces in order, sign, and store the bytes in one transaction, before anything is sent.

        Intents that another lane has taken are left out. A key in memory signs here. A key service has signed before,
        and `ready` has its signed transactions. A nonce that went elsewhere makes later signatures useless, so the
        first transaction that is missing in `ready` ends the batch. The rest stays queued, and its signatures are
        discarded.
        """
        async with self._fenced() as (connection, next_nonce):
            if next_nonce is None:
                raise LeaseLost(f"Lane {self.lease.lane_id} was never compared with the chain.")
            rows = await connection.fetch_all(
                "SELECT id FROM outbox_intent WHERE id = ANY(%s) AND state = 'queued' FOR UPDATE SKIP LOCKED",
                ([each.call.intent_id for each in prepared],),
                prepare=True,
            )
            ours = {row[0] for row in rows}
            transactions: list[LaneTransaction] = []
            for each in prepared:
                if each.call.intent_id in ours:
                    unsigned = each.unsigned(self.lease.chain_id, next_nonce + len(transactions))
                    signed = self._signed_here(unsigned) if ready is None else ready.get(unsigned)
                    if signed is None:
                        break
                    transactions.append(_newly_signed(each.call, signed, each.payer_code))
            if ready is not None:
                await end_claims(connection, self.lease.lane_id, prepared)
            if transactions:
                async with connection.pipeline():
                    await self._store_signed(connection, transactions)
                    await self._store_attempts(connection, [(each, each.newest) for each in transactions])
                    await self._set_next(connection, next_nonce + len(transactions))
                await announce(connection, self.lease.chain_id, transactions)
        return transactions

    def _signed_here(self, unsigned: Unsigned) -> Signed:
        assert isinstance(self.lease.signer, LocalSigner), "a key service signs before rows are locked"
        return self.lease.signer.sign(unsigned)

    async def _store_signed(self, connection: Connection, transactions: Sequence[LaneTransaction]) -> None:
        await connection.execute(
            "UPDATE outbox_intent i SET state = 'signed', lane_id = %s, nonce = u.nonce, tx_hash = u.hash, "
            "payer_code = u.code, reason = NULL, state_at = clock_timestamp() "
            "FROM unnest(%s::bigint[], %s::bigint[], %s::bytea[], %s::bytea[]) AS u (id, nonce, hash, code) "
            "WHERE i.id = u.id AND i.state = 'queued'",
            (
                self.lease.lane_id,
                *_columns((each.intent_id, each.nonce, each.newest.hash, each.payer_code) for each in transactions),
            ),
            prepare=True,
        )

    async def _store_attempts(self, connection: Connection, pairs: Sequence[tuple[LaneTransaction, Signed]]) -> None:
        await connection.execute(
            "INSERT INTO outbox_transaction (hash, intent_id, lane_id, nonce, is_cancel, raw, gas_limit, max_fee_wei, "
            "max_priority_fee_wei) SELECT u.hash, u.intent, %s, u.nonce, u.cancel, u.raw, u.gas, u.fee, u.tip FROM "
            "unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bool[], %s::bytea[], %s::bigint[], %s::numeric[], "
            "%s::numeric[]) AS u (hash, intent, nonce, cancel, raw, gas, fee, tip)",
            (
                self.lease.lane_id,
                *_columns(
                    (
                        each.hash,
                        transaction.intent_id,
                        transaction.nonce,
                        each.is_cancel,
                        each.raw,
                        each.gas_limit,
                        each.fees.max_fee_wei,
                        each.fees.max_priority_fee_wei,
                    )
                    for transaction, each in pairs
                ),
            ),
            prepare=True,
        )

    # On the chain

    async def mark_sent(self, transactions: Sequence[LaneTransaction]) -> set[int]:
        """Mark transactions as sent after their bytes were offered to a node; return the ids of those that were still
        `signed`."""
        return await self._write(
            "UPDATE outbox_intent SET state = 'sent', state_at = clock_timestamp() "
            "WHERE id = ANY(%s) AND lane_id = %s AND state = 'signed' RETURNING id",
            [each.intent_id for each in transactions],
            self.lease.lane_id,
        )

    async def add_attempts(self, pairs: Sequence[tuple[LaneTransaction, Signed]]) -> None:
        """Store replacements before they are sent."""
        async with self._fenced() as (connection, _):
            await self._store_attempts(connection, pairs)
            await connection.execute(
                "UPDATE outbox_intent i SET tx_hash = u.hash FROM unnest(%s::bigint[], %s::bytea[]) AS u (id, hash) "
                "WHERE i.id = u.id AND i.lane_id = %s AND i.state IN ('signed', 'sent')",
                (
                    *_columns((transaction.intent_id, attempt.hash) for transaction, attempt in pairs),
                    self.lease.lane_id,
                ),
            )

    async def mark_mined(self, mined: Sequence[Mined]) -> set[int]:
        return await self._write(
            _MINED,
            *_columns(
                (
                    each.transaction.intent_id,
                    each.tx_hash,
                    each.outcome.value,
                    each.code,
                    each.reason,
                    each.block_number,
                    each.block_hash,
                    each.gas_used,
                    each.fee_wei,
                )
                for each in mined
            ),
            self.lease.lane_id,
        )

    async def mark_dropped(self, transactions: Sequence[LaneTransaction]) -> None:
        """Mark transactions as sent again because a reorg undid their blocks, even if they had ended."""
        await self._write(
            "UPDATE outbox_intent SET state = 'sent', outcome = NULL, reason_code = NULL, reason = NULL, "
            "block_number = NULL, block_hash = NULL, gas_used = NULL, fee_wei = NULL, mined_at = NULL, "
            "state_at = clock_timestamp() WHERE id = ANY(%s) AND lane_id = %s "
            "AND state IN ('mined', 'final', 'failed', 'replaced')",
            [each.intent_id for each in transactions],
            self.lease.lane_id,
        )

    async def mark_ended(self, ends: Sequence[tuple[LaneTransaction, IntentState]]) -> None:
        """Move transactions to their end states, because their blocks are final."""
        await self._write(
            "UPDATE outbox_intent i SET state = u.state, state_at = clock_timestamp() "
            "FROM unnest(%s::bigint[], %s::text[]) AS u (id, state) WHERE i.id = u.id AND i.lane_id = %s "
            "AND i.state = 'mined'",
            *_columns((transaction.intent_id, state.value) for transaction, state in ends),
            self.lease.lane_id,
        )

    async def requeue(self, transactions: Sequence[LaneTransaction]) -> None:
        """Queue intents again to get new nonces, because foreign transactions took theirs. The history names these
        transactions."""
        await self._write(
            "UPDATE outbox_intent i SET state = 'queued', lane_id = NULL, nonce = NULL, tx_hash = NULL, "
            "reason = u.reason, state_at = clock_timestamp() "
            "FROM unnest(%s::bigint[], %s::text[]) AS u (id, reason)"
            " WHERE i.id = u.id AND i.lane_id = %s AND i.state IN ('signed', 'sent')",
            [each.intent_id for each in transactions],
            [
                f"Nonce {each.nonce} went to another transaction of its key, {hex_of(each.rival.tx_hash)}."
                for each in transactions
                if each.rival is not None
            ],
            self.lease.lane_id,
        )

    async def fill_holes(self, signed: Sequence[Signed], next_nonce: int) -> list[LaneTransaction]:
        """Store a no-op, as an intent, for each nonce that no intent owns, and set the lane's next nonce."""
        own = self.lease.signer.address
        transactions: list[LaneTransaction] = []
        async with self._fenced() as (connection, _):
            for each in signed:
                intent_id = await connection.fetch_value(
                    "INSERT INTO outbox_intent (key, fingerprint, chain_id, lane_group, kind, to_address, data, "
                    "value_wei, replay_safe, priority, state, lane_id, nonce, tx_hash) VALUES "
                    "(%s, %s, %s, 'noop', 'noop', %s, '', 0, true, 0, 'signed', %s, %s, %s) RETURNING id",
                    (
                        f"noop:{self.lease.chain_id}:{hex_of(own)}:{each.nonce}:{each.hash.hex()[:16]}",
                        each.hash,
                        self.lease.chain_id,
                        own,
                        self.lease.lane_id,
                        each.nonce,
                        each.hash,
                    ),
                )
                noop = Call(intent_id, "noop", own, b"", value_wei=0, replay_safe=True)
                transactions.append(_newly_signed(noop, each))
            if transactions:
                await self._store_attempts(connection, [(each, each.newest) for each in transactions])
            await self._set_next(connection, next_nonce)
        return transactions

    # The lane itself

    async def _set_next(self, connection: Connection, next_nonce: int) -> None:
        await connection.execute(
            "UPDATE outbox_lane SET next_nonce = %s WHERE id = %s", (next_nonce, self.lease.lane_id), prepare=True
        )

    async def set_next_nonce(self, next_nonce: int) -> None:
        async with self._fenced() as (connection, _):
            await self._set_next(connection, next_nonce)

    async def report(self, status: LaneStatus, detail: str, balance_wei: int | None) -> None:
        """Write the lane's status, for other processes to read."""
        await self._write(
            "UPDATE outbox_lane SET status = %s, status_detail = %s, balance_wei = %s WHERE id = %s",
            status.value,
            detail,
            balance_wei,
            self.lease.lane_id,
        )


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Transpose at least one row into columns, as the arrays that `unnest` takes."""
    return [list(column) for column in zip(*rows, strict=True)]


def _newly_signed(call: Call, signed: Signed, payer_code: bytes | None = None) -> LaneTransaction:
    return LaneTransaction(call, signed.nonce, [signed], IntentState.SIGNED, time.monotonic(), payer_code)


def _attempt_read(row: tuple[Any, ...]) -> Signed:
    nonce, tx_hash, raw, max_fee, max_priority_fee, gas_limit, is_cancel = row
    return Signed(nonce, raw, tx_hash, Fees(int(max_fee), int(max_priority_fee)), gas_limit, is_cancel)


def _transaction_read(row: tuple[Any, ...], attempts: list[Signed]) -> LaneTransaction:
    nonce, state, age_seconds, payer_code, outcome, block_number, block_hash = row[CALL_WIDTH:]
    return LaneTransaction(
        call=call_from(row),
        nonce=nonce,
        attempts=attempts,
        state=IntentState(state),
        state_since=time.monotonic() - age_seconds,
        payer_code=payer_code,
        outcome=None if outcome is None else MinedOutcome(outcome),
        block_number=block_number,
        block_hash=block_hash,
    )
