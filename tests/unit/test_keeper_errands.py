"""When a subject may be attempted again: after what, how soon, and never while something is under way."""

from __future__ import annotations

import pytest

from core.outbox import Intent, IntentState, MinedOutcome
from keeper.errands import Errand, RetryWaits, after_refusals, waits

RETRY = RetryWaits(after_success_seconds=60.0, after_failure_seconds=10.0, longest_seconds=100.0)


def errand(
    state: IntentState,
    outcome: MinedOutcome | None = None,
    *,
    block: int | None = None,
    failures: int = 0,
    ago: float = 0.0,
) -> Errand:
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
    return Errand("s", 1_000, failures, ago, intent)


@pytest.mark.parametrize(
    ("known", "indexed", "free"),
    [
        (None, 0, True),
        # Under way, however long ago.
        (errand(IntentState.QUEUED, ago=10**6), 10, False),
        (errand(IntentState.SIGNED, ago=10**6), 10, False),
        (errand(IntentState.SENT, ago=10**6), 10, False),
        # Done, but what the job read does not show it: it must not be done again.
        (errand(IntentState.MINED, MinedOutcome.SUCCEEDED, block=11, ago=10**6), 10, False),
        (errand(IntentState.FINAL, MinedOutcome.SUCCEEDED, block=11, ago=10**6), 10, False),
        # Done and visible, and still due: again, but not at once.
        (errand(IntentState.MINED, MinedOutcome.SUCCEEDED, block=10, ago=59), 10, False),
        (errand(IntentState.MINED, MinedOutcome.SUCCEEDED, block=10, ago=60), 10, True),
        # It reverted, and may still be mined differently until it is final.
        (errand(IntentState.MINED, MinedOutcome.REVERTED, block=10, ago=10**6), 10, False),
        (errand(IntentState.FAILED, MinedOutcome.REVERTED, block=10, ago=10**6), 10, True),
        (errand(IntentState.REPLACED, MinedOutcome.CANCELLED, block=10, ago=10**6), 10, True),
        # Failures double the pause, up to the longest.
        (errand(IntentState.FAILED, ago=9), 10, False),
        (errand(IntentState.FAILED, ago=10), 10, True),
        (errand(IntentState.FAILED, failures=2, ago=39), 10, False),
        (errand(IntentState.FAILED, failures=2, ago=40), 10, True),
        (errand(IntentState.FAILED, failures=90, ago=99), 10, False),
        (errand(IntentState.FAILED, failures=90, ago=100), 10, True),
        # The clock was set back since: how long it rested nobody knows, and it must not rest for the whole step.
        (errand(IntentState.FAILED, failures=90, ago=-3600), 10, True),
        (errand(IntentState.MINED, MinedOutcome.SUCCEEDED, block=10, ago=-3600), 10, True),
    ],
)
def test_when_a_new_attempt_may_be_made(known: Errand | None, indexed: int, free: bool) -> None:
    reason = waits(known, indexed, RETRY)
    assert (reason is None) is free
    assert reason is None or len(reason) > 10


def test_a_failure_says_why() -> None:
    assert "it would revert" in (waits(errand(IntentState.FAILED), 10, RETRY) or "")


def test_a_refused_payment_waits_minutes_at_first_and_an_hour_at_most() -> None:
    retry = RetryWaits(after_success_seconds=120.0, after_failure_seconds=20.0, longest_seconds=3600.0)
    assert after_refusals(0, retry) == retry
    assert [after_refusals(times, retry).after_success_seconds for times in (1, 2, 3, 4, 5, 50)] == [
        *(240.0, 480.0, 960.0, 1920.0),
        *(3600.0, 3600.0),
    ]
