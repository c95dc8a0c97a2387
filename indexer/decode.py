"""Decodes a node's logs into typed ones in chain order, and rejects responses that contradict themselves.

This is the hot path: one pass, no call per field. The cheap checks catch a node that mixes two forks, repeats a log, or
returns another range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from core.chain.wire import Log
from core.contracts.events import UndecodableLog
from core.hexadecimal import bytes_of, hex_of
from indexer.errors import ChainMoved, NodeFault
from indexer.sources import Sources


class BlockInfo(msgspec.Struct, frozen=True, gc=False):
    """A block as stored. `l1_number` is what contracts read as block.number, on most chains the block's own number."""

    number: int
    hash: bytes
    timestamp: int
    l1_number: int


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """A decoded log of our contracts or feeds. `topics` are joined; `entity` and `event` come from its layout in
    core.contracts.events."""

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
    """Consecutive blocks from `first` to `end`. `logs` are all of our logs there, in chain order. `blocks` are those to
    store, in ascending order: `end`, every block with logs, and perhaps others."""

    first: int
    end: BlockInfo
    blocks: tuple[BlockInfo, ...]
    logs: list[LogRecord]

    @property
    def hashes(self) -> dict[int, bytes]:
        return {each.number: each.hash for each in self.blocks}


INDEXES = 2**31
"""The limit of a log's index in its block: the column's limit, more than a block can have."""


def block_hashes(logs: Sequence[Log], first: int, last: int) -> dict[int, str]:
    """Return the hashes of the logs' blocks. Raise NodeFault for a block outside the range, ChainMoved for a block with
    two hashes, and ValueError for a malformed hash, which is not another block's."""
    hashes: dict[int, str] = {}
    number_text, number, hash_text = "", -1, ""
    for log in logs:
        if log.block_number == number_text and log.block_hash == hash_text:
            continue
        number_text, hash_text = log.block_number, log.block_hash
        number = int(number_text, 16)
        if hex_of(bytes_of(hash_text, 32)) != hash_text.lower():
            raise ValueError(f"{hash_text} is not a hash")
        if not first <= number <= last:
            raise NodeFault(f"A node was asked for blocks {first} to {last}, but returned a log of block {number}.")
        if log.removed or hashes.setdefault(number, hash_text) != hash_text:
            raise ChainMoved(f"A node returned logs of block {number} from two forks.")
    return hashes


def decode_logs(logs: Sequence[Log], sources: Sources, blocks: Mapping[int, BlockInfo]) -> list[LogRecord]:
    """Return typed logs in chain order. `blocks` must have every block of the logs."""
    emitters = sources.emitters
    from_hex = bytes.fromhex
    out: list[LogRecord] = []
    number_text, number, at = "", -1, 0
    tx_text, tx = "", b""
    for log in logs:
        emitter = emitters.get(log.address) or emitters.get(log.address.lower())
        layout = None if emitter is None or not log.topics else emitter.layouts.get(log.topics[0])
        if emitter is None or layout is None:
            raise NodeFault(f"A node returned a log of {log.address} that the filter excludes.")
        if log.block_number != number_text:
            number_text = log.block_number
            number = int(number_text, 16)
            at = blocks[number].timestamp
        if log.transaction_hash != tx_text:
            tx_text = log.transaction_hash
            tx = from_hex(tx_text[2:])
            if len(tx) != 32:
                raise ValueError(f"{tx_text} is not a hash")
        topics = layout.topic + from_hex("".join([topic[2:] for topic in log.topics[1:]]))
        data = from_hex(log.data[2:])
        if len(topics) != layout.topics_bytes or (
            len(data) != layout.data_bytes if layout.data_bytes is not None else len(data) < layout.least_data_bytes
        ):
            raise UndecodableLog(
                f"{layout.name} in block {number}: {len(topics)} bytes of topics and {len(data)} of data do not fit its"
                " layout."
            )
        index = int(log.log_index, 16)
        if not 0 <= index < INDEXES:
            raise ValueError(f"{log.log_index} is not a log index")
        entity = layout.entity
        out.append(
            LogRecord(
                number,
                index,
                at,
                tx,
                emitter.address,
                topics,
                data,
                None if entity is None else entity(topics, data),
                layout.decode(topics, data),
            )
        )
    _put_in_order(out)
    return out


def _put_in_order(logs: list[LogRecord]) -> None:
    previous = (-1, -1)
    for log in logs:
        place = (log.block, log.index)
        if place <= previous:
            break
        previous = place
    else:
        return
    # Nodes usually return logs in order, but are not required to.
    logs.sort(key=lambda log: (log.block, log.index))
    for one, other in pairwise(logs):
        if (one.block, one.index) == (other.block, other.index):
            raise NodeFault(f"A node returned log {one.index} of block {one.block} twice.")
