"""The outbox's rows as the relayer knows them, and the statements that read them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from core.outbox.states import IntentState, MinedOutcome
from relayer.signing import Fees, Signed, Unsigned
from relayer.transaction import Attempt, LaneTransaction


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queued intent as the preflight needs it. had_nonce: it was signed before, and gave that nonce up. payer: the
    wallet whose signature it carries, if it is a stranger's."""

    intent_id: int
    kind: str
    to: bytes
    data: bytes = field(repr=False)
    value_wei: int
    gas_limit: int | None
    max_fee_cap_wei: int | None
    simulate: bool
    replay_safe: bool
    not_after: int | None
    age_seconds: float
    depends_on_state: IntentState | None
    depends_on_outcome: MinedOutcome | None
    had_nonce: bool = False
    payer: bytes | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate with all that its signature needs but the nonce. payer_code: the hash of its payer's code, if any."""

    candidate: Candidate
    gas_limit: int
    fees: Fees
    payer_code: bytes | None = None


@dataclass(frozen=True, slots=True)
class IntentRefusal:
    """A queued intent that is not sent, and why."""

    intent_id: int
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Former:
    """A transaction signed for an intent that is in the queue again."""

    lane_id: int
    address: bytes
    nonce: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Mined:
    """What the chain did with a transaction."""

    transaction: LaneTransaction
    tx_hash: bytes
    outcome: MinedOutcome
    code: str | None
    reason: str | None
    block_number: int
    block_hash: bytes
    gas_used: int
    fee_wei: int


def attempt_of(signed: Signed, *, is_cancel: bool = False) -> Attempt:
    return Attempt(signed.hash, signed.raw, signed.fees, signed.gas_limit, is_cancel)


def unsigned_of(prepared: Prepared, chain_id: int, nonce: int) -> Unsigned:
    """The transaction to sign for it."""
    candidate = prepared.candidate
    return Unsigned(
        chain_id=chain_id,
        nonce=nonce,
        fees=prepared.fees,
        gas_limit=prepared.gas_limit,
        to=candidate.to,
        value_wei=candidate.value_wei,
        data=candidate.data,
    )


def transaction_of(prepared: Prepared, signed: Signed, now: float) -> LaneTransaction:
    """An intent just signed."""
    candidate = prepared.candidate
    return LaneTransaction(
        intent_id=candidate.intent_id,
        nonce=signed.nonce,
        kind=candidate.kind,
        to=candidate.to,
        data=candidate.data,
        value_wei=candidate.value_wei,
        attempts=[attempt_of(signed)],
        state=IntentState.SIGNED,
        state_since=now,
        max_fee_cap_wei=candidate.max_fee_cap_wei,
        not_after=candidate.not_after,
        replay_safe=candidate.replay_safe,
        payer=candidate.payer,
        payer_code=prepared.payer_code,
    )


_TRANSACTION_COLUMNS = (
    b"id, nonce, kind, to_address, data, value_wei, state, max_fee_cap_wei, not_after, replay_safe, outcome, "
    b"block_number, block_hash, extract(epoch FROM clock_timestamp() - state_at)::float8, payer, payer_code"
)
TRANSACTIONS = (
    b"SELECT " + _TRANSACTION_COLUMNS + b" FROM outbox_intent WHERE lane_id = %s "
    b"AND state IN ('signed', 'sent', 'mined') ORDER BY nonce"
)
ENDED_FROM = (
    b"SELECT " + _TRANSACTION_COLUMNS + b" FROM outbox_intent WHERE lane_id = %s AND nonce >= %s "
    b"AND state IN ('final', 'failed', 'replaced') AND NOT is_thinned ORDER BY nonce"
)
# A nonce once given up leaves its bytes behind: they belong to no transaction, and can never be mined.
ATTEMPTS = b"""
SELECT t.intent_id, t.hash, t.raw, t.max_fee_wei, t.max_priority_fee_wei, t.gas_limit, t.is_cancel
FROM outbox_transaction t JOIN outbox_intent i ON i.id = t.intent_id
WHERE i.id = ANY(%s) AND t.nonce = i.nonce AND t.lane_id = i.lane_id
ORDER BY t.intent_id, t.signed_at, t.max_fee_wei
"""
FORMER = b"""
SELECT t.intent_id, t.lane_id, l.address, t.nonce, t.hash
FROM outbox_transaction t JOIN outbox_lane l ON l.id = t.lane_id
WHERE t.intent_id = ANY(%s) ORDER BY t.intent_id, t.nonce, t.signed_at
"""
# Of so many seconds: how each wallet fared, and each code (1); and whether that wallet ever settled. What we took
# longer than a minute to bring is not held against anybody: its time was over, or the market had moved.
# Nor is an authorization that was used before we came: a stranger may have, and whoever does so pays as much as we.
PAYER_RECORDS = b"""
SELECT 0, w.key, r.reverted, r.succeeded, EXISTS (
    SELECT FROM outbox_intent i WHERE i.payer = w.key AND i.chain_id = %(chain_id)s AND i.mined_at IS NOT NULL
        AND i.outcome = 'succeeded')
FROM unnest(%(wallets)s::bytea[]) AS w (key) CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE i.outcome = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE i.outcome = 'reverted' AND i.mined_at < i.created_at + interval '1 minute'
            AND coalesce(i.reason_code, '') NOT IN ('AuthorizationSpent', 'AuthorizationAlreadyUsed',
                'AuthorizationUsedOrCanceled', 'AuthorizationAlreadyBooked')) AS reverted
    FROM outbox_intent i WHERE i.payer = w.key AND i.chain_id = %(chain_id)s AND i.mined_at IS NOT NULL
        AND i.mined_at > now() - make_interval(secs => %(seconds)s)) AS r
UNION ALL
SELECT 1, c.key, r.reverted, r.succeeded, false
FROM unnest(%(codes)s::bytea[]) AS c (key) CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE i.outcome = 'succeeded') AS succeeded,
        count(*) FILTER (WHERE i.outcome = 'reverted' AND i.mined_at < i.created_at + interval '1 minute'
            AND coalesce(i.reason_code, '') NOT IN ('AuthorizationSpent', 'AuthorizationAlreadyUsed',
                'AuthorizationUsedOrCanceled', 'AuthorizationAlreadyBooked')) AS reverted
    FROM outbox_intent i WHERE i.payer_code = c.key AND i.chain_id = %(chain_id)s AND i.mined_at IS NOT NULL
        AND i.mined_at > now() - make_interval(secs => %(seconds)s)) AS r
"""
TAKEN_BACK = b"SELECT " + _TRANSACTION_COLUMNS + b" FROM outbox_intent WHERE id = %s"
# Claims left by the dead are replaced by whoever wants their intents; those of ended intents go with the next claim.
CLAIM = b"""
WITH over AS (DELETE FROM outbox_claim WHERE until < clock_timestamp() - interval '10 minutes')
INSERT INTO outbox_claim AS c (intent_id, lane_id, until)
SELECT id, %s, clock_timestamp() + make_interval(secs => %s) FROM unnest(%s::bigint[]) AS u (id) ORDER BY id
ON CONFLICT (intent_id) DO UPDATE SET lane_id = excluded.lane_id, until = excluded.until
    WHERE c.lane_id = excluded.lane_id OR c.until < clock_timestamp()
RETURNING intent_id
"""
# Group by group, so that each comes from its index in order however many wait. The claims, few, are read once.
_QUEUED = b"""
SELECT next.* FROM unnest(%%(groups)s::text[]) AS g (name) CROSS JOIN LATERAL (
    SELECT i.id, i.kind, i.to_address, i.data, i.value_wei, i.gas_limit, i.max_fee_cap_wei, i.simulate, i.replay_safe,
        i.not_after, extract(epoch FROM clock_timestamp() - i.state_at)::float8, d.state, d.outcome,
        EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id), i.payer, i.priority
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
QUEUED = _QUEUED % b"true"
# What had a nonce may have landed, which only the chain can tell.
TOO_LATE = _QUEUED % (
    b"i.not_after < %(chain_time)s AND NOT EXISTS (SELECT FROM outbox_transaction t WHERE t.intent_id = i.id)"
)


def attempt_of_row(row: tuple[Any, ...]) -> Attempt:
    return Attempt(row[0], row[1], Fees(int(row[2]), int(row[3])), row[4], row[5])


def transaction_of_row(row: tuple[Any, ...], attempts: list[Attempt]) -> LaneTransaction:
    return LaneTransaction(
        intent_id=row[0],
        nonce=row[1],
        kind=row[2],
        to=row[3],
        data=row[4],
        value_wei=int(row[5]),
        attempts=attempts,
        state=IntentState(row[6]),
        state_since=time.monotonic() - row[13],
        max_fee_cap_wei=None if row[7] is None else int(row[7]),
        not_after=row[8],
        replay_safe=row[9],
        outcome=None if row[10] is None else MinedOutcome(row[10]),
        block_number=row[11],
        block_hash=row[12],
        payer=row[14],
        payer_code=row[15],
    )


def candidate_of_row(row: tuple[Any, ...]) -> Candidate:
    return Candidate(
        intent_id=row[0],
        kind=row[1],
        to=row[2],
        data=row[3],
        value_wei=int(row[4]),
        gas_limit=row[5],
        max_fee_cap_wei=None if row[6] is None else int(row[6]),
        simulate=row[7],
        replay_safe=row[8],
        not_after=row[9],
        age_seconds=row[10],
        depends_on_state=None if row[11] is None else IntentState(row[11]),
        depends_on_outcome=None if row[12] is None else MinedOutcome(row[12]),
        had_nonce=row[13],
        payer=row[14],
    )
