"""Blocks and logs as the indexer handles them after decoding: bytes and numbers instead of hex text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


class BlockInfo(msgspec.Struct, frozen=True, gc=False):
    """A block as it is kept. `l1_number` is what contracts read as block.number; elsewhere its own number."""

    number: int
    hash: bytes
    timestamp: int
    l1_number: int


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One log of ours. `topics` are joined; `entity` and `event` come from its layout (core.contracts.events)."""

    block: int
    index: int
    at: int  # its block's Unix seconds
    tx: bytes
    address: bytes
    topics: bytes
    data: bytes
    entity: bytes | None
    event: Any


@dataclass(frozen=True, slots=True)
class Page:
    """Consecutive blocks read in full: `logs` are all of ours from `first` to `end`, in chain order.

    blocks: those to remember, ascending; `end` is among them.
    """

    first: int
    end: BlockInfo
    blocks: tuple[BlockInfo, ...]
    logs: list[LogRecord]

    @property
    def hashes(self) -> dict[int, bytes]:
        """Return the hashes of blocks by their numbers; those of the logs are among them."""
        return {each.number: each.hash for each in self.blocks}
