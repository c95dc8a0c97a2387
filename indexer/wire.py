"""A node's headers, typed with only the fields that the indexer reads; and its logs and receipts for strict
decoding."""

from __future__ import annotations

from typing import Annotated

import msgspec

from core.chain.wire import Data, Hash, Log
from core.hexadecimal import bytes_of
from indexer.logs import BlockInfo

BLOOM_CHARACTERS = 2 + 2 * 256
StoredQuantity = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-fA-F]{1,15}$")]
"""A quantity that fits a column for block numbers or seconds."""
StoredPlace = Annotated[str, msgspec.Meta(pattern="^0x([0-9a-fA-F]{1,7}|[0-7][0-9a-fA-F]{7})$")]
"""A quantity that fits a column for a log's place in its block."""
AddressHex = Annotated[str, msgspec.Meta(pattern="^0x[0-9a-fA-F]{40}$")]


class Header(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """A block header. `logs_bloom` is None on nodes that leave it out."""

    hash: Hash
    parent_hash: Hash
    number_hex: StoredQuantity = msgspec.field(name="number")
    timestamp_hex: StoredQuantity = msgspec.field(name="timestamp")
    logs_bloom: Data | None = None
    l1_block_number_hex: StoredQuantity | None = msgspec.field(name="l1BlockNumber", default=None)

    @property
    def number(self) -> int:
        return int(self.number_hex, 16)

    @property
    def timestamp(self) -> int:
        return int(self.timestamp_hex, 16)

    @property
    def bloom(self) -> int | None:
        """Return the bloom's bits; None if the node's value is not a bloom."""
        return int(self.logs_bloom, 16) if self.logs_bloom and len(self.logs_bloom) == BLOOM_CHARACTERS else None

    def info(self, uses_l1_blocks: bool) -> BlockInfo:
        """Return what is stored of it. `uses_l1_blocks`: contracts on this chain see Ethereum's block number as
        block.number."""
        number = l1_number = self.number
        if uses_l1_blocks and self.l1_block_number_hex is not None:
            l1_number = int(self.l1_block_number_hex, 16)
        return BlockInfo(number, bytes_of(self.hash), self.timestamp, l1_number)


class ReceiptLogs(msgspec.Struct, frozen=True, gc=False):
    """A receipt's logs."""

    logs: tuple[Log, ...]


class StrictLog(Log, frozen=True, rename="camel", gc=False, kw_only=True):
    """A log whose fields are all checked while decoding."""

    address: AddressHex
    topics: tuple[Hash, ...]
    data: Data
    block_number: StoredQuantity
    block_hash: Hash
    transaction_hash: Hash
    log_index: StoredPlace
    block_timestamp: StoredQuantity | None = None


class StrictReceiptLogs(ReceiptLogs, frozen=True, gc=False):
    """A receipt's logs, all checked while decoding."""

    logs: tuple[StrictLog, ...]
