"""A lane's writes to the database. Each first locks the lane's row and checks the lease, so a process that wrongly
believes that it holds the lane changes nothing.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from core.db.engine import Connection, ConnectionPool
from core.hexadecimal import hex_of
from core.outbox import IntentState, LaneStatus, MinedOutcome
from relayer.leases import Lease, LeaseLost
from relayer.pending_notices import announce
from relayer.queued import CALL_COLUMNS, CALL_WIDTH, call_from, end_claims
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
# One statement locks the lane's row, checks the lease, and only then makes a change, which must join `lane`.
_FENCED = b"""
WITH lane AS (
    SELECT id FROM outbox_lane WHERE id = %%s AND epoch = %%s AND lease_until > clock_timestamp() FOR UPDATE
), changed AS (%b RETURNING i.id)
SELECT EXISTS (SELECT FROM lane), ARRAY(SELECT id FROM changed)
"""
_REFUSED = b"""
UPDATE outbox_intent i SET state = 'failed', reason_code = u.code, reason = u.reason, block_number = u.block,
    state_at = clock_timestamp()
FROM lane, unnest(%s::bigint[], %s::text[], %s::text[], %s::bigint[]) AS u (id, code, reason, block)
WHERE i.id = u.id AND i.state = 'queued'
"""
_SENT = b"""
UPDATE outbox_intent i SET state = 'sent', state_at = clock_timestamp()
FROM lane WHERE i.id = ANY(%s) AND i.lane_id = lane.id AND i.state = 'signed'
"""
_MINED = b"""
UPDATE outbox_intent i SET state = 'mined', tx_hash = u.hash, outcome = u.outcome, reason_code = u.code,
    reason = u.reason, block_number = u.block, block_hash = u.block_hash, gas_used = u.gas, fee_wei = u.fee,
    mined_at = clock_timestamp(), state_at = clock_timestamp()
FROM lane, unnest(%s::bigint[], %s::bytea[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bytea[],
    %s::bigint[], %s::numeric[]) AS u (id, hash, outcome, code, reason, block, block_hash, gas, fee)
WHERE i.id = u.id AND i.lane_id = lane.id AND i.state IN ('signed', 'sent')
"""
_DROPPED = b"""
UPDATE outbox_intent i SET state = 'sent', outcome = NULL, reason_code = NULL, reason = NULL, block_number = NULL,
    block_hash = NULL, gas_used = NULL, fee_wei = NULL, mined_at = NULL, state_at = clock_timestamp()
FROM lane WHERE i.id = ANY(%s) AND i.lane_id = lane.id AND i.state IN ('mined', 'final', 'failed', 'replaced')
"""
_ENDED = b"""
UPDATE outbox_intent i SET state = u.state, state_at = clock_timestamp()
FROM lane, unnest(%s::bigint[], %s::text[]) AS u (id, state)
WHERE i.id = u.id AND i.lane_id = lane.id AND i.state = 'mined'
"""
_REQUEUED = b"""
UPDATE outbox_intent i SET state = 'queued', lane_id = NULL, nonce = NULL, tx_hash = NULL, reason = u.reason,
    state_at = clock_timestamp()
FROM lane, unnest(%s::bigint[], %s::text[]) AS u (id, reason)
WHERE i.id = u.id AND i.lane_id = lane.id AND i.state IN ('signed', 'sent')
"""
_REPORTED = b"""
UPDATE outbox_lane i SET status = %s, status_detail = %s, balance_wei = %s FROM lane WHERE i.id = lane.id
"""
_NUMBERED = b"UPDATE outbox_lane i SET next_nonce = %s FROM lane WHERE i.id = lane.id"

# Signed bytes are stored here and nowhere else, in a transaction that is committed before they are sent. `changed`
# gives their intents the newest of them; see _SIGNED and _REPLACED.
_STORE = b"""
WITH u AS (
    SELECT * FROM unnest(%%(intents)s::bigint[], %%(nonces)s::bigint[], %%(payer_codes)s::bytea[], %%(hashes)s::bytea[],
        %%(cancels)s::bool[], %%(raws)s::bytea[], %%(gas)s::bigint[], %%(fees)s::numeric[], %%(tips)s::numeric[])
    AS u (intent, nonce, payer_code, hash, cancel, raw, gas, fee, tip)
), numbered AS (
    UPDATE outbox_lane SET next_nonce = %%(next_nonce)s WHERE id = %%(lane)s
), changed AS (%b)
INSERT INTO outbox_transaction (hash, intent_id, lane_id, nonce, is_cancel, raw, gas_limit, max_fee_wei,
    max_priority_fee_wei)
SELECT u.hash, u.intent, %%(lane)s, u.nonce, u.cancel, u.raw, u.gas, u.fee, u.tip FROM u
"""
_SIGNED = b"""
    UPDATE outbox_intent i SET state = 'signed', lane_id = %(lane)s, nonce = u.nonce, tx_hash = u.hash,
        payer_code = u.payer_code, reason = NULL, state_at = clock_timestamp()
    FROM u WHERE i.id = u.intent AND i.state = 'queued'
"""
_REPLACED = b"""
    UPDATE outbox_intent i SET tx_hash = u.hash
    FROM u WHERE i.id = u.intent AND i.lane_id = %(lane)s AND i.state IN ('signed', 'sent')
"""
_NOOPS = b"""
INSERT INTO outbox_intent (key, fingerprint, chain_id, lane_group, kind, to_address, data, value_wei, replay_safe,
    priority)
SELECT u.key, u.hash, %s, 'noop', 'noop', %s, '', 0, true, 0 FROM unnest(%s::text[], %s::bytea[]) AS u (key, hash)
RETURNING fingerprint, id
"""


class LaneStore:
    """The writes of one lane under one lease, one transaction each. The pool is in autocommit."""

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
                raise self._lost()
            yield connection, row[0]

    async def _write(self, change: bytes, *values: object) -> set[int]:
        async with self._pool.connection() as connection:
            row = await connection.fetch_one(
                _FENCED % change, (self.lease.lane_id, self.lease.epoch, *values), prepare=True
            )
        assert row is not None
        if not row[0]:
            raise self._lost()
        return set(row[1])

    def _lost(self) -> LeaseLost:
        return LeaseLost(f"Lane {self.lease.lane_id} is no longer held by this process (epoch {self.lease.epoch}).")

    # Reading

    async def transactions(self) -> tuple[list[LaneTransaction], int | None, int | None]:
        """Return three things: the transactions that are not final, sorted by nonce; the lane's next nonce; and the
        highest nonce in the lane's rows."""
        async with self._fenced() as (connection, next_nonce):
            transactions = await self._read(connection, _LIVE, self.lease.lane_id)
            highest = await connection.fetch_value(
                "SELECT max(nonce) FROM outbox_intent WHERE lane_id = %s", (self.lease.lane_id,)
            )
        return transactions, next_nonce, highest

    async def ended_from(self, nonce: int) -> list[LaneTransaction]:
        async with self._fenced() as (connection, _):
            return await self._read(connection, _ENDED_FROM, self.lease.lane_id, nonce)

    async def _read(self, connection: Connection, condition: bytes, *values: int) -> list[LaneTransaction]:
        """Return the transactions of the rows that meet a condition, sorted by nonce. Each transaction includes
        everything that was ever signed for it."""
        query = b"SELECT " + _TRANSACTION_COLUMNS + b" FROM outbox_intent i WHERE " + condition + b" ORDER BY nonce"
        rows = await connection.fetch_all(query, values)
        by_intent: dict[int, list[Signed]] = {}
        for row in await connection.fetch_all(_ATTEMPTS, ([row[0] for row in rows],)):
            by_intent.setdefault(row[0], []).append(_attempt_read(row[1:]))
        return [_transaction_read(row, by_intent[row[0]]) for row in rows]

    async def take_back(self, intent_id: int, former: FormerTransaction) -> LaneTransaction | None:
        """Give a queued intent its former nonce back, because its former transaction was mined after all. Return None
        if the intent is no longer queued."""
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
        """Refuse intents before they get a nonce. Return the ids of the intents that were still queued."""
        return await self._write(
            _REFUSED,
            *_columns((each.candidate.intent_id, each.code, each.reason, each.block_number) for each in refusals),
        )

    async def sign(
        self, prepared: Sequence[Prepared], ready: Mapping[Unsigned, Signed] | None = None
    ) -> list[LaneTransaction]:
        """Assign nonces in order, sign, and store the signed bytes in one database transaction, before anything is
        sent. Intents that another lane has taken are left out.

        A key in memory signs here. A key service has already signed, and `ready` contains its signed transactions. If
        nonces have changed since, some signed transactions are missing. The batch ends at the first missing one, and
        the remaining intents stay queued.
        """
        async with self._fenced() as (connection, next_nonce):
            if next_nonce is None:
                raise LeaseLost(f"Lane {self.lease.lane_id} has not been compared with the chain.")
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
                pairs = [(each, each.newest) for each in transactions]
                await self._store(connection, _SIGNED, pairs, next_nonce + len(transactions))
                await announce(connection, self.lease.chain_id, transactions)
        return transactions

    def _signed_here(self, unsigned: Unsigned) -> Signed:
        assert isinstance(self.lease.signer, LocalSigner), "a key service signs before rows are locked"
        return self.lease.signer.sign(unsigned)

    async def _store(
        self,
        connection: Connection,
        change: bytes,
        pairs: Sequence[tuple[LaneTransaction, Signed]],
        next_nonce: int | None,
    ) -> None:
        columns = _columns(
            (
                transaction.intent_id,
                each.nonce,
                transaction.payer_code,
                each.hash,
                each.is_cancel,
                each.raw,
                each.gas_limit,
                each.fees.max_fee_wei,
                each.fees.max_priority_fee_wei,
            )
            for transaction, each in pairs
        )
        names = ("intents", "nonces", "payer_codes", "hashes", "cancels", "raws", "gas", "fees", "tips")
        values = {**dict(zip(names, columns, strict=True)), "next_nonce": next_nonce, "lane": self.lease.lane_id}
        await connection.execute(_STORE % change, values, prepare=True)

    # On the chain

    async def mark_sent(self, transactions: Sequence[LaneTransaction]) -> set[int]:
        """Mark transactions whose bytes were offered to a node. Return the ids of those that were still `signed`."""
        return await self._write(_SENT, [each.intent_id for each in transactions])

    async def add_attempts(self, pairs: Sequence[tuple[LaneTransaction, Signed]]) -> None:
        async with self._fenced() as (connection, next_nonce):
            await self._store(connection, _REPLACED, pairs, next_nonce)

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
        )

    async def mark_dropped(self, transactions: Sequence[LaneTransaction]) -> None:
        """Set transactions back to `sent`, because a reorg undid their blocks. This includes transactions that had
        already ended."""
        await self._write(_DROPPED, [each.intent_id for each in transactions])

    async def mark_ended(self, ends: Sequence[tuple[LaneTransaction, IntentState]]) -> None:
        await self._write(_ENDED, *_columns((transaction.intent_id, state.value) for transaction, state in ends))

    async def requeue(self, transactions: Sequence[LaneTransaction]) -> None:
        """Queue intents again because foreign transactions took their nonces. Each intent's history names the foreign
        transaction."""
        rows = [
            (
                each.intent_id,
                f"Nonce {each.nonce} went to another transaction of the same key, {hex_of(each.rival.tx_hash)}.",
            )
            for each in transactions
            if each.rival is not None
        ]
        await self._write(_REQUEUED, *_columns(rows))

    async def fill_holes(self, signed: Sequence[Signed], next_nonce: int) -> list[LaneTransaction]:
        """Store a no-op intent for each nonce that no intent owns, and set the lane's next nonce."""
        if not signed:
            await self.set_next_nonce(next_nonce)
            return []
        own, chain_id = self.lease.signer.address, self.lease.chain_id
        keys = [f"noop:{chain_id}:{hex_of(own)}:{each.nonce}:{each.hash.hex()[:16]}" for each in signed]
        async with self._fenced() as (connection, _):
            rows = await connection.fetch_all(_NOOPS, (chain_id, own, keys, [each.hash for each in signed]))
            ids = {bytes(fingerprint): intent_id for fingerprint, intent_id in rows}
            noops = [Call(ids[each.hash], "noop", own, b"", value_wei=0, replay_safe=True) for each in signed]
            transactions = [_newly_signed(call, each) for call, each in zip(noops, signed, strict=True)]
            await self._store(connection, _SIGNED, [(each, each.newest) for each in transactions], next_nonce)
        return transactions

    # The lane itself

    async def set_next_nonce(self, next_nonce: int) -> None:
        await self._write(_NUMBERED, next_nonce)

    async def report(self, status: LaneStatus, detail: str, balance_wei: int | None) -> None:
        await self._write(_REPORTED, status.value, detail, balance_wei)


def _columns(rows: Iterable[tuple[Any, ...]]) -> list[list[Any]]:
    """Transpose rows into the columns that `unnest` takes. There must be at least one row."""
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
