"""What stock and agent markets share when they are settled: waits before money is given back, what other nodes, each
asked alone, say of readings for want of which it would be, and the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from core.chain import Call, ChainClient, RpcError
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun

RETRY = RetryWaits(after_success_seconds=120.0, after_failure_seconds=15.0, longest_seconds=900.0)

STALE_PATIENCE_SECONDS = 15 * 60
"""A market without a usable reading is voided no earlier after it could have been settled: a feed that only looks dead
gets the time to print."""


class NodeVerdict(Enum):
    """What one node says of what another one read."""

    SAME = auto()
    OTHER = auto()
    NONE = auto()  # nothing: it is away, or in no state to answer


@dataclass(frozen=True, slots=True)
class NodeQuorum:
    """The nodes by what they said. A node that is away holds up no money: only one that contradicts does. None are
    asked where one node is all there is."""

    agreeing: tuple[str, ...] = ()
    contradicting: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def reason_to_wait(self, *, waited_long: bool) -> str | None:
        """Return why nothing may rest on the reading yet, as the end of a sentence that says what it is.

        While not one node confirms it, those that are away are waited for, until anyone may void the market.
        """
        if self.contradicting:
            return f", yet not by {_names(self.contradicting)}"
        if self.silent and not self.agreeing and not waited_long:
            return f"; {self._away}"
        return None

    @property
    def remark(self) -> str:
        """Return which nodes did not answer, as the end of a sentence; empty when all did."""
        return f" ({self._away})" if self.silent else ""

    @property
    def _away(self) -> str:
        return f"no answer from {_names(self.silent)}"


NO_OTHER_NODES = NodeQuorum()


async def ask_each(clients: Sequence[ChainClient], ask: Callable[[ChainClient], Awaitable[NodeVerdict]]) -> NodeQuorum:
    """Return what each says; one that answers with an error says something else, if it is in a state to answer."""

    async def verdict_of(client: ChainClient) -> NodeVerdict:
        try:
            return await ask(client)
        except RpcError as error:
            return NodeVerdict.NONE if error.kind.blames_node else NodeVerdict.OTHER

    verdicts = await asyncio.gather(*map(verdict_of, clients))
    by_verdict: dict[NodeVerdict, list[str]] = {verdict: [] for verdict in NodeVerdict}
    for client, verdict in zip(clients, verdicts, strict=True):
        by_verdict[verdict] += client.provider.labels
    agreeing, contradicting, silent = (tuple(by_verdict[verdict]) for verdict in NodeVerdict)
    return NodeQuorum(agreeing, contradicting, silent)


def _names(nodes: tuple[str, ...]) -> str:
    return " and ".join(nodes)


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
