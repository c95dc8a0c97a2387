"""An in-memory chain that responds to the indexer like a node, and can be reorganized to any depth."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.chain.wire import Log
from core.stock.vested import Moment
from indexer.completeness import mask
from indexer.node import Header, RpcNode
from indexer.sources import FeedRounds, Filter, Sources
from tests.support.index_world import ADDRESSES, FEEDS, TOKEN, Emission, Tx, World

CHAIN_ID = 8453
BLOCK_SECONDS = 2


def world_sources(kind: Any = "op-stack", start_block: int = 1) -> Sources:
    return Sources(
        name="base",
        chain_id=CHAIN_ID,
        start_block=start_block,
        kind=kind,
        contracts=dict(ADDRESSES),
        token=TOKEN,
        feeds={feed: FeedRounds(feed) for feed in FEEDS},
    )


def bloom_of(values: Iterable[bytes]) -> str:
    bits = 0
    for value in values:
        bits |= mask(value)
    return f"0x{bits:0512x}"


@dataclass(frozen=True, slots=True)
class SimBlock:
    header: Header
    logs: tuple[Log, ...]
    txs: tuple[Tx, ...]
    world: World  # after it


@dataclass
class SimChain:
    """A chain in memory. `blocks[n]` is block n; block 0 is empty. `l1_every` blocks share one `block.number` of the
    contracts."""

    l1_every: int = 1
    genesis_time: int = 1_763_000_000
    blocks: list[SimBlock] = field(default_factory=list)
    salt: int = 0

    def __post_init__(self) -> None:
        self._append(World(), [], [])

    @property
    def head(self) -> SimBlock:
        return self.blocks[-1]

    def moment(self, number: int) -> Moment:
        block_number = number if self.l1_every == 1 else 1_000 + number // self.l1_every
        return Moment(block_number, self.genesis_time + number * BLOCK_SECONDS)

    def mine(self, txs: Iterable[Tx]) -> SimBlock:
        world = self.head.world.copy()
        now = self.moment(len(self.blocks))
        landed, emitted = [], []
        for tx in txs:
            logs = world.run(tx, now)
            if logs is not None:
                landed.append(tx)
                emitted += [(tx, each) for each in logs]
        return self._append(world, landed, emitted)

    def drop(self, depth: int) -> list[Tx]:
        gone = self.blocks[-depth:]
        del self.blocks[-depth:]
        return [tx for block in gone for tx in block.txs]

    def _append(self, world: World, txs: Sequence[Tx], emitted: Sequence[tuple[Tx, Emission]]) -> SimBlock:
        number = len(self.blocks)
        parent = self.blocks[-1].header.hash if self.blocks else "0x" + "0" * 64
        self.salt += 1
        digest = "0x" + hashlib.sha256(f"{parent} {number} {self.salt}".encode()).hexdigest()
        now = self.moment(number)
        logs = tuple(_wire(each, tx, index, number, digest, now.timestamp) for index, (tx, each) in enumerate(emitted))
        seen = {value for _, each in emitted for value in (each.address, *_split(each.topics))}
        header = Header(
            hash=digest,
            parent_hash=parent,
            number_hex=hex(number),
            timestamp_hex=hex(now.timestamp),
            logs_bloom=bloom_of(seen),
            l1_block_number_hex=hex(now.block_number),
        )
        block = SimBlock(header, logs, tuple(txs), world)
        self.blocks.append(block)
        return block


class SimNode(RpcNode):
    """A node of a SimChain. `fault` is called before every response and may raise or return another."""

    def __init__(self, chain: SimChain, others: Sequence[SimNode] = ()) -> None:
        self.chain = chain
        self.others = others
        self.finalized_depth: int | None = None
        self.asked: list[str] = []
        self.closely = 0
        self.fault: Callable[[str, Any], Any] = lambda _method, answer: answer

    def _answer(self, method: str, answer: Any) -> Any:
        self.asked.append(method)
        return self.fault(method, answer)

    async def head(self) -> Header:
        return self._answer("head", self.chain.head.header)  # type: ignore[no-any-return]

    async def finalized(self) -> int | None:
        if self.finalized_depth is None:
            return None
        return max(0, len(self.chain.blocks) - 1 - self.finalized_depth)

    async def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        blocks = self.chain.blocks
        found = [blocks[number].header if number < len(blocks) else None for number in numbers]
        return self._answer("headers", found)  # type: ignore[no-any-return]

    async def logs(self, chosen: Filter, first: int, last: int) -> list[Log]:
        found = [log for block in self.chain.blocks[first : last + 1] for log in block.logs if _matches(log, chosen)]
        return self._answer("logs", found)  # type: ignore[no-any-return]

    async def logs_of_block(self, chosen: Filter, block_hash: str) -> list[Log]:
        block = next(block for block in self.chain.blocks if block.header.hash == block_hash)
        found = [log for log in block.logs if _matches(log, chosen)]
        return self._answer("logs_of_block", found)  # type: ignore[no-any-return]

    async def receipt_logs(self, block_hash: str) -> list[Log] | None:
        block = next((block for block in self.chain.blocks if block.header.hash == block_hash), None)
        return self._answer("receipts", None if block is None else list(block.logs))  # type: ignore[no-any-return]

    def separate_nodes(self) -> Sequence[SimNode]:
        return (self, *self.others)

    def check_fields(self) -> None:
        """Count how often the indexer checks fields. Values made in memory cannot be malformed."""
        self.closely += 1


def _wire(each: Emission, tx: Tx, index: int, number: int, digest: str, time: int) -> Log:
    return Log(
        "0x" + each.address.hex(),
        tuple("0x" + topic.hex() for topic in _split(each.topics)),
        "0x" + each.data.hex(),
        hex(number),
        digest,
        "0x" + tx.hash.hex(),
        hex(index),
        hex(time),
    )


def _split(topics: bytes) -> list[bytes]:
    return [topics[at : at + 32] for at in range(0, len(topics), 32)]


def _matches(log: Log, chosen: Filter) -> bool:
    if log.address not in chosen["address"]:
        return False
    for position, wanted in enumerate(chosen["topics"]):
        if wanted is None:
            continue
        if position >= len(log.topics):
            return False
        options = [wanted] if isinstance(wanted, str) else wanted
        if log.topics[position] not in options:
            return False
    return True


__all__ = ["CHAIN_ID", "SimBlock", "SimChain", "SimNode", "world_sources"]
