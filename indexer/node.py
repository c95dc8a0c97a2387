"""What the indexer asks a chain, and `RpcNode`, which asks it over JSON-RPC.

`Node` is all the rest of the indexer knows, so tests put an in-memory chain in its place.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider, values
from core.chain.wire import Log
from indexer.sources import Filter
from indexer.wire import Header, ReceiptLogs, SoundLog, SoundReceiptLogs

_MAYBE_HEADER: Any = Header | None
_LOGS: Any = list[Log]
_RECEIPTS: Any = list[ReceiptLogs]
_SOUND_LOGS: Any = list[SoundLog]
_SOUND_RECEIPTS: Any = list[SoundReceiptLogs]

T = TypeVar("T")

# A live node refuses filters with very many topics.
SENDERS_AT_ONCE = 200
# What a node does not know is not asked for so long. Not for ever: behind one address, or after a fail-over, it may
# have been another node that answered.
UNKNOWN_SECONDS = 300.0
# To look at each field of each log takes seven times as long as to decode it. It is done for so long after a fault:
# what is no log is then the fault of the URL that gave it, and the next one is asked.
CLOSELY_SECONDS = 300.0


class ChainNode(Protocol):
    """One chain, as one or several nodes report it. Every method raises only RpcError or NodeFault."""

    async def head(self) -> Header: ...

    async def finalized(self) -> int | None:
        """Return the newest finalized block's number; None where the node has no such notion."""

    async def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """Return headers by number; None for a block the node does not have."""

    async def logs(self, chosen: Filter, first: int, last: int) -> list[Log]:
        """Return the logs of a range of blocks."""

    async def logs_of_block(self, chosen: Filter, block_hash: str) -> list[Log]:
        """Return the logs of exactly one block."""

    async def receipt_logs(self, block_hash: str) -> list[Log] | None:
        """Return all logs of a block, of any contract, from its receipts; None when the node does not have them."""

    def opinions(self) -> Sequence[ChainNode]:
        """Return each node separately, at most two: where a mistake would be costly, both must agree."""

    def look_closely(self) -> None:
        """Check every field of each log for a while, because the node gave a faulty one."""


class RpcNode:
    """A `ChainNode` over JSON-RPC. With several URLs, they fail over in order."""

    def __init__(self, rpc: ChainProvider, closely_until: float = -math.inf) -> None:
        self._rpc = rpc
        self._unknown_until: dict[str, float] = {}
        self._opinions: tuple[RpcNode, ...] = ()
        self._closely_until = closely_until

    async def head(self) -> Header:
        return await self._rpc.call("eth_getBlockByNumber", ["latest", False], Header)

    async def finalized(self) -> int | None:
        try:
            header = await self._if_served("eth_getBlockByNumber", ["finalized", False], Header)
        except RpcError as error:
            if error.kind is RpcErrorKind.BLOCK_NOT_FOUND:
                return None
            raise
        return None if header is None else header.number

    async def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        if len(numbers) == 1:
            one = await self._rpc.optional("eth_getBlockByNumber", [hex(numbers[0]), False], Header)
            return [one]
        requests = [("eth_getBlockByNumber", [hex(number), False]) for number in numbers]
        return values(await self._rpc.batch(requests, _MAYBE_HEADER))

    async def logs(self, chosen: Filter, first: int, last: int) -> list[Log]:
        return await self._logs({**chosen, "fromBlock": hex(first), "toBlock": hex(last)})

    async def logs_of_block(self, chosen: Filter, block_hash: str) -> list[Log]:
        return await self._logs({**chosen, "blockHash": block_hash})

    async def _logs(self, asked: Filter) -> list[Log]:
        logs: list[Log] = await self._rpc.call("eth_getLogs", [asked], _SOUND_LOGS if self._looks_closely else _LOGS)
        return logs

    async def receipt_logs(self, block_hash: str) -> list[Log] | None:
        shape = _SOUND_RECEIPTS if self._looks_closely else _RECEIPTS
        receipts = await self._if_served("eth_getBlockReceipts", [block_hash], shape)
        return None if receipts is None else [log for receipt in receipts for log in receipt.logs]

    @property
    def _looks_closely(self) -> bool:
        return time.monotonic() < self._closely_until

    def look_closely(self) -> None:
        self._closely_until = time.monotonic() + CLOSELY_SECONDS
        for each in self._opinions:
            each.look_closely()

    async def _if_served(self, method: str, params: Sequence[Any], shape: type[T]) -> T | None:
        """Return the answer; None while we assume that the node does not support the method."""
        if time.monotonic() < self._unknown_until.get(method, -math.inf):
            return None
        try:
            return await self._rpc.optional(method, params, shape)
        except RpcError as error:
            if error.kind not in (RpcErrorKind.INVALID_PARAMS, RpcErrorKind.METHOD_MISSING):
                raise
            self._unknown_until[method] = time.monotonic() + UNKNOWN_SECONDS
            return None

    def opinions(self) -> Sequence[ChainNode]:
        if len(self._rpc.labels) == 1:
            return (self,)
        if not self._opinions:
            self._opinions = tuple(RpcNode(self._rpc.pinned(n), self._closely_until) for n in (0, 1))
        return self._opinions
