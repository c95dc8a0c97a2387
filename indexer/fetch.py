"""Fetches blocks and logs from a node so that the result is complete and comes from one chain.

- At the head, `fetch_linked` reads every header. Each must name its predecessor, and every log must be in one of these
blocks. A block that has logs of ours, or may have some according to its bloom, is compared with a second node or with
its receipts.
- Deep in history, `fetch_history` reads only logs and the last header. The logs are compared with a second node's.
Without a second node, a few blocks are compared with their receipts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.wire import Log
from core.contracts.events import UndecodableLog
from core.contracts.events.shared import TRANSFER
from core.hexadecimal import bytes_of, hex_of
from indexer import metrics
from indexer.completeness import DISTRUSTED_AT_ONCE, BloomTest, LogCompleteness, merged
from indexer.errors import ChainMoved, NodeFault
from indexer.fold.rows import BlockInfo, LogRecord, Page
from indexer.fold.single import relevant
from indexer.node import SENDERS_AT_ONCE, Header, RpcNode
from indexer.sources import Filter, Sources

HASH_QUESTIONS_AT_ONCE = 8


class Replaced(Exception):
    """The parent of the block after the cursor is not the cursor's block, so the chain was reorganized."""


class Fetcher:
    def __init__(self, node: RpcNode, sources: Sources) -> None:
        self.node = node
        self.sources = sources
        self.completeness = LogCompleteness(node, sources.name)
        self._bloom = BloomTest(sources)

    async def fetch_linked(self, first: int, last: int, parent: bytes | None, head: Header) -> Page:
        """Fetch the blocks `first` to `last`. Raise Replaced if the parent of `first` is not `parent`."""
        with self._rejecting_bad_logs(first, last):
            return await self._fetch_linked(first, last, parent, head)

    async def fetch_history(self, first: int, last: int) -> Page:
        """Fetch blocks deep in history with as few requests as possible."""
        with self._rejecting_bad_logs(first, last):
            return await self._fetch_history(first, last)

    @contextmanager
    def _rejecting_bad_logs(self, first: int, last: int) -> Iterator[None]:
        """Turn malformed logs into a NodeFault. After a fault, every field of the node's logs is checked for a while,
        which is slow."""
        try:
            yield
        except ChainMoved:
            raise
        except NodeFault:
            self.node.check_fields()
            raise
        except ValueError as error:
            self.node.check_fields()
            raise NodeFault(f"A node returned malformed logs of blocks {first} to {last}: {error}.") from error

    async def _fetch_linked(self, first: int, last: int, parent: bytes | None, head: Header) -> Page:
        if first == last == head.number:
            headers, logs = [head], await self._logs_of_head(head)
        else:
            headers, logs = await asyncio.gather(
                self._required_headers(range(first, last + 1)), self._ours_and_payments(first, last)
            )
        if parent is not None and headers[0].parent_hash != hex_of(parent):
            raise Replaced
        for one, after in pairwise(headers):
            if after.parent_hash != one.hash:
                raise ChainMoved(f"The chain changed at block {after.number} while it was being read.")
        for number, digest in block_hashes(logs, first, last).items():
            _require_same_hash(headers[number - first], digest)
        logs = await self._complete(headers, logs)
        logs += await self._authorizations_of(headers, logs)
        blocks = {header.number: header.info(self.sources.uses_l1_blocks) for header in headers}
        return self._page(first, tuple(blocks.values()), blocks, logs)

    async def _fetch_history(self, first: int, last: int) -> Page:
        if self.completeness.distrusts:
            return await self._distrusted(first, last)
        (end,), logs = await asyncio.gather(self._required_headers([last]), self._logs(first, last))
        hashes = block_hashes(logs, first, last)
        _require_same_hash(end, hashes.get(last, end.hash))
        blocks, _ = await asyncio.gather(self._blocks_of(logs, hashes), self._sampled(logs))
        blocks[last] = end.info(self.sources.uses_l1_blocks)
        return self._page(first, tuple(blocks[number] for number in sorted(blocks)), blocks, logs)

    async def _distrusted(self, first: int, last: int) -> Page:
        """Fetch history as carefully as blocks at the head, because the node has left out logs before."""
        if last - first >= DISTRUSTED_AT_ONCE:
            raise RpcError(
                RpcErrorKind.RANGE_TOO_WIDE, "A node left out logs, so history is now read in smaller pages."
            )
        (end,) = await self._required_headers([last])
        return await self._fetch_linked(first, last, None, end)

    def _page(
        self, first: int, remembered: tuple[BlockInfo, ...], blocks: Mapping[int, BlockInfo], logs: Sequence[Log]
    ) -> Page:
        decoded = decode_logs(logs, self.sources, blocks)
        if self.sources.token is not None:
            decoded = relevant(decoded)
        return Page(first, remembered[-1], remembered, decoded)

    # ---------------------------------------------------------------- headers

    async def _required_headers(self, numbers: Sequence[int]) -> list[Header]:
        headers = []
        for number, header in zip(numbers, await self.node.headers(numbers), strict=True):
            if header is None or header.number != number:
                raise ChainMoved(f"A node does not have block {number}, although its head is higher.")
            headers.append(header)
        return headers

    async def _blocks_of(self, logs: Sequence[Log], hashes: Mapping[int, str]) -> dict[int, BlockInfo]:
        """Return the blocks of the logs. They are read from the logs if these have all fields, else from headers."""
        if not self.sources.uses_l1_blocks:
            times = {log.block_number: log.block_timestamp for log in logs}
            if None not in times.values():
                return {
                    (number := int(text, 16)): BlockInfo(number, bytes_of(hashes[number], 32), _seconds(time), number)
                    for text, time in times.items()
                }
        blocks = {}
        for header in await self._required_headers(sorted(hashes)):
            _require_same_hash(header, hashes[header.number])
            blocks[header.number] = header.info(self.sources.uses_l1_blocks)
        return blocks

    # ---------------------------------------------------------------- logs

    async def _ours_and_payments(self, first: int, last: int) -> list[Log]:
        parts = await asyncio.gather(*(self.node.logs(chosen, first, last) for chosen in self._filters))
        return [log for part in parts for log in part]

    async def _logs_of_head(self, head: Header) -> list[Log]:
        """Fetch our contracts' logs in the newest block. Fetch payments too if the block's bloom allows for some or is
        wrong.

        Most blocks have no payments. The recheck fetches payments again, whatever the bloom says.
        """
        if head.bloom is not None and not self._bloom.allows_payment(head.bloom):
            logs = await self.node.logs(self.sources.main_filter, head.number, head.number)
            if not logs or self._bloom.allows_ours(head.bloom):
                return logs
        return await self._ours_and_payments(head.number, head.number)

    async def _logs(self, first: int, last: int) -> list[Log]:
        """Fetch our logs, the token's transfers to us, and the authorizations that may have caused these transfers."""
        logs = await self._ours_and_payments(first, last)
        if len(self.node.separate_nodes()) > 1:
            logs = await self.completeness.complete_page(self._filters, first, last, logs)
        authorizations = []
        for chosen in self._authorization_filters(self._payments_in(logs)):
            for node in self.node.separate_nodes():
                authorizations += await node.logs(chosen, first, last)
        return logs + merged(authorizations)

    async def _sampled(self, logs: Sequence[Log]) -> None:
        if len(self.node.separate_nodes()) == 1:
            await self.completeness.sample(self._filters, logs)

    @property
    def _filters(self) -> list[Filter]:
        payments = self.sources.transfer_filter
        return [self.sources.main_filter] if payments is None else [self.sources.main_filter, payments]

    async def _authorizations_of(self, headers: Sequence[Header], logs: Sequence[Log]) -> list[Log]:
        """Fetch, block by block, the authorizations that may have caused the transfers in `logs`."""
        by_block: dict[str, list[Log]] = {}
        for log in self._payments_in(logs):
            by_block.setdefault(log.block_hash, []).append(log)
        gate = asyncio.Semaphore(HASH_QUESTIONS_AT_ONCE)

        async def ask(header: Header, transfers: list[Log]) -> list[Log]:
            async with gate:
                filters = self._authorization_filters(transfers)
                received = [log for chosen in filters for log in await self.node.logs_of_block(chosen, header.hash)]
                complete = await self.completeness.complete_block(header, filters, received)
                return _of_block(received if complete is None else complete, header)

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
        """Return the logs and any that the node left out. If a block came without logs although its bloom
        allows for some, and nothing can verify that there are none, fetch the block's logs again by its hash."""
        received: dict[str, list[Log]] = {}
        for log in logs:
            received.setdefault(log.block_hash, []).append(log)
        doubted = [header for header in headers if header.hash in received or self._may_hold_ours(header)]
        gate = asyncio.Semaphore(HASH_QUESTIONS_AT_ONCE)

        async def complete_or_refetched(header: Header) -> list[Log]:
            ours = received.get(header.hash, [])
            async with gate:
                complete = await self.completeness.complete_block(header, self._filters, ours)
                if complete is None:
                    metrics.UNPROVED.labels(self.sources.name).inc()
                    complete = ours or await self._refetch(header)
            return _of_block(complete, header)

        parts = await asyncio.gather(*(complete_or_refetched(header) for header in doubted))
        return [log for part in parts for log in part]

    def _may_hold_ours(self, header: Header) -> bool:
        bits = header.bloom
        return bits is None or self._bloom.allows_ours(bits) or self._bloom.allows_payment(bits)

    async def _refetch(self, header: Header) -> list[Log]:
        logs = [log for chosen in self._filters for log in await self.node.logs_of_block(chosen, header.hash)]
        if logs:
            metrics.SHORT_ANSWERS.labels(self.sources.name).inc()
        return logs


def _seconds(text: str | None) -> int:
    seconds = int(text or "", 16)
    if not 0 <= seconds < 2**60:
        raise ValueError(f"{text} is not a timestamp")
    return seconds


def _require_same_hash(header: Header, of_logs: str) -> None:
    if header.hash != of_logs:
        raise ChainMoved(f"A node's logs of block {header.number} have another block hash than its header.")


def _of_block(logs: list[Log], header: Header) -> list[Log]:
    if any(log.block_hash != header.hash or int(log.block_number, 16) != header.number for log in logs):
        raise NodeFault(f"A node returned logs of another block for block {header.number}.")
    return logs


INDEXES = 2**31
"""The limit of a log's index in its block: the column's limit, more than a block can have."""


def block_hashes(logs: Sequence[Log], first: int, last: int) -> dict[int, str]:
    """Return the hashes of the logs' blocks. Raise NodeFault for a block outside the range, and ChainMoved for a block
    with two hashes. Raise ValueError for a malformed hash, because it is no sign of a second block."""
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
    """Return typed logs in chain order. `blocks` must contain every block of the logs.

    This is a hot path, so it makes one pass and no call per field.
    """
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
