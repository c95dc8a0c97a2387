"""Blocks and logs as the indexer handles them after decoding: bytes and numbers instead of hex text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec


class BlockInfo(msgspec.Struct, frozen=True, gc=False):
    """A block as stored. `l1_number` is what contracts read as block.number: its own number on most chains."""

    number: int
    hash: bytes
    timestamp: int
    l1_number: int


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One of our logs. `topics` are joined; `entity` and `event` come from its layout (core.contracts.events)."""

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
    """Consecutive blocks, complete: `logs` are all of ours from `first` to `end`, in chain order.

    blocks: those to store, ascending, including `end` and every block with logs.
    """

    first: int
    end: BlockInfo
    blocks: tuple[BlockInfo, ...]
    logs: list[LogRecord]

    @property
    def hashes(self) -> dict[int, bytes]:
        """Return the blocks' hashes by number."""
        return {each.number: each.hash for each in self.blocks}
