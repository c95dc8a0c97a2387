"""One chain as its lanes see it: the head, the market for gas, and which blocks still stand after a reorg."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from statistics import median_low

from core.chain import Block, ChainClient, RpcError, RpcErrorKind
from core.log import get_logger
from relayer import metrics
from relayer.policy import FeeMarket

log = get_logger(__name__)

# A gap in the heads we saw longer than this is not walked; every mined block is then compared again.
WALKED_BLOCKS = 256
FEE_BLOCKS = 10
# So long no answer may fit what we know, before a head below all of it is believed to be a chain that became shorter,
# or one that leads nowhere has what we know forgotten.
BEHIND_SECONDS = 10.0


class ChainFeed:
    """What the lanes of one chain see of it; `run` never returns. Lanes wait on `wait` and read the attributes.

    sequence rises with every new head, reorgs with every reorg or when blocks were missed.
    """

    def __init__(
        self,
        client: ChainClient,
        name: str,
        chain_id: int,
        *,
        finality_blocks: int,
        poll_seconds: float,
        behind_seconds: float = BEHIND_SECONDS,
    ) -> None:
        self.client = client
        self.name = name
        self.chain_id = chain_id
        self.finality_blocks = finality_blocks
        self.sequence = 0
        self.reorgs = 0
        self.down_since: float | None = None
        self._poll_seconds = poll_seconds
        self._behind_seconds = behind_seconds
        self._apart_since: float | None = None
        self._head: Block | None = None
        self._market: FeeMarket | None = None
        # By height, without a gap, up to the head: the hashes of blocks each of which is the parent of the next. It is
        # replaced as a whole.
        self._line: dict[int, str] = {}
        self._changed = asyncio.Condition()
        self._hurry = asyncio.Event()

    @property
    def head(self) -> Block:
        if self._head is None:
            raise RuntimeError("the feed has no head yet: wait for it first")
        return self._head

    @property
    def market(self) -> FeeMarket:
        if self._market is None:
            raise RuntimeError("the feed has no fees yet: wait for it first")
        return self._market

    @property
    def has_head(self) -> bool:
        return self._head is not None and self._market is not None

    @property
    def nodes(self) -> list[ChainClient]:
        """The chain through each of its URLs alone."""
        return [self.client.pinned(position) for position in range(len(self.client.provider.labels))]

    def poll_now(self) -> None:
        """Poll at once: there is a reason to believe the chain moved."""
        self._hurry.set()

    async def wait(self, after_sequence: int, timeout_seconds: float) -> bool:
        """Wait for a head newer than `after_sequence`; False when time is up first."""
        try:
            async with asyncio.timeout(timeout_seconds), self._changed:
                await self._changed.wait_for(lambda: self.sequence > after_sequence)
        except TimeoutError:
            return False
        return True

    async def hashes_of(self, numbers: Iterable[int]) -> dict[int, str | None]:
        """Return block hashes by height; None where the chain is shorter. Heights outside the line are asked of a node
        in one batch and not remembered: we would not learn when they change."""
        hashes: dict[int, str | None] = {number: self._line.get(number) for number in numbers}
        asked = [number for number, block_hash in hashes.items() if block_hash is None]
        if asked:
            blocks = await self.client.blocks(asked)
            hashes |= {
                number: None if block is None else block.hash for number, block in zip(asked, blocks, strict=True)
            }
        return hashes

    async def run(self) -> None:
        while True:
            self._hurry.clear()
            try:
                await self.poll_once()
                self.down_since = None
            except RpcError as error:
                if self.down_since is None:
                    self.down_since = time.monotonic()
                    log.warning(error.message, action="relayer.feed_failed", chain=self.name, kind=error.kind.value)
            try:
                async with asyncio.timeout(self._poll_seconds):
                    await self._hurry.wait()
            except TimeoutError:
                pass

    async def poll_once(self) -> None:
        """Read the head once; wake the waiting when it is new."""
        try:
            await self._read_head()
        except RpcError:
            self._apart_since = None  # silence is no answer that does not fit
            raise

    async def _read_head(self) -> None:
        head = await self.client.head()
        if self._line.get(head.number) == head.hash:  # ours, or that of a node which is behind
            self._apart_since = None
            return
        if self._head is not None and head.number < self._head.number and await self._lags(head, self._head):
            return
        line_and_fork = await self._line_to(head)
        # A node that stands behind the one which named the head may have been asked, or the chain has moved.
        if line_and_fork is None and self._may_pass():
            return
        line, kept_to = line_and_fork or ({head.number: head.hash}, -1)
        market = await self._fees(head)
        # All of it at once, without a wait between: a reader sees one fork or the other.
        undone = [number for number in self._line if number > kept_to]
        oldest = head.number - self.finality_blocks - WALKED_BLOCKS
        self._line = {number: block_hash for number, block_hash in line.items() if number >= oldest}
        self._head, self._market, self._apart_since = head, market, None
        if undone:
            self.reorgs += 1
            metrics.REORGS.labels(self.name).inc()
            log.warning(
                "blocks were undone, or missed",
                action="relayer.reorg",
                chain=self.name,
                above=kept_to,
                forgotten=len(undone),
            )
        metrics.HEAD.labels(self.name).set(head.number)
        metrics.BASE_FEE.labels(self.name).set(market.base_fee_wei / 1e9)
        async with self._changed:
            self.sequence += 1
            self._changed.notify_all()

    async def _lags(self, lower: Block, ours: Block) -> bool:
        """Return whether a head lower than ours is only that of a node that is behind."""
        if lower.number in self._line:
            return False
        standing = [await _standing(node, ours.number) for node in self.nodes]
        if any(each is not None for each in standing):
            self._apart_since = None
            return ours.hash in standing
        return self._may_pass()

    def _may_pass(self) -> bool:
        """Return whether an answer that does not fit what we know may still be a fault of one node, or of one
        moment."""
        now = time.monotonic()
        self._apart_since = now if self._apart_since is None else self._apart_since
        return now - self._apart_since < self._behind_seconds

    async def _line_to(self, head: Block) -> tuple[dict[int, str], int] | None:
        """Return the line that ends in this head, and up to where it is ours: each block's parent is the one below it.
        Of ours nothing is left where too many blocks were missed, or the fork is under all we know. None when a block
        on the way was not given, or is of another fork than the head; of very many only the one below it is on the
        way."""
        top = max(self._line, default=head.number - 1)
        if head.number - top > WALKED_BLOCKS:
            below = await self.client.block(head.number - 1)
            return None if below is None or below.hash != head.parent_hash else ({head.number: head.hash}, -1)
        fresh, parent, number = {head.number: head.hash}, head.parent_hash, head.number - 1
        for block in reversed(await self.client.blocks(list(range(top + 1, head.number)))):
            if block is None or block.hash != parent:
                return None
            fresh[number] = parent
            parent, number = block.parent_hash, number - 1
        while self._line.get(number, parent) != parent:
            standing = await self.client.block(number)
            if standing is None or standing.hash != parent:
                return None
            fresh[number] = parent
            parent, number = standing.parent_hash, number - 1
        return {each: digest for each, digest in self._line.items() if each <= number} | fresh, number

    async def _fees(self, head: Block) -> FeeMarket:
        try:
            history = await self.client.eth.fee_history(FEE_BLOCKS, "latest", [50.0])
        except RpcError as error:
            if error.kind is not RpcErrorKind.METHOD_MISSING:
                raise
            # At most an eighth more than the head's.
            return FeeMarket((head.base_fee_wei or 0) * 9 // 8, 0)
        paid = [reward[0] for reward in history.get("reward", ()) if reward and reward[0] > 0]
        base = max(history["baseFeePerGas"][-1:], default=head.base_fee_wei or 0)
        return FeeMarket(base, median_low(paid) if paid else 0)


async def _standing(node: ChainClient, number: int) -> str | None:
    """Return the hash of a block as one node has it; None when it has none, or does not answer."""
    try:
        block = await node.block(number)
    except RpcError:
        return None
    return None if block is None else block.hash
