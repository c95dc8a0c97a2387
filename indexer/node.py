"""A chain as the indexer reads it, over JSON-RPC."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider, values
from core.chain.wire import Block, Data, Hash, Log
from core.hexadecimal import bytes_of
from indexer.fold.rows import BlockInfo
from indexer.sources import Filter

BLOOM_CHARACTERS = 2 + 2 * 256
StoredQuantity = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-fA-F]{1,15}$")]
"""A quantity that fits a column for block numbers or seconds."""
StoredPlace = Annotated[str, msgspec.Meta(pattern="^0x([0-9a-fA-F]{1,7}|[0-7][0-9a-fA-F]{7})$")]
"""A quantity that fits a column for a log's place in its block."""
AddressHex = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-fA-F]{40}$")]


class Header(Block, frozen=True, rename="camel", gc=False, kw_only=True):
    """A block header whose values fit the tables. `logs_bloom` is None if the node omits it."""

    hash: Hash
    parent_hash: Hash
    number_hex: StoredQuantity = msgspec.field(name="number")
    timestamp_hex: StoredQuantity = msgspec.field(name="timestamp")
    l1_block_number_hex: StoredQuantity | None = msgspec.field(name="l1BlockNumber", default=None)
    logs_bloom: Data | None = None

    @property
    def bloom(self) -> int | None:
        """Return the bloom's bits, or None if the node's value is not a bloom."""
        return int(self.logs_bloom, 16) if self.logs_bloom and len(self.logs_bloom) == BLOOM_CHARACTERS else None

    def info(self, uses_l1_blocks: bool) -> BlockInfo:
        """Return the block's data to store. `uses_l1_blocks` is whether contracts on this chain see Ethereum's block
        number as block.number."""
        number = self.number
        return BlockInfo(
            number, bytes_of(self.hash), self.timestamp, self.l1_block_number if uses_l1_blocks else number
        )


class ReceiptLogs(msgspec.Struct, frozen=True, gc=False):
    logs: tuple[Log, ...]


class StrictLog(Log, frozen=True, rename="camel", gc=False, kw_only=True):
    """A log whose fields are all checked while it is decoded."""

    address: AddressHex
    topics: tuple[Hash, ...]
    data: Data
    block_number: StoredQuantity
    block_hash: Hash
    transaction_hash: Hash
    log_index: StoredPlace
    block_timestamp: StoredQuantity | None = None


class StrictReceiptLogs(ReceiptLogs, frozen=True, gc=False):
    logs: tuple[StrictLog, ...]


_MAYBE_HEADER: Any = Header | None
_LOGS: Any = list[Log]
_RECEIPTS: Any = list[ReceiptLogs]
_STRICT_LOGS: Any = list[StrictLog]
_STRICT_RECEIPTS: Any = list[StrictReceiptLogs]

T = TypeVar("T")

# Live nodes refuse filters with very many topics.
SENDERS_AT_ONCE = 200
# An unsupported method is not called again for this long. Not forever: behind one address, or after a fail-over,
# another node may have responded.
UNKNOWN_SECONDS = 300.0
# Checking each field of each log takes seven times as long as decoding it, so it is done only for this long after a
# fault: a malformed log then counts as an error of its URL, and the next URL is used.
STRICT_SECONDS = 300.0


class RpcNode:
    """A chain as one or more nodes report it. If one URL fails, requests go to the next. Methods raise only RpcError or
    NodeFault."""

    def __init__(self, rpc: ChainProvider, strict_until: float = -math.inf) -> None:
        self._rpc = rpc
        self._unknown_until: dict[str, float] = {}
        self._separate: tuple[RpcNode, ...] = ()
        self._strict_until = strict_until

    async def head(self) -> Header:
        return await self._rpc.call("eth_getBlockByNumber", ["latest", False], Header)

    async def finalized(self) -> int | None:
        """Return the newest finalized block's number, or None if the node reports no finality."""
        try:
            header = await self._if_served("eth_getBlockByNumber", ["finalized", False], Header)
        except RpcError as error:
            if error.kind is RpcErrorKind.BLOCK_NOT_FOUND:
                return None
            raise
        return None if header is None else header.number

    async def headers(self, numbers: Sequence[int]) -> list[Header | None]:
        """Return the headers of blocks by number, with None for a block that the node does not have."""
        if len(numbers) == 1:
            return [await self._rpc.call_optional("eth_getBlockByNumber", [hex(numbers[0]), False], Header)]
        requests = [("eth_getBlockByNumber", [hex(number), False]) for number in numbers]
        return values(await self._rpc.batch(requests, _MAYBE_HEADER))

    async def logs(self, chosen: Filter, first: int, last: int) -> list[Log]:
        return await self._logs({**chosen, "fromBlock": hex(first), "toBlock": hex(last)})

    async def logs_of_block(self, chosen: Filter, block_hash: str) -> list[Log]:
        return await self._logs({**chosen, "blockHash": block_hash})

    async def _logs(self, query: Filter) -> list[Log]:
        logs: list[Log] = await self._rpc.call("eth_getLogs", [query], _STRICT_LOGS if self._is_strict else _LOGS)
        return logs

    async def receipt_logs(self, block_hash: str) -> list[Log] | None:
        """Return all logs of a block from its receipts, including those of other people's contracts. Return None if the
        node does not have the receipts."""
        shape = _STRICT_RECEIPTS if self._is_strict else _RECEIPTS
        receipts = await self._if_served("eth_getBlockReceipts", [block_hash], shape)
        return None if receipts is None else [log for receipt in receipts for log in receipt.logs]

    @property
    def _is_strict(self) -> bool:
        return time.monotonic() < self._strict_until

    def check_fields(self) -> None:
        """Check every field of each log for a while, because the node returned a malformed one."""
        self._strict_until = time.monotonic() + STRICT_SECONDS
        for each in self._separate:
            each.check_fields()

    async def _if_served(self, method: str, params: Sequence[Any], shape: type[T]) -> T | None:
        """Call a method and return its result, or None while the method is assumed to be unsupported."""
        if time.monotonic() < self._unknown_until.get(method, -math.inf):
            return None
        try:
            return await self._rpc.call_optional(method, params, shape)
        except RpcError as error:
            if error.kind not in (RpcErrorKind.INVALID_PARAMS, RpcErrorKind.METHOD_MISSING):
                raise
            self._unknown_until[method] = time.monotonic() + UNKNOWN_SECONDS
            return None

    def separate_nodes(self) -> Sequence[RpcNode]:
        """Return at most two of the nodes as separate clients. Where a mistake would be costly, both must agree."""
        if len(self._rpc.labels) == 1:
            return (self,)
        if not self._separate:
            self._separate = tuple(RpcNode(self._rpc.pinned(n), self._strict_until) for n in (0, 1))
        return self._separate
