"""Payments of stock and agent markets: batches, transfers that the token refuses, and fees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from core.chain import Call
from keeper import metrics
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=20.0, longest_seconds=3600.0)
SWEEP_RETRY = RetryWaits(after_success_seconds=3600.0)

MAX_REFUSED_SECONDS = 3600.0
REFUSED_TIMES = 3
"""A payment refused this often (a quarter of an hour) is waiting for the token and is not late."""

PAYOUTS_AT_ONCE = 50
"""Payouts in one call of `pay` or `deliver`."""


@dataclass(frozen=True, slots=True)
class Payout:
    """A payment due to an owner, in token units. `id` is the id of the position or stake, `failed` counts the token's
    refusals, and `due_at` is in chain time."""

    subject: str
    id: int
    market: str
    owner: bytes
    amount: int
    failed: int
    due_at: int


def retry_after_refusals(times: int) -> RetryWaits:
    """Return the waits after this many refusals by the token. A frozen owner usually stays frozen, but a paused token
    resumes for everyone. So the wait starts at a few minutes and doubles up to an hour."""
    if times == 0:
        return RETRY
    grown = min(RETRY.after_success_seconds * 2.0 ** min(times, 16), MAX_REFUSED_SECONDS)
    return RetryWaits(after_success_seconds=grown, after_failure_seconds=60.0, longest_seconds=6 * 3600.0)


def in_batches(due: Sequence[Payout]) -> list[tuple[Payout, ...]]:
    """Group payouts by transaction. Payouts that were refused before go into separate transactions, so that they never
    delay other payouts."""
    groups = [each for each in due if not each.failed], [each for each in due if each.failed]
    return [
        tuple(group[start : start + PAYOUTS_AT_ONCE])
        for group in groups
        for start in range(0, len(group), PAYOUTS_AT_ONCE)
    ]


async def ready(run: JobRun, due: Sequence[Payout]) -> list[Payout]:
    """Return the payouts that can be sent now, and report why the others must wait."""
    free: list[Payout] = []
    for failed in sorted({each.failed for each in due}):
        alike = {each.subject: each for each in due if each.failed == failed}
        names = {subject: f"payout {each.id} of {each.market}" for subject, each in alike.items()}
        free += [alike[subject] for subject in await run.ready(names, retry_after_refusals(failed))]
    return free


async def send(
    run: JobRun, kind: str, due: Sequence[Payout], call: Callable[[list[int]], Call], *, priority: int = 0
) -> None:
    for batch in in_batches(due):
        markets = sorted({each.market for each in batch})
        request = TransactionRequest(
            kind=kind,
            subjects=tuple(each.subject for each in batch),
            target=f"{len(batch)} payouts of {', '.join(markets[:5])}",
            detail=f"send {sum(each.amount for each in batch)} units to their owners",
            call=call([each.id for each in batch]),
            priority=priority,
        )
        await run.submit(request, retry_after_refusals(min(each.failed for each in batch)))


def measure(run: JobRun, what: str, due: Sequence[Payout]) -> None:
    """Set the gauges of due payouts. Owners whom the token refuses to pay have separate gauges, because money for a
    frozen owner is not late."""
    run.measure_due(what, (each.due_at for each in due if each.failed < REFUSED_TIMES))
    refused = {each.owner for each in due if each.failed >= REFUSED_TIMES}
    metrics.DUE.labels(run.report.job, "owners refused").set(len(refused))


async def sweep(run: JobRun, fees: int, call: Call) -> None:
    """Send the contract's fees to the treasury if they have reached the configured amount."""
    least = run.keeper.how.sweep_from_units
    if fees < least:
        run.report.skip("fees", f"{fees} units have accrued; they are swept at {least} units")
        return
    request = TransactionRequest(
        kind="sweep",
        subjects=("fees:sweep",),
        target="fees",
        detail=f"send {fees} units of fees to the treasury",
        call=call,
        priority=-10,
    )
    await run.submit(request, SWEEP_RETRY)
