"""The newest final block of a chain, on which every node that answers must agree; and where a chain was replaced.

Blocks of a chain agree up to some number and disagree above it, so the last block that the tables and the chain agree
on is the highest stored one whose hash the chain still has at that number.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from indexer.logs import BlockInfo
from indexer.node import ChainNode

ASK_SECONDS = 5.0
ANSWER_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""After so long a node is asked again that did not answer: the head waits for each."""
STANDS_SECONDS = 3600.0
"""A node that calls the same block final for so long has no say while another does not: it stands still."""


@dataclass(slots=True)
class _Said:
    """A block that a node calls final, and when it was first seen to."""

    number: int
    since: float


@dataclass(slots=True)
class FinalityTracker:
    """A tracker of the newest final block. `due_at`: when the nodes are asked next. `last`: each node's last answer, by
    its place."""

    node: ChainNode
    due_at: float = -math.inf
    last: dict[int, _Said] = field(default_factory=dict)

    async def if_due(self, head: int) -> int | None:
        """Return the newest final block, up to the head; None when it is not time to ask, or no node knows it."""
        now = time.monotonic()
        if now < self.due_at:
            return None
        self.due_at = now + ASK_SECONDS
        number = await self._of_all(head, now)
        return number if number is not None and number <= head else None

    async def _of_all(self, head: int, now: float) -> int | None:
        """Return the newest block that all answering nodes call final: a mistaken node would be believed for good. A
        silent node holds nothing up, and one that is stuck not for long."""
        nodes = self.node.opinions()
        if len(nodes) == 1:
            return await self.node.finalized()
        asked = (asyncio.wait_for(node.finalized(), ANSWER_SECONDS) for node in nodes)
        said = await asyncio.gather(*asked, return_exceptions=True)
        if any(isinstance(each, Exception) for each in said):
            self.due_at = now + SILENT_SECONDS
        numbers = {place: each for place, each in enumerate(said) if isinstance(each, int) and each <= head}
        if not numbers:
            return await self.node.finalized()  # of a third node, perhaps
        return min(self._moving(numbers, now) or numbers.values())

    def _moving(self, numbers: Mapping[int, int], now: float) -> list[int]:
        """Return those of these numbers, by the nodes' places, that were not said for too long."""
        for place, number in numbers.items():
            if place not in self.last or self.last[place].number != number:
                self.last[place] = _Said(number, now)
        return [number for place, number in numbers.items() if now - self.last[place].since < STANDS_SECONDS]


@dataclass(frozen=True, slots=True)
class Fork:
    """Where the chain left the blocks we stored: `ancestor` is the last block both have, None when none of those stored
    is left; `replaced` the first stored block above it, which the chain must not have any more."""

    ancestor: BlockInfo | None
    replaced: BlockInfo | None


def common_ancestor(stored: Sequence[BlockInfo], on_chain: Mapping[int, bytes]) -> Fork | None:
    """Return the fork among `stored`, descending by number. None when all of them are replaced: look further down."""
    above: BlockInfo | None = None
    for block in stored:
        if on_chain.get(block.number) == block.hash:
            return Fork(block, above)
        above = block
    return None


def confirms(fork: Fork, ancestor_hash: bytes | None, replaced_hash: bytes | None) -> bool:
    """Return whether another node, asked for both blocks' hashes by number, reports the same fork.

    None means it has no such block: it may lag, and confirms nothing, except that a chain cut short lacks what was
    replaced."""
    if fork.ancestor is not None and ancestor_hash != fork.ancestor.hash:
        return False
    return fork.replaced is None or replaced_hash != fork.replaced.hash
