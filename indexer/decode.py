"""A node's logs as typed ones, in chain order, refusing what contradicts itself.

This is the hot path: one pass, no call per field. What it checks costs little and catches a node that mixes two forks,
repeats itself, or answers for another range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from core.chain.wire import Log
from core.contracts.events import UndecodableLog
from core.hexadecimal import bytes_of, hex_of
from indexer.errors import ChainMoved, NodeFault
from indexer.logs import BlockInfo, LogRecord
from indexer.sources import Sources

INDEXES = 2**31
"""The places in a block: as many as its column holds, and more than there can be."""


def block_hashes(logs: Sequence[Log], first: int, last: int) -> dict[int, str]:
    """Return the blocks the logs say they are in; NodeFault for one outside the range, ChainMoved for one with two
    hashes.

    A hash that is none is a ValueError here, so that it is not taken for another block's.
    """
    hashes: dict[int, str] = {}
    number_text, number, hash_text = "", -1, ""
    for log in logs:
        if log.block_number == number_text and log.block_hash == hash_text:
            continue
        number_text, hash_text = log.block_number, log.block_hash
        number = int(number_text, 16)
        if hex_of(bytes_of(hash_text, 32)) != hash_text.lower():
            raise ValueError(f"{hash_text} is no hash")
        if not first <= number <= last:
            raise NodeFault(f"A node answered for blocks {first} to {last} with a log of block {number}.")
        if log.removed or hashes.setdefault(number, hash_text) != hash_text:
            raise ChainMoved(f"A node's logs of blocks {first} to {last} contradict each other at block {number}.")
    return hashes


def decode_logs(logs: Sequence[Log], sources: Sources, blocks: Mapping[int, BlockInfo]) -> list[LogRecord]:
    """Typed logs in chain order. `blocks` has every block the logs are in."""
    emitters = sources.emitters
    from_hex = bytes.fromhex
    out: list[LogRecord] = []
    number_text, number, at = "", -1, 0
    tx_text, tx = "", b""
    for log in logs:
        emitter = emitters.get(log.address) or emitters.get(log.address.lower())
        layout = None if emitter is None or not log.topics else emitter.layouts.get(log.topics[0])
        if emitter is None or layout is None:
            raise NodeFault(f"A node answered with a log of {log.address} that was not asked for.")
        if log.block_number != number_text:
            number_text = log.block_number
            number = int(number_text, 16)
            at = blocks[number].timestamp
        if log.transaction_hash != tx_text:
            tx_text = log.transaction_hash
            tx = from_hex(tx_text[2:])
            if len(tx) != 32:
                raise ValueError(f"{tx_text} is no hash")
        topics = layout.topic + from_hex("".join([topic[2:] for topic in log.topics[1:]]))
        data = from_hex(log.data[2:])
        if len(topics) != layout.topics_bytes or (
            len(data) != layout.data_bytes if layout.data_bytes is not None else len(data) < layout.least_data_bytes
        ):
            raise UndecodableLog(
                f"{layout.name} in block {number}: {len(topics)} bytes of topics and {len(data)} of data are not its"
                " layout."
            )
        index = int(log.log_index, 16)
        if not 0 <= index < INDEXES:
            raise ValueError(f"{log.log_index} is no place in a block")
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
    # Nodes answer in order, but nothing obliges them to.
    logs.sort(key=lambda log: (log.block, log.index))
    for one, other in pairwise(logs):
        if (one.block, one.index) == (other.block, other.index):
            raise NodeFault(f"A node repeated log {one.index} of block {one.block}.")
