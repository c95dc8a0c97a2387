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
    """A tracker of the newest final block. `due_at`: when to ask the nodes next. `last`: each node's last report, by
    its place in the list."""

    node: ChainNode
    due_at: float = -math.inf
    last: dict[int, _FinalReport] = field(default_factory=dict)

    async def if_due(self, head: int) -> int | None:
        """Return the newest final block up to the head; None if it is not due, or no node knows it."""
        now = time.monotonic()
        if now < self.due_at:
            return None
        self.due_at = now + ASK_SECONDS
        number = await self._agreed_final(head, now)
        return number if number is not None and number <= head else None

    async def _agreed_final(self, head: int, now: float) -> int | None:
        """Return the newest block that all answering nodes call final, since accepting a wrong one cannot be undone. A
        silent node delays nothing, a stalled one not for long."""
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
        """Return the numbers of the nodes that are not stalled."""
        for place, number in numbers.items():
            if place not in self.last or self.last[place].number != number:
                self.last[place] = _FinalReport(number, now)
        return [number for place, number in numbers.items() if now - self.last[place].since < STALLED_SECONDS]


@dataclass(frozen=True, slots=True)
class Fork:
    """The point where chain and tables part: `ancestor` is the last block both have, None if there is none; `replaced`
    is the first stored block above it, which the chain must no longer have."""

    ancestor: BlockInfo | None
    replaced: BlockInfo | None


def common_ancestor(stored: Sequence[BlockInfo], on_chain: Mapping[int, bytes]) -> Fork | None:
    """Return the fork among `stored`, descending by number; None if all of them are replaced, so the fork is deeper."""
    above: BlockInfo | None = None
    for block in stored:
        if on_chain.get(block.number) == block.hash:
            return Fork(block, above)
        above = block
    return None


def confirms_fork(fork: Fork, ancestor_hash: bytes | None, replaced_hash: bytes | None) -> bool:
    """Return whether a node whose hashes at the numbers of both blocks are these has the same fork.

    A hash is None if the node has no such block. It may lag, so it confirms no ancestor; but a chain that was cut short
    lacks the replaced block."""
    if fork.ancestor is not None and ancestor_hash != fork.ancestor.hash:
        return False
    return fork.replaced is None or replaced_hash != fork.replaced.hash
