"""What stock and agent markets share when they are settled: waits before money is given back, and the transaction."""

from __future__ import annotations

from dataclasses import dataclass

from core.chain import Call
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.node_quorum import NodeQuorum
from keeper.run import JobRun

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=15.0, longest_seconds=900.0)

STALE_PATIENCE_SECONDS = 15 * 60
"""A market without a usable reading is voided no earlier after it could have been settled: a feed that only looks dead
gets the time to print."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The answer that there is nothing to do now."""

    reason: str


def wait_before_void(
    why: str, settles_at: int, now: int, *, agreed: bool, quorum: NodeQuorum, waited_long: bool
) -> Wait | None:
    """Return why a market may not be voided yet for want of a reading (`why`), or None when it may. `settles_at`: when
    it could have been settled; `agreed`: two reads, apart, say the same; `waited_long`: anyone may void it by now."""
    left = settles_at + STALE_PATIENCE_SECONDS - now
    if left > 0:
        return Wait(f"{why}; voided in {left} s at the earliest")
    if not agreed:
        return Wait(f"{why}; a second read must say so too")
    reason = quorum.reason_to_wait(waited_long=waited_long)
    return None if reason is None else Wait(f"{why}{reason}")


async def ask_to_end(run: JobRun, subject: str, name: str, call: Call, why: str) -> None:
    """Ask for the call that settles or voids a market."""
    function = call.function.name
    kind = "resolve" if function == "resolveWith" else "void"
    await run.ask(TransactionRequest(kind, (subject,), name, f"{function}: {why}", call, priority=5), RETRY)
