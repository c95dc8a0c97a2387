"""A node's headers, typed with only what the indexer reads; every other field is skipped while decoding."""

from __future__ import annotations

import msgspec

from core.chain.wire import Data, Hash, Log, Quantity
from core.hexadecimal import bytes_of
from indexer.logs import BlockInfo

BLOOM_CHARACTERS = 2 + 2 * 256


class Header(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A block header. `logs_bloom` is None on nodes that leave it out."""

    hash: Hash
    parent_hash: Hash
    number_hex: Quantity = msgspec.field(name="number")
    timestamp_hex: Quantity = msgspec.field(name="timestamp")
    logs_bloom: Data | None = None
    l1_block_number_hex: Quantity | None = msgspec.field(name="l1BlockNumber", default=None)

    @property
    def number(self) -> int:
        return int(self.number_hex, 16)

    @property
    def timestamp(self) -> int:
        return int(self.timestamp_hex, 16)

    @property
    def bloom(self) -> int | None:
        """The bloom's bits; None where what the node gave is none."""
        return int(self.logs_bloom, 16) if self.logs_bloom and len(self.logs_bloom) == BLOOM_CHARACTERS else None

    def info(self, l1_blocks: bool) -> BlockInfo:
        """What is kept of it. `l1_blocks`: contracts on this chain see Ethereum's block number as block.number."""
        number = l1_number = self.number
        if l1_blocks and self.l1_block_number_hex is not None:
            l1_number = int(self.l1_block_number_hex, 16)
        return BlockInfo(number, bytes_of(self.hash), self.timestamp, l1_number)


class ReceiptLogs(msgspec.Struct, frozen=True, gc=False):
    """A receipt, of which only the logs are read."""

    logs: tuple[Log, ...]
