"""Code for settling that stock and agent markets share: the wait before a market is voided for a missing reading, the
check with other nodes that the reading is missing, and the transaction."""

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
"""How long after it could have been settled a market without a usable reading is voided: a feed that only looks dead
may still publish."""


class NodeVerdict(Enum):
    """One node's answer compared with ours."""

    SAME = auto()
    OTHER = auto()
    NONE = auto()  # no answer


@dataclass(frozen=True, slots=True)
class NodeQuorum:
    """The nodes, grouped by their answers. A node that does not answer does not hold up money forever; a node that
    contradicts does. All groups are empty if only one node is configured."""

    agreeing: tuple[str, ...] = ()
    contradicting: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def reason_to_wait(self, *, waited_long: bool) -> str | None:
        """Return why the missing reading is not confirmed yet, or None if it is. The reason is the end of a sentence
        about the reading.

        While no node confirms that the reading is missing, wait for the silent nodes until anyone may void the market.
        """
        if self.contradicting:
            return f", but not according to {_names(self.contradicting)}"
        if self.silent and not self.agreeing and not waited_long:
            return f"; {self._away}"
        return None

    @property
    def remark(self) -> str:
        """Return the nodes that did not answer, as the end of a sentence; empty if all answered."""
        return f" ({self._away})" if self.silent else ""

    @property
    def _away(self) -> str:
        return f"no answer from {_names(self.silent)}"


NO_OTHER_NODES = NodeQuorum()


async def poll_nodes(
    clients: Sequence[ChainClient], ask: Callable[[ChainClient], Awaitable[NodeVerdict]]
) -> NodeQuorum:
    """Ask each node for its verdict. Count an error as a contradiction, unless the node itself is at fault."""

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
    """The decision to do nothing now."""

    reason: str


def wait_before_void(
    why: str, settles_at: int, now: int, *, agreed: bool, quorum: NodeQuorum, waited_long: bool
) -> Wait | None:
    """Return why a market may not be voided yet for a missing reading, or None if it may be. `why` describes what is
    missing. `settles_at` is when the market could have been settled. `agreed`: two reads some time apart agree.
    `waited_long`: anyone may void the market by now."""
    left = settles_at + STALE_PATIENCE_SECONDS - now
    if left > 0:
        return Wait(f"{why}; voided in {left} s at the earliest")
    if not agreed:
        return Wait(f"{why}; a second read must confirm it")
    reason = quorum.reason_to_wait(waited_long=waited_long)
    return None if reason is None else Wait(f"{why}{reason}")


async def request_ending(run: JobRun, subject: str, name: str, call: Call, why: str) -> None:
    """Submit the call that settles or voids a market."""
    function = call.function.name
    kind = "resolve" if function == "resolveWith" else "void"
    await run.submit(TransactionRequest(kind, (subject,), name, f"{function}: {why}", call, priority=5), RETRY)
