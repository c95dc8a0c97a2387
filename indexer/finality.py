"""The newest final block of a chain, on which all answering nodes must agree; and where a reorganization began.

After a reorganization, tables and chain agree up to some block and disagree above it. That block is the highest stored
one whose hash the chain still has at its number.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indexer.decode import BlockInfo
from indexer.node import ChainNode

ASK_SECONDS = 5.0
ANSWER_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""How long a node that did not answer is not asked again: the head waits for each question."""
STALLED_SECONDS = 3600.0
"""A node that reports the same final block for this long is stalled, and ignored while another one is not."""


@dataclass(slots=True)
class _FinalReport:
    """A node's newest final block, and when the node first reported it."""

    number: int
    since: float


@dataclass(slots=True)
class FinalityTracker:
    """A tracker of the newest final block. `due_at` is when to ask the nodes next. `last` is each node's last report,
    by the node's index in the list."""

    node: ChainNode
    due_at: float = -math.inf
    last: dict[int, _FinalReport] = field(default_factory=dict)

    async def if_due(self, head: int) -> int | None:
        """Return the newest final block up to the head, or None if it is not due yet or no node knows one."""
        now = time.monotonic()
        if now < self.due_at:
            return None
        self.due_at = now + ASK_SECONDS
        number = await self._agreed_final(head, now)
        return number if number is not None and number <= head else None

    async def _agreed_final(self, head: int, now: float) -> int | None:
        """Return the newest block that all answering nodes report as final: accepting a wrong one cannot be undone. A
        node that does not answer causes no delay, and a stalled node only a short one."""
        nodes = self.node.separate_nodes()
        if len(nodes) == 1:
            return await self.node.finalized()
        asked = (asyncio.wait_for(node.finalized(), ANSWER_SECONDS) for node in nodes)
        reports = await asyncio.gather(*asked, return_exceptions=True)
        if any(isinstance(each, Exception) for each in reports):
            self.due_at = now + SILENT_SECONDS
        numbers = {place: each for place, each in enumerate(reports) if isinstance(each, int) and each <= head}
        if not numbers:
            return await self.node.finalized()  # of a third node, perhaps
        return min(self._advancing(numbers, now) or numbers.values())

    def _advancing(self, numbers: Mapping[int, int], now: float) -> list[int]:
        """Return the reported numbers of those nodes that are not stalled."""
        for place, number in numbers.items():
            if place not in self.last or self.last[place].number != number:
                self.last[place] = _FinalReport(number, now)
        return [number for place, number in numbers.items() if now - self.last[place].since < STALLED_SECONDS]


@dataclass(frozen=True, slots=True)
class Fork:
    """The point where the tables and the chain diverge. `ancestor` is the last block that both have, or None if there
    is none. `replaced` is the first stored block above it, which the chain must no longer have."""

    ancestor: BlockInfo | None
    replaced: BlockInfo | None


def common_ancestor(stored: Sequence[BlockInfo], on_chain: Mapping[int, bytes]) -> Fork | None:
    """Return the fork among the `stored` blocks, which are in descending order. Return None if all of them are
    replaced: the fork is then deeper."""
    above: BlockInfo | None = None
    for block in stored:
        if on_chain.get(block.number) == block.hash:
            return Fork(block, above)
        above = block
    return None


def confirms_fork(fork: Fork, ancestor_hash: bytes | None, replaced_hash: bytes | None) -> bool:
    """Return whether a node has the same fork, given the node's hashes at the numbers of the fork's two blocks.

    A hash is None if the node has no such block. A node without the ancestor does not confirm the fork, since the node
    may lag. A node without the replaced block does, since its chain may have been cut short.
    """
    if fork.ancestor is not None and ancestor_hash != fork.ancestor.hash:
        return False
    return fork.replaced is None or replaced_hash != fork.replaced.hash
