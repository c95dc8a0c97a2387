"""Reading blocks and logs from a node so that what is returned is complete and of one chain.

Two ways, for two situations:
- `linked`: at the head. Every header is read, must name its predecessor, and every log must be of these very blocks. A
  block that holds logs of ours, or whose bloom allows some, is compared with a second node or with its receipts.
- `settled`: deep in history. Only logs and the last header are read, and compared with the second node's, or where
  there is none with the receipts of a few of the blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.wire import Log
from core.contracts.events.token import TRANSFER
from core.hexadecimal import bytes_of, hex_of
from indexer import metrics
from indexer.completeness import DISTRUSTED_AT_ONCE, BloomTest, LogCompleteness, merged
from indexer.decode import block_hashes, decode_logs
from indexer.errors import ChainMoved, NodeFault
from indexer.fold.payments import relevant
from indexer.logs import BlockInfo, Page
from indexer.node import SENDERS_AT_ONCE, ChainNode
from indexer.sources import Filter, Sources
from indexer.wire import Header

HASH_QUESTIONS_AT_ONCE = 8


class Replaced(Exception):
    """The news that the block after the cursor's does not name the cursor's block as its parent: a reorganization."""


class Fetcher:
    """The blocks and logs of one chain, read through one node."""

    def __init__(self, node: ChainNode, sources: Sources) -> None:
        self.node = node
        self.sources = sources
        self.witness = LogCompleteness(node, sources.name)
        self._bloom = BloomTest(sources)

    async def linked(self, first: int, last: int, parent: bytes | None, head: Header) -> Page:
        """Fetch the blocks `first` to `last`, whose predecessor must be `parent`. Replaced when it is not."""
        with self._readable(first, last):
            return await self._linked(first, last, parent, head)

    async def settled(self, first: int, last: int) -> Page:
        """Fetch final blocks, with as few requests as possible."""
        with self._readable(first, last):
            return await self._settled(first, last)

    @contextmanager
    def _readable(self, first: int, last: int) -> Iterator[None]:
        """Turn malformed logs into a NodeFault, and have the node check every field from then on: normally logs are
        decoded unchecked."""
        try:
            yield
        except ChainMoved:
            raise
        except NodeFault:
            self.node.look_closely()
            raise
        except ValueError as error:
            self.node.look_closely()
            raise NodeFault(f"A node's logs of blocks {first} to {last} cannot be read: {error}.") from error

    async def _linked(self, first: int, last: int, parent: bytes | None, head: Header) -> Page:
        headers, logs = await asyncio.gather(self._headers(first, last, head), self._ours_and_payments(first, last))
        if parent is not None and headers[0].parent_hash != hex_of(parent):
            raise Replaced
        for one, after in pairwise(headers):
            if after.parent_hash != one.hash:
                raise ChainMoved(f"The chain changed at block {after.number} while it was read.")
        for number, digest in block_hashes(logs, first, last).items():
            if headers[number - first].hash != digest:
                raise ChainMoved(f"A node's logs of block {number} are of another block than its header.")
        logs = await self._complete(headers, logs)
        logs += await self._authorizations_of(headers, logs)
        blocks = {header.number: header.info(self.sources.l1_blocks) for header in headers}
        return self._page(first, tuple(blocks.values()), blocks, logs)

    async def _settled(self, first: int, last: int) -> Page:
        if self.witness.distrusts:
            return await self._distrusted(first, last)
        (end,), logs = await asyncio.gather(self._present([last]), self._logs(first, last))
        hashes = block_hashes(logs, first, last)
        if hashes.get(last, end.hash) != end.hash:
            raise ChainMoved(f"A node's logs of block {last} are of another block than its header.")
        blocks, _ = await asyncio.gather(self._blocks_of(logs, hashes), self._sampled(logs))
        blocks[last] = end.info(self.sources.l1_blocks)
        return self._page(first, tuple(blocks[number] for number in sorted(blocks)), blocks, logs)

    async def _distrusted(self, first: int, last: int) -> Page:
        """History of a node that was seen to leave logs out: read as carefully as the head."""
        if last - first >= DISTRUSTED_AT_ONCE:
            raise RpcError(RpcErrorKind.RANGE_TOO_WIDE, "History of a node that left out logs is read in small pages.")
        (end,) = await self._present([last])
        return await self._linked(first, last, None, end)

    def _page(
        self, first: int, remembered: tuple[BlockInfo, ...], blocks: Mapping[int, BlockInfo], logs: Sequence[Log]
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
        headers = []
        for number, header in zip(numbers, await self.node.headers(numbers), strict=True):
            if header is None or header.number != number:
                raise ChainMoved(f"A node says it is past block {number}, but does not have it.")
            headers.append(header)
        return headers

    async def _blocks_of(self, logs: Sequence[Log], hashes: Mapping[int, str]) -> dict[int, BlockInfo]:
        """Return the blocks of logs: from the logs where they say all there is to know, else from headers."""
        if not self.sources.l1_blocks:
            times = {log.block_number: log.block_timestamp for log in logs}
            if None not in times.values():
                return {
                    (number := int(text, 16)): BlockInfo(number, bytes_of(hashes[number], 32), _seconds(time), number)
                    for text, time in times.items()
                }
        blocks = {}
        for header in await self._present(sorted(hashes)):
            if header.hash != hashes[header.number]:
                raise ChainMoved(f"A node's logs of block {header.number} are of another block than its header.")
            blocks[header.number] = header.info(self.sources.l1_blocks)
        return blocks

    # ---------------------------------------------------------------- logs

    async def _ours_and_payments(self, first: int, last: int) -> list[Log]:
        """Fetch the logs of a range: our contracts', and transfers to them."""
        payments = self.sources.transfer_filter
        if payments is None:
            return await self.node.logs(self.sources.main_filter, first, last)
        ours, transfers = await asyncio.gather(
            self.node.logs(self.sources.main_filter, first, last), self.node.logs(payments, first, last)
        )
        return ours + transfers

    async def _logs(self, first: int, last: int) -> list[Log]:
        """Fetch our logs, transfers to us, and the authorizations that may have made the transfers."""
        logs = await self._ours_and_payments(first, last)
        if len(self.node.opinions()) > 1:
            logs = await self.witness.of_page(self._filters, first, last, logs)
        authorizations = []
        for chosen in self._authorization_filters(self._payments_in(logs)):
            for node in self.node.opinions():
                authorizations += await node.logs(chosen, first, last)
        return logs + merged(authorizations)

    async def _sampled(self, logs: Sequence[Log]) -> None:
        """Compare some blocks of a page with their receipts if no second node was asked for it."""
        if len(self.node.opinions()) == 1:
            await self.witness.sample(self._filters, logs)

    @property
    def _filters(self) -> list[Filter]:
        payments = self.sources.transfer_filter
        return [self.sources.main_filter] if payments is None else [self.sources.main_filter, payments]

    async def _authorizations_of(self, headers: Sequence[Header], logs: Sequence[Log]) -> list[Log]:
        """Fetch, block by block, the authorizations that may have made the transfers in `logs`."""
        by_block: dict[str, list[Log]] = {}
        for log in self._payments_in(logs):
            by_block.setdefault(log.block_hash, []).append(log)
        gate = asyncio.Semaphore(HASH_QUESTIONS_AT_ONCE)

        async def ask(header: Header, transfers: list[Log]) -> list[Log]:
            async with gate:
                filters = self._authorization_filters(transfers)
                given = [log for chosen in filters for log in await self.node.logs_of_block(chosen, header.hash)]
                proved = await self.witness.whole(header, filters, given)
                return _of_block(given if proved is None else proved, header)

        parts = await asyncio.gather(*(ask(each, by_block[each.hash]) for each in headers if each.hash in by_block))
        return [log for part in parts for log in part]

    def _payments_in(self, logs: Iterable[Log]) -> list[Log]:
        if self.sources.token is None:
            return []
        token, transfer = hex_of(self.sources.token), hex_of(TRANSFER.topic)
        return [log for log in logs if log.address.lower() == token and log.topics[:1] == (transfer,)]

    def _authorization_filters(self, transfers: Iterable[Log]) -> list[Filter]:
        senders = sorted({log.topics[1] for log in transfers if len(log.topics) == 3})
        return [
            self.sources.authorization_filter(senders[at : at + SENDERS_AT_ONCE])
            for at in range(0, len(senders), SENDERS_AT_ONCE)
        ]

    async def _complete(self, headers: Sequence[Header], logs: list[Log]) -> list[Log]:
        """Return the logs with those that were left out: every block that has logs of ours, or may by its bloom, is
        compared. If no other node can be asked, a block that came without logs is requested again by its hash."""
        given: dict[str, list[Log]] = {}
        for log in logs:
            given.setdefault(log.block_hash, []).append(log)
        doubted = [header for header in headers if header.hash in given or self._may_hold_ours(header)]
        gate = asyncio.Semaphore(HASH_QUESTIONS_AT_ONCE)

        async def proved(header: Header) -> list[Log]:
            ours = given.get(header.hash, [])
            async with gate:
                whole = await self.witness.whole(header, self._filters, ours)
                if whole is None:
                    metrics.UNPROVED.labels(self.sources.name).inc()
                    whole = ours or await self._again(header)
            return _of_block(whole, header)

        parts = await asyncio.gather(*(proved(header) for header in doubted))
        return [log for part in parts for log in part]

    def _may_hold_ours(self, header: Header) -> bool:
        bits = header.bloom
        return bits is None or self._bloom.allows_ours(bits) or self._bloom.allows_payment(bits)

    async def _again(self, header: Header) -> list[Log]:
        logs = [log for chosen in self._filters for log in await self.node.logs_of_block(chosen, header.hash)]
        if logs:
            metrics.SHORT_ANSWERS.labels(self.sources.name).inc()
        return logs


def _seconds(text: str | None) -> int:
    seconds = int(text or "", 16)
    if not 0 <= seconds < 2**60:
        raise ValueError(f"{text} is no time")
    return seconds


def _of_block(logs: list[Log], header: Header) -> list[Log]:
    if any(log.block_hash != header.hash or int(log.block_number, 16) != header.number for log in logs):
        raise NodeFault(f"A node's logs of block {header.number} are not of the block asked for.")
    return logs
