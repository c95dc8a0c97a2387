"""One chain as its lanes see it: the head, gas prices, and which blocks are still canonical after a reorg."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import median_low

from core.chain import Block, ChainClient, RpcError
from core.log import get_logger
from relayer import metrics
from relayer.policy import FeeMarket

log = get_logger(__name__)

# A longer gap between two heads is not walked; every mined block is compared again instead.
WALKED_BLOCKS = 256
FEE_BLOCKS = 10
# Responses must contradict the known blocks for this long before a lower head is accepted as a shorter chain, or a head
# that does not connect replaces them.
BEHIND_SECONDS = 10.0
# The interval while no transaction of a lane waits for its block.
IDLE_POLL_SECONDS = 15.0
# How long priority fees are used before they are read again.
FEE_SECONDS = 15.0


@dataclass(eq=False)
class ChainFeed:
    """The head and recent blocks of one chain, shared by its lanes. `run` never returns.

    is_idle: returns whether no transaction of a lane is waiting for its block. If so, the node is polled less often,
    and blocks between two heads are not read.
    sequence: a number that rises with every new head.
    reorgs: a number that rises with every reorg, and whenever blocks were missed.
    """

    client: ChainClient
    name: str
    chain_id: int
    finality_blocks: int
    poll_seconds: float
    idle_seconds: float = IDLE_POLL_SECONDS
    behind_seconds: float = BEHIND_SECONDS
    is_idle: Callable[[], bool] = lambda: False
    sequence: int = 0
    reorgs: int = 0
    down_since: float | None = None
    problem: str | None = None  # why no head can be read
    _mismatch_since: float | None = None
    _head: Block | None = None
    _market: FeeMarket | None = None
    _fees_read_at: float = -math.inf
    # Hashes of canonical blocks by height up to the head, with gaps. Replaced as a whole, never changed in place.
    _hashes: dict[int, str] = field(default_factory=dict)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _poll_requested: asyncio.Event = field(default_factory=asyncio.Event)
    _polled: asyncio.Event = field(default_factory=asyncio.Event)
    _polled_at: float = -math.inf

    @property
    def head(self) -> Block:
        assert self._head is not None, "wait for the first head"
        return self._head

    @property
    def market(self) -> FeeMarket:
        assert self._market is not None, "wait for the first head"
        return self._market

    @property
    def has_head(self) -> bool:
        return self._head is not None and self._market is not None

    @property
    def nodes(self) -> list[ChainClient]:
        return [self.client.pinned(position) for position in range(len(self.client.provider.labels))]

    async def check(self) -> tuple[bool, str]:
        if self.down_since is not None:
            return False, f"no head for {time.monotonic() - self.down_since:.0f} s: {self.problem}"
        return self.has_head, f"head {self.head.number}" if self.has_head else "no head yet"

    def poll_now(self) -> None:
        self._poll_requested.set()

    async def refresh(self) -> None:
        """Poll if the feed was idle at its last poll: the known head and fees may then be too old for signing."""
        if time.monotonic() - self._polled_at > self.poll_seconds + 1.0:
            self._polled.clear()
            self.poll_now()
            await self._polled.wait()

    async def wait(self, after_sequence: int, timeout_seconds: float) -> bool:
        """Wait for a head newer than `after_sequence`; return False on timeout."""
        try:
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: self.sequence > after_sequence)
        except TimeoutError:
            return False
        return True

    async def hashes_of(self, numbers: Iterable[int]) -> dict[int, str | None]:
        """Return block hashes by height, with None where the chain is shorter. Hashes read from a node are not
        remembered, because we would not notice if they changed."""
        hashes: dict[int, str | None] = {number: self._hashes.get(number) for number in numbers}
        missing = [number for number, block_hash in hashes.items() if block_hash is None]
        if missing:
            blocks = await self.client.blocks(missing)
            hashes |= {
                number: None if block is None else block.hash for number, block in zip(missing, blocks, strict=True)
            }
        return hashes

    async def run(self) -> None:
        while True:
            self._poll_requested.clear()
            try:
                await self.poll_once()
                self.down_since = self.problem = None
            except RpcError as error:
                self.problem = error.message
                if self.down_since is None:
                    self.down_since = time.monotonic()
                    log.warning(error.message, action="relayer.feed_failed", chain=self.name, kind=error.kind.value)
            self._polled_at = time.monotonic()
            self._polled.set()
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next poll is due: after `poll_seconds`, or later if the lanes are idle by then. After a failed
        poll, the next poll is always due after `poll_seconds`, because lanes sign nothing until a poll succeeds."""
        while not self._poll_requested.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.poll_seconds):
                    await self._poll_requested.wait()
            is_idle = self.is_idle() and self.problem is None
            if not is_idle or time.monotonic() - self._polled_at >= self.idle_seconds:
                return

    async def poll_once(self) -> None:
        """Read the head once; wake waiting lanes if it is new."""
        try:
            await self._read_head()
        except RpcError:
            self._mismatch_since = None  # a failed request contradicts nothing
            raise

    async def _read_head(self) -> None:
        head = await self.client.head()
        if self._hashes.get(head.number) == head.hash:  # ours, or from a node that is behind
            self._mismatch_since = None
            return
        if self._head is not None and head.number < self._head.number and await self._is_behind(head, self._head):
            return
        connected = await self._connect(head)
        # The node may be behind the one that gave the head, or the chain has moved since.
        if connected is None and self._may_be_temporary():
            return
        hashes, fork = connected or ({head.number: head.hash}, -1)
        market = await self._fees(head)
        # No await from here on, so that a reader sees one fork or the other.
        undone = [number for number in self._hashes if number > fork]
        oldest = head.number - self.finality_blocks - WALKED_BLOCKS
        self._hashes = {number: block_hash for number, block_hash in hashes.items() if number >= oldest}
        self._head, self._market, self._mismatch_since = head, market, None
        if undone:
            self.reorgs += 1
            log.warning("blocks were undone or missed", action="relayer.reorg", chain=self.name, above=fork)
        metrics.BASE_FEE.labels(self.name).set(market.base_fee_wei / 1e9)
        async with self._changed:
            self.sequence += 1
            self._changed.notify_all()

    async def _is_behind(self, lower: Block, ours: Block) -> bool:
        """Return whether a head is lower than ours only because its node is behind."""
        if lower.number in self._hashes:
            return False
        hashes = [await _hash_on(node, ours.number) for node in self.nodes]
        if any(each is not None for each in hashes):
            self._mismatch_since = None
            return ours.hash in hashes
        return self._may_be_temporary()

    def _may_be_temporary(self) -> bool:
        """Return whether a response that contradicts the known blocks may still be one node's temporary fault."""
        now = time.monotonic()
        self._mismatch_since = now if self._mismatch_since is None else self._mismatch_since
        return now - self._mismatch_since < self.behind_seconds

    async def _connect(self, head: Block) -> tuple[dict[int, str], int] | None:
        """Return the hashes of canonical blocks up to this head, and the number of the highest block that the head
        shares with the known blocks, or -1 if that number is not known. Return None if the head cannot be connected: a
        block in between is missing or belongs to another fork.

        After a long gap, or while the lanes are idle, the blocks in between are not read. Instead, check that the two
        highest known blocks are still canonical. During a reorg the nodes behind one URL may disagree about one block,
        but not about two in a row.
        """
        known = sorted(self._hashes)[-2:]
        top = max(known, default=head.number - 1)
        if head.number - top > (1 if self.is_idle() else WALKED_BLOCKS):
            blocks = await self.client.blocks([*known, head.number - 1])
            *canonical_hashes, below = [None if each is None else each.hash for each in blocks]
            if below != head.parent_hash or None in canonical_hashes:
                return None
            if canonical_hashes == [self._hashes[number] for number in known]:
                return {**self._hashes, head.number: head.hash}, top
            return {head.number: head.hash}, -1
        fresh, parent, number = {head.number: head.hash}, head.parent_hash, head.number - 1
        for block in reversed(await self.client.blocks(list(range(top + 1, head.number)))):
            if block is None or block.hash != parent:
                return None
            fresh[number] = parent
            parent, number = block.parent_hash, number - 1
        while self._hashes.get(number, parent) != parent:
            canonical = await self.client.block(number)
            if canonical is None or canonical.hash != parent:
                return None
            fresh[number] = parent
            parent, number = canonical.parent_hash, number - 1
        shared = {each: known for each, known in self._hashes.items() if each <= number}
        return (shared | fresh, number) if number in shared else (fresh, -1)

    async def _fees(self, head: Block) -> FeeMarket:
        if self._market is not None and time.monotonic() - self._fees_read_at < FEE_SECONDS:
            return FeeMarket(head.base_fee_wei or 0, self._market.priority_wei)
        history = await self.client.eth.fee_history(FEE_BLOCKS, "latest", [50.0])
        self._fees_read_at = time.monotonic()
        paid = [reward[0] for reward in history.get("reward", ()) if reward and reward[0] > 0]
        base = max(history["baseFeePerGas"][-1:], default=head.base_fee_wei or 0)
        return FeeMarket(base, median_low(paid) if paid else 0)


async def _hash_on(node: ChainClient, number: int) -> str | None:
    try:
        block = await node.block(number)
    except RpcError:
        return None
    return None if block is None else block.hash
