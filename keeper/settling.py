"""Settling of stock and agent markets: the wait before a market is voided for a missing reading, the check with other
nodes that the reading is missing, and the transaction."""

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
"""The wait before a market without a usable reading is voided, from the time when it could have been settled. A feed
that only looks dead may still publish."""


class NodeVerdict(Enum):
    """A node's reading compared with ours."""

    SAME = auto()
    OTHER = auto()
    NONE = auto()  # no response


@dataclass(frozen=True, slots=True)
class NodeQuorum:
    """The nodes by their verdicts. A silent node does not hold up money forever; a contradicting node does. All groups
    are empty if only one node is configured."""

    agreeing: tuple[str, ...] = ()
    contradicting: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def reason_to_wait(self, *, waited_long: bool) -> str | None:
        """Return why the missing reading is not confirmed yet, as the end of a sentence. Return None if it is
        confirmed. If no node confirms that the reading is missing, wait for the silent nodes until anyone may void the
        market."""
        if self.contradicting:
            return f", but not according to {_names(self.contradicting)}"
        if self.silent and not self.agreeing and not waited_long:
            return f"; {self._away}"
        return None

    @property
    def remark(self) -> str:
        """Return the silent nodes as the end of a sentence, or an empty text if there are none."""
        return f" ({self._away})" if self.silent else ""

    @property
    def _away(self) -> str:
        return f"no response from {_names(self.silent)}"


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
    """Return why a market may not be voided yet for a missing reading, or None if it may be.

    `why` describes what is missing, and `settles_at` is when the market could have been settled. `agreed` says whether
    two reads some time apart agree. `waited_long` says whether anyone may void the market by now.
    """
    left = settles_at + STALE_PATIENCE_SECONDS - now
    if left > 0:
        return Wait(f"{why}; voided in {left} s at the earliest")
    if not agreed:
        return Wait(f"{why}; a second read must confirm it")
    reason = quorum.reason_to_wait(waited_long=waited_long)
    return None if reason is None else Wait(f"{why}{reason}")


async def request_ending(run: JobRun, subject: str, name: str, call: Call, why: str) -> None:
    function = call.function.name
    kind = "resolve" if function == "resolveWith" else "void"
    await run.submit(TransactionRequest(kind, (subject,), name, f"{function}: {why}", call, priority=5), RETRY)
