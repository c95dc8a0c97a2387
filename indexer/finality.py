"""The newest final block, on which all responding nodes must agree, and the last block before a reorganization."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indexer.fold.rows import BlockInfo
from indexer.node import RpcNode

ASK_SECONDS = 5.0
ANSWER_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""A node that did not respond is not asked again for this long, because the head waits for its response."""
STALLED_SECONDS = 3600.0
"""A node that has reported the same final block for this long is ignored, unless all nodes have."""


@dataclass(slots=True)
class _FinalReport:
    number: int
    since: float  # when the node first reported this block


@dataclass(slots=True)
class FinalityTracker:
    node: RpcNode
    due_at: float = -math.inf  # when to ask the nodes next
    last: dict[int, _FinalReport] = field(default_factory=dict)  # by the node's index

    async def if_due(self, head: int) -> int | None:
        """Return the newest final block up to the head, or None if it is not due yet or no node knows one."""
        now = time.monotonic()
        if now < self.due_at:
            return None
        self.due_at = now + ASK_SECONDS
        number = await self._agreed_final(head, now)
        return number if number is not None and number <= head else None

    async def _agreed_final(self, head: int, now: float) -> int | None:
        """Return the newest block that all responding nodes report as final: accepting a wrong one cannot be undone. A
        silent node causes no delay, and a stalled node only a short one."""
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
        for place, number in numbers.items():
            if place not in self.last or self.last[place].number != number:
                self.last[place] = _FinalReport(number, now)
        return [number for place, number in numbers.items() if now - self.last[place].since < STALLED_SECONDS]


@dataclass(frozen=True, slots=True)
class Fork:
    """The place where tables and chain diverge. `ancestor` is the last block that both have, if any. `replaced` is the
    first stored block above it, which the chain must no longer have."""

    ancestor: BlockInfo | None
    replaced: BlockInfo | None


def common_ancestor(stored: Sequence[BlockInfo], on_chain: Mapping[int, bytes]) -> Fork | None:
    """Return the fork among the `stored` blocks, which are in descending order, or None if it is deeper."""
    above: BlockInfo | None = None
    for block in stored:
        if on_chain.get(block.number) == block.hash:
            return Fork(block, above)
        above = block
    return None


def confirms_fork(fork: Fork, ancestor_hash: bytes | None, replaced_hash: bytes | None) -> bool:
    """Return whether a node has the same fork, given the hashes that it has at the fork's two numbers. A node without
    the ancestor may lag, so it does not confirm the fork. A node without the replaced block does: its chain may have
    been cut short."""
    if fork.ancestor is not None and ancestor_hash != fork.ancestor.hash:
        return False
    return fork.replaced is None or replaced_hash != fork.replaced.hash
