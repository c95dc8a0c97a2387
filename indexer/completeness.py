"""Checks that a node returned all logs of a block, using the header's bloom, another node or the block's receipts.

A node searches logs in a separate index, which may lack logs of its blocks. Receipts have no such gap: their logs are
numbered consecutively. A bloom never excludes a log that exists, so a bloom that excludes our logs proves that the
block has none of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eth_utils.crypto import keccak

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.wire import Log
from core.contracts.events.shared import TRANSFER
from core.hexadecimal import bytes_of
from indexer import metrics
from indexer.errors import NodeFault
from indexer.node import Header, RpcNode
from indexer.sources import Filter, Sources

SAMPLED_BLOCKS = 2
"""Blocks of each history page that are compared with their receipts if there is no second node."""
DISTRUSTED_AT_ONCE = 256
"""Blocks in a history page after its node has left out a log: then every block is checked."""


def mask(value: bytes) -> int:
    """Return a mask of the three bits, out of 2048, that a value sets in a bloom."""
    digest = keccak(value)
    bits = 0
    for at in (0, 2, 4):
        bits |= 1 << (int.from_bytes(digest[at : at + 2]) & 2047)
    return bits


class BloomTest:
    def __init__(self, sources: Sources) -> None:
        self._ours = [
            mask(each.address) | mask(bytes_of(topic))
            for each in sources.emitters.values()
            if each.address != sources.token
            for topic in each.layouts
        ]
        self._payments: list[int] = []
        if sources.token is not None and sources.transfer_filter is not None:
            transfer = mask(sources.token) | mask(TRANSFER.topic)
            self._payments = [transfer | mask(bytes_of(each)) for each in sources.transfer_filter["topics"][2]]

    def allows_ours(self, bits: int) -> bool:
        """Return whether a block with this bloom may contain an event from our contracts or feeds."""
        return any(bits & each == each for each in self._ours)

    def allows_payment(self, bits: int) -> bool:
        """Return whether a block with this bloom may contain a transfer of the token to one of our contracts."""
        return any(bits & each == each for each in self._payments)


@dataclass(slots=True)
class LogCompleteness:
    """Checks that no logs of a chain are missing. `distrusts` is True if the only node has left logs out of its
    history."""

    node: RpcNode
    chain: str
    distrusts: bool = False
    _random: random.Random = field(default_factory=random.Random)

    async def complete_block(
        self, header: Header, filters: Sequence[Filter], received: Sequence[Log]
    ) -> list[Log] | None:
        """Return all logs of the block that match the filters, or None if nothing can verify the received logs."""
        logs = await self._from_two_nodes(header, filters)
        if logs is None:
            receipts = await self.receipts(header.hash)
            if receipts is None:
                return None
            logs = [log for log in receipts if any(matches_filter(log, each) for each in filters)]
        if len({_place(log) for log in received}) < len(received):
            raise NodeFault(f"A node returned the same log of block {header.number} twice.")
        together = merged([*received, *logs])
        if len(together) > len(received):
            metrics.SHORT_ANSWERS.labels(self.chain).inc()
        return together

    async def _from_two_nodes(self, header: Header, filters: Sequence[Filter]) -> list[Log] | None:
        """Return the logs that two nodes together have for the block, or None if fewer than two respond."""
        nodes = self.node.separate_nodes()
        if len(nodes) < 2:
            return None
        logs: list[Log] = []
        for node in nodes:
            for chosen in filters:
                try:
                    logs += await node.logs_of_block(chosen, header.hash)
                except RpcError:
                    return None
        return logs

    async def receipts(self, block_hash: str) -> list[Log] | None:
        """Return every log of a block from the block's receipts, or None if no node has the receipts."""
        for node in self.node.separate_nodes():
            try:
                logs = await node.receipt_logs(block_hash)
            except RpcError as error:
                if error.kind is RpcErrorKind.RATE_LIMITED:
                    raise
                continue
            if logs is not None and _numbered_through(logs, block_hash):
                return logs
        return None

    async def complete_page(self, filters: Sequence[Filter], first: int, last: int, logs: list[Log]) -> list[Log]:
        """Return all logs of a history page. Blocks on which two nodes disagree are read from their receipts."""
        for node in self.node.separate_nodes()[1:]:
            theirs = [log for chosen in filters for log in await node.logs(chosen, first, last)]
            ours = {_place(log) for log in logs}
            more = [log for log in theirs if _place(log) not in ours]
            disputed = {log.block_hash for log in more}
            disputed |= {log.block_hash for log in logs if _place(log) not in {_place(each) for each in theirs}}
            if not disputed:
                continue
            metrics.SHORT_ANSWERS.labels(self.chain).inc()
            logs = [log for log in logs if log.block_hash not in disputed]
            for block_hash in sorted(disputed):
                receipts = await self.receipts(block_hash)
                if receipts is None:
                    raise NodeFault(
                        f"Two nodes disagree on the logs of blocks {first} to {last}, and neither has receipts of block"
                        f" {block_hash}."
                    )
                logs += [log for log in receipts if any(matches_filter(log, each) for each in filters)]
        return logs

    async def sample(self, filters: Sequence[Filter], logs: Sequence[Log]) -> None:
        """Compare a few blocks of a page with their receipts. If a log is missing, raise NodeFault and distrust the
        node from then on."""
        hashes = sorted({log.block_hash for log in logs})
        chosen = self._random.sample(hashes, min(SAMPLED_BLOCKS, len(hashes)))
        answers = await asyncio.gather(*(self.receipts(block_hash) for block_hash in chosen))
        for block_hash, receipts in zip(chosen, answers, strict=True):
            received = [log for log in logs if log.block_hash == block_hash]
            complete = [log for log in receipts or () if any(matches_filter(log, each) for each in filters)]
            if {_place(log) for log in complete} - {_place(log) for log in received}:
                metrics.SHORT_ANSWERS.labels(self.chain).inc()
                self.distrusts = True
                raise NodeFault(
                    f"A node left out logs of block {received[0].block_number}. History is now read block by block."
                )


def matches_filter(log: Log, chosen: Filter) -> bool:
    addresses = chosen["address"]
    if log.address.lower() not in ([addresses] if isinstance(addresses, str) else addresses):
        return False
    for position, topic in enumerate(chosen["topics"]):
        if topic is not None and (
            position >= len(log.topics) or log.topics[position] not in ([topic] if isinstance(topic, str) else topic)
        ):
            return False
    return True


def merged(logs: Iterable[Log]) -> list[Log]:
    """Return each log once. Raise NodeFault if two nodes have different logs at the same place."""
    by_place: dict[tuple[str, int], Log] = {}
    for log in logs:
        other = by_place.setdefault(_place(log), log)
        if (other.address.lower(), other.topics, other.data) != (log.address.lower(), log.topics, log.data):
            raise NodeFault(f"Two nodes disagree about log {int(log.log_index, 16)} in block {log.block_number}.")
    return list(by_place.values())


def _place(log: Log) -> tuple[str, int]:
    return log.block_hash, int(log.log_index, 16)


def _numbered_through(logs: Sequence[Log], block_hash: str) -> bool:
    return all(log.block_hash == block_hash and int(log.log_index, 16) == at for at, log in enumerate(logs))
