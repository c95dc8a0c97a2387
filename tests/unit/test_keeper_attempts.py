"""When a subject may be attempted again, and never while an attempt is in progress."""

from __future__ import annotations

import pytest

from core.outbox import Intent, IntentState, MinedOutcome
from keeper.attempts import Attempt, RetryWaits, wait_reason
from keeper.payouts import Payout, in_batches, retry_after_refusals

RETRY = RetryWaits(after_success_seconds=60.0, after_failure_seconds=10.0, longest_seconds=100.0)


def attempt(
    state: IntentState,
    outcome: MinedOutcome | None = None,
    *,
    block: int | None = None,
    failures: int = 0,
    ago: float = 0.0,
) -> Attempt:
    intent = Intent(
        id=1,
        key="k",
        state=state,
        outcome=outcome,
        reason_code=None,
        reason="it would revert" if state is IntentState.FAILED else None,
        nonce=None,
        tx_hash=None,
        block_number=block,
        gas_used=None,
        fee_wei=None,
    )
    return Attempt("s", 1_000, failures, ago, intent)


@pytest.mark.parametrize(
    ("known", "indexed", "free"),
    [
        (None, 0, True),
        # Under way, however long ago.
        (attempt(IntentState.QUEUED, ago=10**6), 10, False),
        (attempt(IntentState.SIGNED, ago=10**6), 10, False),
        (attempt(IntentState.SENT, ago=10**6), 10, False),
        # Done, but what the job read does not show it: it must not be done again.
        (attempt(IntentState.MINED, MinedOutcome.SUCCEEDED, block=11, ago=10**6), 10, False),
        (attempt(IntentState.FINAL, MinedOutcome.SUCCEEDED, block=11, ago=10**6), 10, False),
        # Done and visible, and still due: again, but not at once.
        (attempt(IntentState.MINED, MinedOutcome.SUCCEEDED, block=10, ago=59), 10, False),
        (attempt(IntentState.MINED, MinedOutcome.SUCCEEDED, block=10, ago=60), 10, True),
        # It reverted, and may still be mined differently until it is final.
        (attempt(IntentState.MINED, MinedOutcome.REVERTED, block=10, ago=10**6), 10, False),
        (attempt(IntentState.FAILED, MinedOutcome.REVERTED, block=10, ago=10**6), 10, True),
        (attempt(IntentState.REPLACED, MinedOutcome.CANCELLED, block=10, ago=10**6), 10, True),
        # Failures double the pause, up to the longest.
        (attempt(IntentState.FAILED, ago=9), 10, False),
        (attempt(IntentState.FAILED, ago=10), 10, True),
        (attempt(IntentState.FAILED, failures=2, ago=39), 10, False),
        (attempt(IntentState.FAILED, failures=2, ago=40), 10, True),
        (attempt(IntentState.FAILED, failures=90, ago=99), 10, False),
        (attempt(IntentState.FAILED, failures=90, ago=100), 10, True),
        # The clock was set back since: how long it rested is unknown, and it must not rest for the whole step.
        (attempt(IntentState.FAILED, failures=90, ago=-3600), 10, True),
        (attempt(IntentState.MINED, MinedOutcome.SUCCEEDED, block=10, ago=-3600), 10, True),
    ],
)
def test_when_a_new_attempt_may_be_made(known: Attempt | None, indexed: int, free: bool) -> None:
    reason = wait_reason(known, indexed, RETRY)
    assert (reason is None) is free
    assert reason is None or len(reason) > 10


def test_a_failure_says_why() -> None:
    assert "it would revert" in (wait_reason(attempt(IntentState.FAILED), 10, RETRY) or "")


def test_a_refused_payment_waits_minutes_at_first_and_an_hour_at_most() -> None:
    assert retry_after_refusals(0).after_success_seconds == 120.0
    assert [retry_after_refusals(times).after_success_seconds for times in (1, 2, 3, 4, 5, 50)] == [
        *(240.0, 480.0, 960.0, 1920.0),
        *(3600.0, 3600.0),
    ]


@pytest.mark.parametrize(
    ("fresh", "failed", "sizes"), [(0, 0, []), (1, 0, [1]), (50, 0, [50]), (51, 0, [50, 1]), (120, 3, [50, 50, 20, 3])]
)
def test_batches_of_fifty_with_the_refused_ones_apart(fresh: int, failed: int, sizes: list[int]) -> None:
    due = [Payout("s", n, "m", b"a", 10, 0, 0) for n in range(fresh)]
    due += [Payout("s", 1000 + n, "m", b"a", 10, 2, 0) for n in range(failed)]
    batches = in_batches(due)
    assert [len(batch) for batch in batches] == sizes
    assert all(len({bool(each.failed) for each in batch}) == 1 for batch in batches)
    assert sorted(each.id for batch in batches for each in batch) == sorted(each.id for each in due)
