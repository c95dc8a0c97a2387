"""A lane's reads of the database before it signs: single statements without locks.

Their answers may be outdated at once. What must never be wrong is decided again under the lease, in `relayer.store`:
whether an intent is still queued, and which nonce it gets. Two lanes that read at the same moment may together let a
payer exceed its bound by one batch.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from core.db.engine import Connection, ConnectionPool
from core.outbox import IntentState, MinedOutcome
from relayer.leases import Lease
from relayer.policy import WINDOW_SECONDS, PayerKind, PayerRecord
from relayer.transactions import Call, Candidate, FormerTransaction, Prepared

CALL_COLUMNS = b"i.id, i.kind, i.to_address, i.data, i.value_wei, i.not_after, i.replay_safe, i.payer"
CALL_WIDTH = 8
_FORMER = b"""
SELECT t.intent_id, t.lane_id, l.address, t.nonce, t.hash
FROM outbox_transaction t JOIN outbox_lane l ON l.id = t.lane_id
WHERE t.intent_id = ANY(%s) ORDER BY t.intent_id, t.nonce, t.signed_at
"""
# Counts of the outcomes of a payer's or a code's intents in the last `seconds`. A bet that took us over a minute to
# send does not count against its payer: its deadline passed, or the market had moved. Nor does an authorization that
# was used before: a stranger may have used it, and paid as much as we did. If an agent's own payment settled its bet,
# the contract reverts with the idempotency key. A full pot counts, even if this very bet filled it.
_OUTCOMES = b"""
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE i.outcome = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE i.outcome = 'reverted' AND i.mined_at < i.created_at + interval '1 minute'
            AND coalesce(i.reason_code, '') NOT IN ('AuthorizationSpent', 'AuthorizationAlreadyUsed',
                'AuthorizationUsedOrCanceled', 'AuthorizationAlreadyBooked', 'IdempotencyKeyUsed')) AS reverted
    FROM outbox_intent i WHERE i.%b = wanted.key AND i.chain_id = %%(chain_id)s AND i.mined_at IS NOT NULL
        AND i.mined_at > now() - make_interval(secs => %%(seconds)s)) AS r
"""
# The record of each wallet (0), with whether it ever settled, and of each code (1).
_PAYER_RECORDS = (
    b"""
SELECT 0, wanted.key, r.reverted, r.succeeded, EXISTS (
    SELECT FROM outbox_intent i WHERE i.payer = wanted.key AND i.chain_id = %(chain_id)s AND i.mined_at IS NOT NULL
        AND i.outcome = 'succeeded')
FROM unnest(%(wallets)s::bytea[]) AS wanted (key)"""
    + _OUTCOMES % b"payer"
    + b"""
UNION ALL
SELECT 1, wanted.key, r.reverted, r.succeeded, false FROM unnest(%(codes)s::bytea[]) AS wanted (key)"""
    + _OUTCOMES % b"payer_code"
)
# Transactions in flight on any lane, and intents that another lane has claimed for signing. Older ones belong to a lane
# without a relayer: they are no longer followed, and must not block their payer forever.
_IN_FLIGHT = b"""
SELECT payer, payer_code, count(*) FROM outbox_intent
WHERE state IN ('signed', 'sent') AND chain_id = %(chain_id)s
    AND (payer = ANY(%(wallets)s) OR payer_code = ANY(%(codes)s))
    AND state_at > now() - make_interval(secs => %(seconds)s) GROUP BY 1, 2
UNION ALL
SELECT i.payer, i.payer_code, count(*) FROM outbox_claim c JOIN outbox_intent i ON i.id = c.intent_id
WHERE c.lane_id <> %(lane)s AND c.until > clock_timestamp() AND i.state = 'queued' AND i.chain_id = %(chain_id)s
    AND i.payer = ANY(%(wallets)s) GROUP BY 1, 2
"""
# A dead process's claims are replaced by the next lane that wants their intents; the rest are deleted after a while.
_CLAIM = b"""
WITH over AS (DELETE FROM outbox_claim WHERE until < clock_timestamp() - interval '10 minutes')
INSERT INTO outbox_claim AS c (intent_id, lane_id, until)
SELECT id, %s, clock_timestamp() + make_interval(secs => %s) FROM unnest(%s::bigint[]) AS u (id) ORDER BY id
ON CONFLICT (intent_id) DO UPDATE SET lane_id = excluded.lane_id, until = excluded.until
    WHERE c.lane_id = excluded.lane_id OR c.until < clock_timestamp()
RETURNING intent_id
"""
# Group by group, so that each is read from its index in order, however many wait. The claims are few and read once.
_CANDIDATES = b"""
SELECT next.* FROM unnest(%%(groups)s::text[]) AS g (name) CROSS JOIN LATERAL (
    SELECT %b, extract(epoch FROM clock_timestamp() - i.state_at)::float8, d.state, d.outcome,
        EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id), i.priority
    FROM outbox_intent i LEFT JOIN outbox_intent d ON d.id = i.depends_on
    WHERE i.state = 'queued' AND i.chain_id = %%(chain_id)s AND i.lane_group = g.name AND i.id <> ALL(%%(excluded)s)
        AND (i.depends_on IS NULL OR d.state IN ('final', 'failed', 'replaced')
             OR (d.state = 'mined' AND d.outcome = 'succeeded'))
        AND i.id <> ALL (ARRAY(SELECT c.intent_id FROM outbox_claim c
            WHERE c.lane_id <> %%(lane)s AND c.until > clock_timestamp()))
        AND %b
    ORDER BY i.priority DESC, i.id LIMIT %%(limit)s
) AS next ORDER BY next.priority DESC, next.id LIMIT %%(limit)s
"""
_QUEUED = _CANDIDATES % (CALL_COLUMNS, b"true")
# An intent that once had a nonce may have landed; only the chain knows.
_TOO_LATE = _CANDIDATES % (
    CALL_COLUMNS,
    b"i.not_after < %(chain_time)s AND NOT EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id)",
)


class LaneQueries:
    """The queries of one lane, and its claims on intents. The claims guard nothing. `pool` is in autocommit."""

    def __init__(self, pool: ConnectionPool, lease: Lease) -> None:
        self._pool = pool
        self._lease = lease

    async def queued(self, limit: int, excluded: Sequence[int]) -> list[Candidate]:
        """Return the next intents for this lane's groups whose dependency, if any, has an outcome. The rows are not
        locked."""
        return await self._candidates(_QUEUED, limit, excluded)

    async def too_late(self, limit: int, excluded: Sequence[int], chain_time: int) -> list[Candidate]:
        """Return queued intents that never had a nonce and have a deadline before `chain_time`."""
        return await self._candidates(_TOO_LATE, limit, excluded, chain_time=chain_time)

    async def _candidates(self, query: bytes, limit: int, excluded: Sequence[int], **more: int) -> list[Candidate]:
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(
                query,
                {
                    "chain_id": self._lease.chain_id,
                    "groups": list(self._lease.groups),
                    "excluded": list(excluded),
                    "lane": self._lease.lane_id,
                    "limit": limit,
                    **more,
                },
                prepare=True,
            )
        return [_candidate_from(row) for row in rows]

    async def gas_of_the_hour(self) -> tuple[int, dict[PayerKind, int]]:
        """Return this lane's cost of gas within the last hour, in wei, and the part of it spent on reverts, by kind of
        payer."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(
                "SELECT outcome = 'reverted', payer IS NOT NULL, payer_code IS NOT NULL, coalesce(sum(fee_wei), 0) "
                "FROM outbox_intent WHERE lane_id = %s AND mined_at IS NOT NULL "
                "AND mined_at > now() - make_interval(secs => %s) GROUP BY 1, 2, 3",
                (self._lease.lane_id, WINDOW_SECONDS),
            )
        burnt = dict.fromkeys(PayerKind, 0)
        for has_reverted, is_signed, has_code, wei in rows:
            if has_reverted:
                burnt[PayerKind.of(is_signed=is_signed, has_code=has_code)] += int(wei)
        return sum(int(wei) for *_, wei in rows), burnt

    async def payer_records(
        self, wallets: Collection[bytes], codes: Collection[bytes]
    ) -> tuple[dict[bytes, PayerRecord], dict[bytes, PayerRecord]]:
        """Return the records of these wallets, and the combined records of all wallets with each of these codes."""
        values = {
            "chain_id": self._lease.chain_id,
            "wallets": list(wallets),
            "codes": list(codes),
            "seconds": WINDOW_SECONDS,
            "lane": self._lease.lane_id,
        }
        async with self._pool.connection() as connection:
            # In flight first: what is mined in between is counted twice, rather than not at all.
            live = await connection.fetch_all(_IN_FLIGHT, values, prepare=True)
            rows = await connection.fetch_all(_PAYER_RECORDS, values, prepare=True)
        records: tuple[dict[bytes, PayerRecord], dict[bytes, PayerRecord]] = ({}, {})
        for is_code, key, reverted, succeeded, has_settled in rows:
            records[is_code][bytes(key)] = PayerRecord(reverted, succeeded, has_settled=has_settled)
        for *keys, count in live:
            for kind, key in zip(records, keys, strict=True):
                if key in kind:
                    kind[key].in_flight += count
        return records

    async def former(self, intent_ids: Sequence[int]) -> dict[int, list[FormerTransaction]]:
        """Return every transaction ever signed for these intents, by any lane."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch_all(_FORMER, (list(intent_ids),))
        former: dict[int, list[FormerTransaction]] = {}
        for intent_id, lane_id, address, nonce, digest in rows:
            former.setdefault(intent_id, []).append(FormerTransaction(lane_id, bytes(address), nonce, bytes(digest)))
        return former

    async def claim(self, prepared: Sequence[Prepared], seconds: float) -> list[Prepared]:
        """Claim the intents that no other lane has claimed, and return them. A claim saves slow signers double work. It
        guards nothing, and it expires."""
        async with self._pool.connection() as connection:
            ids = [each.call.intent_id for each in prepared]
            ours = {row[0] for row in await connection.fetch_all(_CLAIM, (self._lease.lane_id, seconds, ids))}
        return [each for each in prepared if each.call.intent_id in ours]

    async def unclaim(self, prepared: Sequence[Prepared]) -> None:
        """Release intents that were not signed, so that other lanes can take them at once."""
        async with self._pool.connection() as connection:
            await end_claims(connection, self._lease.lane_id, prepared)


async def end_claims(connection: Connection, lane_id: int, prepared: Sequence[Prepared]) -> None:
    await connection.execute(
        "DELETE FROM outbox_claim WHERE lane_id = %s AND intent_id = ANY(%s)",
        (lane_id, [each.call.intent_id for each in prepared]),
    )


def call_from(row: tuple[Any, ...]) -> Call:
    """Return the call of a row that begins with CALL_COLUMNS."""
    intent_id, kind, to, data, value_wei, not_after, replay_safe, payer = row[:CALL_WIDTH]
    return Call(intent_id, kind, to, data, int(value_wei), not_after, replay_safe, payer)


def _candidate_from(row: tuple[Any, ...]) -> Candidate:
    age_seconds, state, outcome, had_nonce = row[CALL_WIDTH:-1]
    return Candidate(
        call=call_from(row),
        age_seconds=age_seconds,
        depends_on_state=None if state is None else IntentState(state),
        depends_on_outcome=None if outcome is None else MinedOutcome(outcome),
        had_nonce=had_nonce,
    )
