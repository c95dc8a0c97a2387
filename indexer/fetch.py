"""Reading blocks and logs from a node so that what is returned is complete and of one chain.

Two ways, for two situations:
- `linked`: at the head. Every header is read, must name its predecessor, and every log must be of these very blocks. A
  block whose bloom allows logs of ours, but for which the node gave none, is asked for again by its hash.
- `settled`: deep in history. Only logs and the last header are read; what is missing there shows when logs are folded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.events.token import TRANSFER
from indexer import metrics
from indexer.bloom import BloomTest
from indexer.decode import block_hashes, decode_logs
from indexer.errors import NodeFault
from indexer.fold.payments import relevant
from indexer.logs import BlockInfo, Page
from indexer.node import SENDERS_AT_ONCE, Node
from indexer.sources import Filter, Sources
from indexer.wire import Header, WireLog

HASH_QUESTIONS_AT_ONCE = 8


class Replaced(Exception):
    """The block after the cursor's does not name the cursor's block as its parent: a reorganization."""


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Reads one chain through one node."""

    node: Node
    sources: Sources
    bloom: BloomTest

    async def linked(self, first: int, last: int, parent: bytes | None, head: Header) -> Page:
        """The blocks `first` to `last`, whose predecessor must be `parent`. Replaced when it is not."""
        headers, logs = await asyncio.gather(self._headers(first, last, head), self._ours_and_payments(first, last))
        if parent is not None and headers[0].parent_hash != "0x" + parent.hex():
            raise Replaced
        for one, after in pairwise(headers):
            if after.parent_hash != one.hash:
                raise NodeFault(f"The chain changed at block {after.number} while it was read.")
        by_number = {header.number: header for header in headers}
        for number, digest in block_hashes(logs, first, last).items():
            if by_number[number].hash != digest:
                raise NodeFault(f"A node's logs of block {number} are of another block than its header.")
        logs = await self._complete(headers, logs)
        logs += await self._authorizations_of(by_number, logs)
        blocks = {header.number: header.info(self.sources.l1_blocks) for header in headers}
        return self._page(first, tuple(blocks.values()), blocks, logs)

    async def settled(self, first: int, last: int) -> Page:
        """The same for blocks that are final, with as few questions as possible."""
        (end,), logs = await asyncio.gather(self._present([last]), self._logs(first, last))
        hashes = block_hashes(logs, first, last)
        if hashes.get(last, end.hash) != end.hash:
            raise NodeFault(f"A node's logs of block {last} are of another block than its header.")
        if not logs:
            await self._confirm_empty(first, last)
        blocks = await self._blocks_of(logs, hashes)
        blocks[last] = end.info(self.sources.l1_blocks)
        return self._page(first, tuple(blocks[number] for number in sorted(blocks)), blocks, logs)

    async def _confirm_empty(self, first: int, last: int) -> None:
        """A node that lost its logs answers like one that has none: where there is another node, it must agree."""
        for node in self.node.opinions()[1:]:
            if await node.logs(self.sources.main_filter, first, last):
                metrics.SHORT_ANSWERS.labels(self.sources.name).inc()
                raise NodeFault(f"One node has no logs of blocks {first} to {last}, another has some.")

    def _page(
        self, first: int, remembered: tuple[BlockInfo, ...], blocks: Mapping[int, BlockInfo], logs: Sequence[WireLog]
    ) -> Page:
        decoded = decode_logs(logs, self.sources, blocks)
        if self.sources.token is not None:
            decoded = relevant(decoded)
        return Page(first, remembered[-1], remembered, decoded)

    # ---------------------------------------------------------------- headers

    async def _headers(self, first: int, last: int, head: Header) -> list[Header]:
        if first == last == head.number:
            return [head]
        return await self._present(range(first, last + 1))

    async def _present(self, numbers: Sequence[int]) -> list[Header]:
        found = []
        for number, header in zip(numbers, await self.node.headers(numbers), strict=True):
            if header is None or header.number != number:
                raise NodeFault(f"A node says it is past block {number}, but does not have it.")
            found.append(header)
        return found

    async def _blocks_of(self, logs: Sequence[WireLog], hashes: Mapping[int, str]) -> dict[int, BlockInfo]:
        """The blocks of logs: from what the logs say where that is all there is to know, else from headers."""
        if not self.sources.l1_blocks:
            times = {log.block_number: log.block_timestamp for log in logs}
            if None not in times.values():
                return {
                    (number := int(text, 16)): BlockInfo(
                        number, bytes.fromhex(hashes[number][2:]), int(time or "", 16), number
                    )
                    for text, time in times.items()
                }
        found = {}
        for header in await self._present(sorted(hashes)):
            if header.hash != hashes[header.number]:
                raise NodeFault(f"A node's logs of block {header.number} are of another block than its header.")
            found[header.number] = header.info(self.sources.l1_blocks)
        return found

    # ---------------------------------------------------------------- logs

    async def _ours_and_payments(self, first: int, last: int) -> list[WireLog]:
        """Logs of a range: our contracts', and transfers to them."""
        payments = self.sources.transfer_filter
        if payments is None:
            return await self.node.logs(self.sources.main_filter, first, last)
        ours, transfers = await asyncio.gather(
            self.node.logs(self.sources.main_filter, first, last), self.node.logs(payments, first, last)
        )
        return ours + transfers

    async def _logs(self, first: int, last: int) -> list[WireLog]:
        """The same, and the authorizations that may have made the transfers."""
        logs = await self._ours_and_payments(first, last)
        found = []
        for chosen in self._authorization_filters(self._payments_in(logs)):
            found += await self.node.logs(chosen, first, last)
        return logs + found

    async def _authorizations_of(self, headers: Mapping[int, Header], logs: Sequence[WireLog]) -> list[WireLog]:
        """Authorizations in the blocks of `logs` that may have made its transfers, asked for block by block."""
        by_block: dict[str, list[WireLog]] = {}
        for log in self._payments_in(logs):
            by_block.setdefault(log.block_number, []).append(log)
        gate = asyncio.Semaphore(HASH_QUESTIONS_AT_ONCE)

        async def ask(header: Header, transfers: list[WireLog]) -> list[WireLog]:
            async with gate:
                found = []
                for chosen in self._authorization_filters(transfers):
                    found += await self.node.logs_of_block(chosen, header.hash)
                return _of_block(found, header)

        parts = await asyncio.gather(*(ask(headers[int(number, 16)], some) for number, some in by_block.items()))
        return [log for part in parts for log in part]

    def _payments_in(self, logs: Iterable[WireLog]) -> list[WireLog]:
        if self.sources.token is None:
            return []
        token, transfer = "0x" + self.sources.token.hex(), "0x" + TRANSFER.topic.hex()
        return [log for log in logs if log.address.lower() == token and log.topics[:1] == (transfer,)]

    def _authorization_filters(self, transfers: Iterable[WireLog]) -> list[Filter]:
        senders = sorted({log.topics[1] for log in transfers if len(log.topics) == 3})
        return [
            self.sources.authorization_filter(senders[at : at + SENDERS_AT_ONCE])
            for at in range(0, len(senders), SENDERS_AT_ONCE)
        ]

    async def _complete(self, headers: Sequence[Header], logs: list[WireLog]) -> list[WireLog]:
        """Asks again, by hash, for blocks that may hold logs the range did not give."""
        payments = {log.block_number for log in self._payments_in(logs)}
        token = None if self.sources.token is None else "0x" + self.sources.token.hex()
        ours = {log.block_number for log in logs if log.address.lower() != token}
        questions: list[tuple[Header, Filter]] = []
        for header in headers:
            bits = None if header.logs_bloom is None else int(header.logs_bloom, 16)
            if header.number_hex not in ours and (bits is None or self.bloom.allows_ours(bits)):
                questions.append((header, self.sources.main_filter))
            transfers = self.sources.transfer_filter
            if (
                transfers is not None
                and header.number_hex not in payments
                and (bits is None or self.bloom.allows_payment(bits))
            ):
                questions.append((header, transfers))
        if not questions:
            return logs
        gate = asyncio.Semaphore(HASH_QUESTIONS_AT_ONCE)

        async def again(header: Header, chosen: Filter) -> list[WireLog]:
            async with gate:
                found = await self.node.logs_of_block(chosen, header.hash)
            if found and header.logs_bloom is not None:
                metrics.SHORT_ANSWERS.labels(self.sources.name).inc()
            return _of_block(found, header)

        parts = await asyncio.gather(*(again(*each) for each in questions))
        return logs + [log for part in parts for log in part]


def _of_block(logs: list[WireLog], header: Header) -> list[WireLog]:
    if any(log.block_hash != header.hash for log in logs):
        raise NodeFault(f"A node's logs of block {header.number} are not of the block asked for.")
    return logs
