"""One attempt at a time for each subject, however many keepers run and however often they are killed.

A subject is a text such as `stock:resolve:17`; a transaction may serve many (a batch of deliveries). An attempt is
asked for in one database transaction with its outbox intent, and only if nobody made it since it was read: the number
of attempts is compared and swapped. What the index does not show yet counts as under way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from core.chain import Call
from core.db.engine import Connection
from core.outbox import KEEPER, Intent, IntentConflict, IntentRequest, MinedOutcome, enqueue, read


@dataclass(frozen=True, slots=True)
class Errand:
    """The latest attempt for a subject. `failures`: how many right before it failed in a row. `rested_seconds`: since
    it was asked for, by the database's clock alone; negative once that clock was set back."""

    subject: str
    attempts: int
    failures: int
    rested_seconds: float
    intent: Intent

    @property
    def failures_now(self) -> int:
        """In a row, the latest attempt counted: it failed, unless the chain says it succeeded."""
        return 0 if self.intent.outcome is MinedOutcome.SUCCEEDED else self.failures + 1


@dataclass(frozen=True, slots=True)
class RetryWaits:
    """The seconds before another attempt: after one that succeeded without reaching its aim, and after one that failed,
    which doubles with each attempt up to `longest_seconds`."""

    after_success_seconds: float = 60.0
    after_failure_seconds: float = 10.0
    longest_seconds: float = 3600.0


MAX_REFUSED_SECONDS = 3600.0
REFUSED_TIMES = 3
"""So often refused within a quarter of an hour, a payment waits for the token and not for us."""


def after_refusals(times: int, retry: RetryWaits) -> RetryWaits:
    """For payments that the token refused so often. An owner it has frozen will mostly stay frozen, but a token that
    was paused for everybody pays again: so the wait begins at minutes and doubles up to an hour."""
    if times == 0:
        return retry
    grown = min(retry.after_success_seconds * 2.0 ** min(times, 16), MAX_REFUSED_SECONDS)
    return RetryWaits(after_success_seconds=grown, after_failure_seconds=60.0, longest_seconds=6 * 3600.0)


class Payout(Protocol):
    """What is owed to somebody. `due_at`: since when, on the chain; `failed`: how often the token refused it."""

    @property
    def subject(self) -> str: ...

    @property
    def owner(self) -> bytes: ...

    @property
    def due_at(self) -> int: ...

    @property
    def failed(self) -> int: ...


AnyPayout = TypeVar("AnyPayout", bound=Payout)

PAYOUTS_AT_ONCE = 50
"""In one `pay` or `deliver`."""


def in_batches(due: Sequence[AnyPayout]) -> list[tuple[AnyPayout, ...]]:
    """For one transaction each. One that the token refused before goes with its like, so it never delays the others."""
    groups = [each for each in due if not each.failed], [each for each in due if each.failed]
    return [
        tuple(group[start : start + PAYOUTS_AT_ONCE])
        for group in groups
        for start in range(0, len(group), PAYOUTS_AT_ONCE)
    ]


@dataclass(frozen=True, slots=True)
class Want:
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


def waits(errand: Errand | None, indexed_block: int, retry: RetryWaits) -> str | None:
    """Why no new attempt may be made yet, or None when it may.

    indexed_block: the last block the index holds; a success above it is not visible in what the job read.
    """
    if errand is None:
        return None
    intent = errand.intent
    if intent.outcome is MinedOutcome.SUCCEEDED:
        if intent.block_number is not None and intent.block_number > indexed_block:
            return f"done in block {intent.block_number}, which the index has not read yet"
        return _resting(errand, retry.after_success_seconds, "was done, yet more is due")
    if not intent.state.ended:
        said = f" ({intent.tx_hash_hex})" if intent.tx_hash_hex else ""
        return f"already asked for: {intent.state}{said}"
    pause = min(retry.after_failure_seconds * 2.0 ** min(errand.failures, 20), retry.longest_seconds)
    return _resting(errand, pause, f"it failed: {intent.reason or intent.state}")


def _resting(errand: Errand, pause: float, why: str) -> str | None:
    if not 0 <= errand.rested_seconds < pause:
        return None
    return f"{why}; next try in {pause - errand.rested_seconds:.0f} s"


async def recall(connection: Connection, chain_id: int, subjects: Iterable[str]) -> dict[str, Errand]:
    """The latest attempts for those subjects that ever had one."""
    cursor = await connection.execute(
        "SELECT subject, attempts, failures, extract(epoch FROM clock_timestamp() - asked_at)::float8, intent_id "
        "FROM keeper_errand "
        "WHERE chain_id = %s AND subject = ANY(%s)",
        (chain_id, list(subjects)),
    )
    errands: dict[str, Errand] = {}
    intents: dict[int, Intent | None] = {}
    for subject, attempts, failures, rested, intent_id in await cursor.fetchall():
        if intent_id not in intents:
            intents[intent_id] = await read(connection, intent_id)
        intent = intents[intent_id]
        if intent is not None:  # else both were forgotten between the two statements
            errands[subject] = Errand(subject, attempts, failures, rested, intent)
    return errands


class _Overtaken(Exception):
    """The news that another keeper made this attempt first."""


Also = Callable[[Connection, Intent], Awaitable[bool]]
"""Something written together with an attempt; False when somebody else was first there, and nothing is asked."""


async def ask(
    connection: Connection, chain_id: int, want: Want, recalled: Mapping[str, Errand], also: Also | None = None
) -> Intent | None:
    """Asks for the transaction as the next attempt of its subjects; None when another keeper was first.

    `recalled` is what `recall` said when the decision was made.
    """
    attempts = {subject: recalled[subject].attempts if subject in recalled else 0 for subject in want.subjects}
    request = IntentRequest(
        key=_key(chain_id, want.kind, attempts),
        chain_id=chain_id,
        group=want.group,
        kind=want.kind,
        to=want.call.to,
        data=want.call.data,
        not_after=want.not_after,
        depends_on=want.depends_on,
        priority=want.priority,
        replay_safe=want.replay_safe,
        payer=want.payer,
    )
    try:
        async with connection.transaction():
            intent = await enqueue(connection, request)
            # In one order, so that two keepers with subjects in common cannot deadlock.
            ordered = sorted(attempts)
            cursor = await connection.execute(
                "INSERT INTO keeper_errand (chain_id, subject, attempts, failures, intent_id) "
                "SELECT %s, s, a + 1, f, %s FROM unnest(%s::text[], %s::int[], %s::int[]) AS u(s, a, f) "
                "ON CONFLICT (chain_id, subject) DO UPDATE SET attempts = excluded.attempts, "
                "failures = excluded.failures, intent_id = excluded.intent_id, "
                "asked_at = now() WHERE keeper_errand.attempts = excluded.attempts - 1",
                (
                    chain_id,
                    intent.id,
                    ordered,
                    [attempts[subject] for subject in ordered],
                    [recalled[subject].failures_now if subject in recalled else 0 for subject in ordered],
                ),
            )
            if cursor.rowcount != len(ordered):
                raise _Overtaken
            if also is not None and not await also(connection, intent):
                raise _Overtaken
    except (_Overtaken, IntentConflict):
        return None
    return intent


def _key(chain_id: int, kind: str, attempts: Mapping[str, int]) -> str:
    """Of exactly this attempt. The day is in it because counts begin anew once an old errand was forgotten."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    if len(attempts) == 1:
        ((subject, count),) = attempts.items()
        return f"{key_prefix(chain_id)}{kind}:{subject}#{count + 1}@{today}"[:300]
    subjects = "\n".join(f"{subject}#{attempts[subject] + 1}" for subject in sorted(attempts))
    return f"{key_prefix(chain_id)}{kind}:{hashlib.sha256(subjects.encode()).hexdigest()}@{today}"


def key_prefix(chain_id: int) -> str:
    """What the keys of all errands begin with."""
    return f"keeper:{chain_id}:"


async def forget(connection: Connection, intents: Sequence[int]) -> int:
    """Forgets the errands whose latest attempts these intents were; returns how many."""
    cursor = await connection.execute("DELETE FROM keeper_errand WHERE intent_id = ANY(%s)", (list(intents),))
    return cursor.rowcount
