"""One attempt at a time for each subject, however many keepers run and however often they are killed.

A subject is a text such as `stock:resolve:17`; one transaction may serve several (a batch of deliveries). An attempt
and its outbox intent are stored in one database transaction, and only if the number of attempts is still the one that
was read: otherwise another process has stored an attempt. A result that is not indexed yet counts as in progress.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.chain import Call
from core.db.engine import Connection
from core.outbox import KEEPER, Intent, IntentConflict, IntentRequest, MinedOutcome, enqueue, read


@dataclass(frozen=True, slots=True)
class Attempt:
    """The latest attempt for a subject. `number` counts the subject's attempts from 1. `failures` is the number of
    consecutive failures before this attempt. `age_seconds` is measured by the database's clock, and is negative if that
    clock was set back."""

    subject: str
    number: int
    failures: int
    age_seconds: float
    intent: Intent

    @property
    def failures_in_a_row(self) -> int:
        """Return how many attempts in a row have failed, including this one. Return 0 if this attempt succeeded on
        chain."""
        return 0 if self.intent.outcome is MinedOutcome.SUCCEEDED else self.failures + 1


@dataclass(frozen=True, slots=True)
class RetryWaits:
    """The waits before another attempt: after a success that left work to do, and after a failure. The wait after a
    failure doubles with each further failure, up to `longest_seconds`."""

    after_success_seconds: float = 60.0
    after_failure_seconds: float = 10.0
    longest_seconds: float = 3600.0


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A transaction that serves one or more subjects. The fields after the call are those of IntentRequest."""

    kind: str
    subjects: tuple[str, ...]
    target: str
    detail: str
    call: Call
    group: str = KEEPER
    not_after: int | None = None
    depends_on: int | None = None
    priority: int = 0
    replay_safe: bool = True
    payer: str | None = None


def wait_reason(attempt: Attempt | None, indexed_block: int, retry: RetryWaits) -> str | None:
    """Return why no new attempt may be made yet, or None if one may be. If the last attempt succeeded in a block after
    `indexed_block`, the job's data does not show that success yet."""
    if attempt is None:
        return None
    intent = attempt.intent
    if intent.outcome is MinedOutcome.SUCCEEDED:
        if intent.block_number is not None and intent.block_number > indexed_block:
            return f"done in block {intent.block_number}, which is not indexed yet"
        return _resting(attempt, retry.after_success_seconds, "it succeeded, but more is due")
    if not intent.state.ended:
        tx = f" ({intent.tx_hash_hex})" if intent.tx_hash_hex else ""
        return f"already submitted: {intent.state}{tx}"
    pause = min(retry.after_failure_seconds * 2.0 ** min(attempt.failures, 20), retry.longest_seconds)
    return _resting(attempt, pause, f"it failed: {intent.reason or intent.state}")


def _resting(attempt: Attempt, pause: float, why: str) -> str | None:
    if not 0 <= attempt.age_seconds < pause:
        return None
    return f"{why}; next try in {pause - attempt.age_seconds:.0f} s"


async def latest_attempts(connection: Connection, chain_id: int, subjects: Iterable[str]) -> dict[str, Attempt]:
    rows = await connection.fetch_all(
        "SELECT subject, attempts, failures, extract(epoch FROM clock_timestamp() - requested_at)::float8, intent_id "
        "FROM keeper_attempt WHERE chain_id = %s AND subject = ANY(%s)",
        (chain_id, list(subjects)),
    )
    latest: dict[str, Attempt] = {}
    intents: dict[int, Intent | None] = {}
    for subject, number, failures, rested, intent_id in rows:
        if intent_id not in intents:
            intents[intent_id] = await read(connection, intent_id)
        intent = intents[intent_id]
        if intent is not None:  # else both were deleted between the two statements
            latest[subject] = Attempt(subject, number, failures, rested, intent)
    return latest


class _LostRace(Exception):
    """Raised if another keeper stored this attempt first."""


async def submit(
    connection: Connection, chain_id: int, request: TransactionRequest, known_attempts: Mapping[str, Attempt]
) -> Intent | None:
    """Store the request as the next attempt of its subjects. Return None if another keeper has stored an attempt since
    `known_attempts` were read."""
    known = {subject: known_attempts.get(subject) for subject in sorted(request.subjects)}
    attempts = {subject: 0 if attempt is None else attempt.number for subject, attempt in known.items()}
    failures = [0 if attempt is None else attempt.failures_in_a_row for attempt in known.values()]
    wanted = IntentRequest(
        key=_key(chain_id, request.kind, attempts),
        chain_id=chain_id,
        group=request.group,
        kind=request.kind,
        to=request.call.to,
        data=request.call.data,
        not_after=request.not_after,
        depends_on=request.depends_on,
        priority=request.priority,
        replay_safe=request.replay_safe,
        payer=request.payer,
    )
    try:
        async with connection.transaction():
            intent = await enqueue(connection, wanted)
            # The subjects are sorted, so that two keepers with subjects in common cannot deadlock.
            cursor = await connection.execute(
                "INSERT INTO keeper_attempt (chain_id, subject, attempts, failures, intent_id) "
                "SELECT %s, s, a + 1, f, %s FROM unnest(%s::text[], %s::int[], %s::int[]) AS u(s, a, f) "
                "ON CONFLICT (chain_id, subject) DO UPDATE SET attempts = excluded.attempts, "
                "failures = excluded.failures, intent_id = excluded.intent_id, "
                "requested_at = now() WHERE keeper_attempt.attempts = excluded.attempts - 1",
                (chain_id, intent.id, list(attempts), list(attempts.values()), failures),
            )
            if cursor.rowcount != len(attempts):
                raise _LostRace
    except (_LostRace, IntentConflict):
        return None
    return intent


def _key(chain_id: int, kind: str, attempts: Mapping[str, int]) -> str:
    """Return the intent's key. It contains the day because counts restart after an old attempt is deleted."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    if len(attempts) == 1:
        ((subject, count),) = attempts.items()
        return f"{key_prefix(chain_id)}{kind}:{subject}#{count + 1}@{today}"[:300]
    subjects = "\n".join(f"{subject}#{count + 1}" for subject, count in sorted(attempts.items()))
    return f"{key_prefix(chain_id)}{kind}:{hashlib.sha256(subjects.encode()).hexdigest()}@{today}"


def key_prefix(chain_id: int) -> str:
    return f"keeper:{chain_id}:"


async def forget(connection: Connection, intents: Sequence[int]) -> int:
    """Delete the attempts whose latest intent is one of these; return how many were deleted."""
    cursor = await connection.execute("DELETE FROM keeper_attempt WHERE intent_id = ANY(%s)", (list(intents),))
    return cursor.rowcount
