"""Finds the newest final block, on which all responding nodes must agree, and the last block before a reorg."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.db.engine import Connection
from core.hexadecimal import bytes_of
from indexer.errors import NodeFault
from indexer.fold.rows import BlockInfo
from indexer.node import RpcNode
from indexer.store.cursor import blocks_below, first_block_after

ASK_SECONDS = 5.0
ANSWER_SECONDS = 1.0
SILENT_SECONDS = 60.0
"""A node that did not respond is not asked again for this long, because the head waits for its response."""
LOOK_BACK = 64  # stored blocks compared with the chain at once
STALLED_SECONDS = 3600.0
"""A node that has reported the same final block for this long is ignored, unless all nodes have."""


@dataclass(slots=True)
class FinalityTracker:
    node: RpcNode
    due_at: float = -math.inf  # when to ask the nodes next
    # Each node's final block and when it first reported it, by the node's index.
    last: dict[int, tuple[int, float]] = field(default_factory=dict)

    async def if_due(self, head: int) -> int | None:
        """Return the newest final block up to the head, or None if no check is due or no node knows a final block."""
        now = time.monotonic()
        if now < self.due_at:
            return None
        self.due_at = now + ASK_SECONDS
        number = await self._agreed_final(head, now)
        return number if number is not None and number <= head else None

    async def _agreed_final(self, head: int, now: float) -> int | None:
        """Return the newest block that all responding nodes report as final. All must agree, because accepting a wrong
        block cannot be undone. A node that does not respond causes no delay, and a stalled node causes only a short
        one."""
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
            if place not in self.last or self.last[place][0] != number:
                self.last[place] = number, now
        return [number for place, number in numbers.items() if now - self.last[place][1] < STALLED_SECONDS]


@dataclass(frozen=True, slots=True)
class Fork:
    """The place where the tables and the chain diverge. `ancestor` is the last block that both have, if any. `replaced`
    is the first stored block above the ancestor; the chain must no longer have that block."""

    ancestor: BlockInfo | None
    replaced: BlockInfo | None


async def find_fork(connection: Connection, node: RpcNode, chain_id: int, top: int) -> Fork:
    """Return where the node's chain diverges from the stored blocks up to `top`."""
    above = await first_block_after(connection, chain_id, top)
    while stored := await blocks_below(connection, chain_id, top, LOOK_BACK):
        on_chain = await _hashes(node, stored)
        for block in stored:
            if on_chain.get(block.number) == block.hash:
                return Fork(block, above)
            above = block
        top = stored[-1].number - 1
    return Fork(None, above)


async def require_agreement(node: RpcNode, fork: Fork) -> None:
    """Raise NodeFault unless every node has the same fork. A node without the ancestor may lag, so it does not confirm
    the fork. A node without the replaced block does confirm it: that node's chain may have been cut short."""
    blocks = [block for block in (fork.ancestor, fork.replaced) if block is not None]
    for each in node.separate_nodes():
        hashes = await _hashes(each, blocks)
        has_ancestor = fork.ancestor is None or hashes.get(fork.ancestor.number) == fork.ancestor.hash
        if not has_ancestor or (fork.replaced is not None and hashes.get(fork.replaced.number) == fork.replaced.hash):
            raise NodeFault(
                f"The nodes disagree about a reorganization at block {blocks[-1].number}. The index waits until they"
                " agree."
            )


async def _hashes(node: RpcNode, blocks: Sequence[BlockInfo]) -> dict[int, bytes]:
    numbers = [block.number for block in blocks]
    headers = await node.headers(numbers) if numbers else []
    return {number: bytes_of(each.hash) for number, each in zip(numbers, headers, strict=True) if each is not None}
