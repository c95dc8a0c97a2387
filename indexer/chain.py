"""Follows one chain: at each new head, fetches and writes the new blocks, and rewinds replaced ones.

No state in memory decides what is written: each step starts from the cursor, and moves it in the transaction that
writes its rows. After a crash at any point, or while two processes run, work continues from the last commit.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from core.chain.errors import RpcError
from core.chain.heads import final_block
from core.db.engine import ConnectionPool
from core.hexadecimal import hex_of
from core.log import get_logger
from indexer import metrics
from indexer.errors import BeyondFinality, Contradiction, NodeFault
from indexer.feeds import backfill_feeds
from indexer.fetch import Fetcher, Replaced
from indexer.finality import FinalityTracker, find_fork, require_agreement
from indexer.fold.rows import Page
from indexer.history import TOO_MUCH, Width, batches, one_ahead, pages
from indexer.node import Header, RpcNode
from indexer.sources import Sources
from indexer.store.cursor import (
    Cursor,
    SeenHead,
    open_cursor,
    places_of_logs,
    record_head,
    record_state,
)
from indexer.store.steps import append, insert_missing, prune_blocks, rewind
from indexer.store.sums import sum_all

log = get_logger(__name__)

LINKED_AT_ONCE = 32  # blocks fetched together at the head
KEEP_LOCAL_BLOCKS = 20_000  # of a development chain; below, only blocks with logs are kept
PRUNE_SECONDS = 60.0
ABANDONED_SECONDS = 10.0  # within this time each of several nodes behind one address has responded
REWRITE_SECONDS = 0.9  # so that every head is written of a chain that is polled once a second
MAX_LINKED_GAP = 2_048
"""History is read in pages even beyond the finalized block if that block is further behind than this."""
COLLECT_AFTER = 200_000
"""New objects before Python looks for garbage during a backfill. Pages of history are many objects without cycles, and
looking as often as usual takes a tenth of the time."""
USUAL_THRESHOLDS = gc.get_threshold()

RECHECK_SECONDS = 15.0
RECHECK_BLOCKS = 2_000
"""The most blocks of history rechecked at once; fewer where they hold more logs than a page should."""
RECHECK_AFTER = 4
"""After this many blocks, a node's log index has the logs it lacked at the head."""


@dataclass(slots=True)
class Recheck:
    """How far committed blocks have been compared with the nodes a second time."""

    checked_at: float = field(default_factory=time.monotonic)
    recent_until: int | None = None
    history_until: int | None = None
    width: Width = field(default_factory=lambda: Width(ceiling=RECHECK_BLOCKS, widest=RECHECK_BLOCKS))

    def recent(self, cursor: int, lowest: int) -> tuple[int, int] | None:
        """Return the next range of new blocks to compare, or None if there is none yet. Blocks too far behind the
        cursor count as history."""
        last = cursor - RECHECK_AFTER
        until = self.recent_until if self.recent_until is not None else last - LINKED_AT_ONCE
        first = max(lowest, until + 1, last - 4 * LINKED_AT_ONCE)
        return None if first > last else (first, min(last, first + LINKED_AT_ONCE - 1))

    def history(self, newest: int, lowest: int) -> tuple[int, int] | None:
        """Return the next page of history up to `newest`. After the last page, start again at the lowest block."""
        first = lowest if self.history_until is None or self.history_until >= newest else self.history_until + 1
        return None if first > newest else (first, min(newest, first + self.width.blocks - 1))


class ChainFollower:
    """Follows one chain. `catch_up` brings the tables to the node's current head."""

    def __init__(self, node: RpcNode, sources: Sources, pool: ConnectionPool, *, finality_blocks: int) -> None:
        self.node = node
        self.sources = sources
        self.cursor: Cursor | None = None
        self.head: Header | None = None
        self._pool = pool
        self._finality_blocks = finality_blocks
        self._fetcher = Fetcher(node, sources)
        self._recheck = Recheck()
        self._caught_up_at = time.time()
        metrics.LAG_SECONDS.labels(sources.name).set_function(lambda: max(0.0, time.time() - self._caught_up_at))
        self._width = Width()
        self._linked_at_once = LINKED_AT_ONCE
        # The highest reported head and when it was last reported, while the tables have not reached it.
        self._unreached: tuple[int, float] | None = None
        self._recorded: object = None
        self._recorded_at = -math.inf
        self._finalized: int | None = None
        self._reported_final: int | None = None  # accepted only when this call's head is indexed
        self._finality = FinalityTracker(node)
        self._pruned = time.monotonic()
        self._feeds_complete = False
        metrics.UNPAID_STAKES.labels(sources.name)  # exported as 0 from the start

    async def open(self) -> Cursor:
        """Read the cursor. Call this before the first `catch_up`, and after CursorMoved or a database error."""
        async with self._pool.connection() as connection:
            self.cursor = await open_cursor(connection, self.sources)
        self._finalized = self.cursor.finalized
        return self.cursor

    async def catch_up(self) -> None:
        """Index up to the node's current head. If this raises an error, the tables stay at the last commit."""
        head = self.head = await self.node.head()
        cursor, was_caught_up = self._open_cursor(), self._unreached is None
        # While a node reports heads without delivering their blocks, no head is recorded: readers must see that the
        # tables are stale, even if another node reports older heads.
        if head.number < cursor.number and not self.sources.allows_deep_reorgs:
            # A node that is behind is no reorganization; it will pass the cursor.
            if was_caught_up:
                await self._record_head(head, None)
            return
        if self._unreached is None or head.number >= self._unreached[0]:
            self._unreached = head.number, time.monotonic()
        if was_caught_up and head.number - cursor.number > LINKED_AT_ONCE:
            await self._record_head(head, "backfill")
        self._reported_final = await self._finality.if_due(head.number)
        cut_short = head.number < cursor.number
        if not cursor.at_start and (cut_short or (head.number == cursor.number and not _is(head, cursor))):
            await self._undo(head)
        while self._open_cursor().number < head.number:
            try:
                await self._forward(head)
            except Replaced:
                await self._undo(head)
            except Contradiction:
                await self._recheck_newest()
                raise
        if not self._feeds_complete:
            await backfill_feeds(self._pool, self.node, self.sources, self._open_cursor())
            self._feeds_complete = True
        await self._sum()
        if self._may_stop_at(head):
            self._caught_up_at, self._unreached = time.time(), None
            self._finalized = self._final_with_report()
            await self._record_head(head, "tail")
        elif self._recorded is None:  # it was halted
            await self._record_state("tail")
        metrics.LAG_BLOCKS.labels(self.sources.name).set(max(0, head.number - self._open_cursor().number))
        await self._prune()
        await self._recheck_blocks()

    async def _sum(self) -> None:
        """Fill the sum tables after the first backfill. Later steps keep the sums up to date, which takes two fifths of
        a step's time."""
        if not self._open_cursor().summed:
            async with self._pool.connection() as connection:
                self.cursor = await sum_all(connection, self.sources, self._open_cursor())

    async def _forward(self, head: Header) -> None:
        cursor = self._open_cursor()
        settled = self._settled_below(head.number)
        if settled - cursor.number > LINKED_AT_ONCE:
            await self._require_cursor_block(cursor)
            gc.set_threshold(COLLECT_AFTER, *USUAL_THRESHOLDS[1:])
            try:
                await self._backfill(cursor.number + 1, settled)
            finally:
                gc.set_threshold(*USUAL_THRESHOLDS)
            return
        first, last = cursor.number + 1, min(head.number, cursor.number + self._linked_at_once)
        try:
            page = await self._fetcher.fetch_linked(first, last, cursor.hash, head)
        except RpcError as error:
            if error.kind not in TOO_MUCH or first == last:
                raise
            self._linked_at_once = (last - first + 1) // 2
            return
        self._linked_at_once = min(2 * self._linked_at_once, LINKED_AT_ONCE)
        reaches_head = last == head.number and self._feeds_complete and self._may_stop_at(head)
        await self._append([page], head=head if reaches_head else None)

    def _settled_below(self, head: int) -> int:
        """Return the highest block that is deep enough to be read as history. In history, only blocks with logs are
        stored."""
        settled = head - self._finality_blocks
        for final in (self._finalized, self._reported_final):
            if final is not None and final >= head - MAX_LINKED_GAP:
                settled = min(settled, final)
        return settled

    async def _backfill(self, first: int, last: int) -> None:
        begun = time.monotonic()
        logged_at, events = begun, 0
        async with aclosing(one_ahead(batches(pages(self._fetcher, first, last, self._width)))) as history:
            async for batch in history:
                # If the database loses history in a crash, it is read again.
                try:
                    await self._append(batch, durable=False)
                except Contradiction:
                    if len(batch) == 1:
                        raise
                    # Keep the pages before the faulty one. Their blocks are compared with the node next: a log that is
                    # missing there would explain the contradiction.
                    for page in batch:
                        await self._append([page], durable=False)
                now, number = time.monotonic(), batch[-1].end.number
                events += sum(len(page.logs) for page in batch)
                if now - logged_at > 5 or number == last:
                    logged_at = now
                    done = (number - first + 1) / (last - first + 1)
                    log.info(
                        f"backfill {done:.0%}",
                        action="index.backfill",
                        chain=self.sources.name,
                        block=number,
                        until=last,
                        events=events,
                        remaining_seconds=round((now - begun) / done * (1 - done)),
                    )

    async def _append(self, batch: Sequence[Page], *, durable: bool = True, head: Header | None = None) -> None:
        """Write pages and, if they end with the head, record it in the same transaction."""
        seen = None if head is None else SeenHead(head.number, head.timestamp, self._final_with_report(), "tail")
        async with self._pool.connection() as connection:
            self.cursor = await append(connection, self.sources, self._open_cursor(), batch, durable=durable, head=seen)
        if head is not None and seen is not None:
            self._note_recorded(head, seen)
        metrics.EVENTS.labels(self.sources.name).inc(sum(len(page.logs) for page in batch))
        if self.head is not None:
            metrics.LAG_BLOCKS.labels(self.sources.name).set(max(0, self.head.number - self.cursor.number))
        metrics.INDEXED.labels(self.sources.name).set(self.cursor.number)

    # ---------------------------------------------------------------- rechecking committed blocks

    async def _recheck_newest(self) -> None:
        """Compare the newest blocks up to the cursor with the node immediately. If the next block builds on logs that
        the tables lack, nothing more can be indexed until those logs are inserted."""
        cursor = self._open_cursor()
        first = max(self.sources.start_block, cursor.number - 4 * LINKED_AT_ONCE + 1)
        if self.head is not None and first <= cursor.number:
            try:
                await self._insert_missing(await self._fetcher.fetch_linked(first, cursor.number, None, self.head))
            except (RpcError, NodeFault, Contradiction) as error:  # the tables are no worse than before
                log.info(error.message, action="index.not_compared", chain=self.sources.name)
        await self._recheck_blocks()

    async def _recheck_blocks(self) -> None:
        """Compare committed blocks with the nodes again, and insert missing logs. New blocks are compared once, as soon
        as the nodes have had time to index them. History is compared a page at a time, over and over."""
        now, cursor = time.monotonic(), self._open_cursor()
        if now - self._recheck.checked_at < RECHECK_SECONDS:
            return
        self._recheck.checked_at = now
        lowest = self.sources.start_block
        recent = self._recheck.recent(cursor.number, lowest)
        history = self._recheck.history(cursor.number - RECHECK_AFTER, lowest)
        try:
            if recent is not None and self.head is not None:
                await self._insert_missing(await self._fetcher.fetch_linked(*recent, None, self.head))
                self._recheck.recent_until = recent[1]
            if history is not None:
                page = await self._fetcher.fetch_history(*history)
                self._recheck.width.succeeded(history[1] - history[0] + 1, len(page.logs))
                await self._insert_missing(page)
                self._recheck.history_until = history[1]
        except (RpcError, NodeFault, Contradiction) as error:  # the tables are no worse than before
            if isinstance(error, RpcError) and error.kind in TOO_MUCH and history is not None:
                self._recheck.width.failed(history[1] - history[0] + 1)
            log.info(error.message, action="index.not_compared", chain=self.sources.name)

    async def _insert_missing(self, page: Page) -> None:
        async with self._pool.connection() as connection:
            stored = await places_of_logs(connection, self.sources.chain_id, page.first, page.end.number)
            missing = [log for log in page.logs if (log.block, log.index) not in stored]
            if not missing:
                return
            log.warning(
                "inserting logs that were missing from committed blocks",
                action="index.repaired",
                chain=self.sources.name,
                logs=len(missing),
                blocks=sorted({each.block for each in missing})[:20],
            )
            await insert_missing(connection, self.sources, self._open_cursor(), page, missing)
        metrics.REPAIRED.labels(self.sources.name).inc(len(missing))

    # ---------------------------------------------------------------- reorganizations

    async def _require_cursor_block(self, cursor: Cursor) -> None:
        """Raise Replaced unless the chain still has the cursor's block. Call this before reading history above the
        cursor."""
        if cursor.hash is not None:
            (header,) = await self.node.headers([cursor.number])
            if header is None or not _is(header, cursor):
                raise Replaced

    async def _undo(self, head: Header) -> None:
        """Rewind to the last block that the tables and the chain share. Every node must agree on that block, and no
        final block may be replaced."""
        cursor = self._open_cursor()
        if cursor.at_start:
            raise NodeFault("A node returned a first block whose parent is not that node's previous block.")
        async with self._pool.connection() as connection:
            fork = await find_fork(connection, self.node, cursor.chain_id, min(cursor.number, head.number))
            await require_agreement(self.node, fork)
            back_to = self.sources.start_block - 1 if fork.ancestor is None else fork.ancestor.number
            lowest = final_block(cursor.number, self._finalized, self._finality_blocks)
            if back_to < lowest and not self.sources.allows_deep_reorgs:
                raise BeyondFinality(
                    f"Chain {self.sources.name} replaced blocks from {back_to + 1} on, although block {lowest} was"
                    f" final. The index stays at block {cursor.number} and is served as stale.",
                    hint="Check that the nodes work. To follow them, stop every indexer and run ./vpm reindex.",
                )
            log.warning(
                "reorg: blocks were replaced",
                action="index.reorg",
                chain=self.sources.name,
                indexed=cursor.number,
                ancestor=back_to,
                depth=cursor.number - back_to,
            )
            self.cursor = await rewind(connection, self.sources, cursor, fork.ancestor)
        metrics.REORGS.labels(self.sources.name).inc()
        metrics.INDEXED.labels(self.sources.name).set(back_to)

    # ---------------------------------------------------------------- state for readers and metrics

    async def halt(self, problem: str) -> None:
        """Record that the tables are stale, and why."""
        self._recorded = None
        await self._record_state("halted", problem)

    async def _record_state(self, state: str, problem: str | None = None) -> None:
        async with self._pool.connection() as connection:
            await record_state(connection, self.sources.chain_id, state, problem)
        metrics.HALTED.labels(self.sources.name).set(state == "halted")

    async def _record_head(self, head: Header, state: str | None) -> None:
        """Record a head, unless the same head was recorded within the last second. Recording a head again shows readers
        that the chain is still followed, and replaces what a former leader may have written."""
        seen = SeenHead(head.number, head.timestamp, self._finalized, state)
        if self._recorded != (head.hash, seen) or time.monotonic() - self._recorded_at >= REWRITE_SECONDS:
            async with self._pool.connection() as connection:
                await record_head(connection, self.sources.chain_id, seen)
            self._note_recorded(head, seen)

    def _note_recorded(self, head: Header, seen: SeenHead) -> None:
        self._recorded, self._recorded_at = (head.hash, seen), time.monotonic()
        metrics.HEAD.labels(self.sources.name).set(head.number)
        metrics.HEAD_TIME.labels(self.sources.name).set(head.timestamp)
        if seen.state is not None:
            metrics.HALTED.labels(self.sources.name).set(0)

    def _may_stop_at(self, head: Header) -> bool:
        """Return whether the tables may stop at `head`, because no higher block was reported recently."""
        assert self._unreached is not None
        highest, reported_at = self._unreached
        is_old = time.monotonic() - reported_at >= ABANDONED_SECONDS
        return head.number >= highest or is_old or self.sources.allows_deep_reorgs

    def _final_with_report(self) -> int | None:
        """Return the newest final block. The nodes' last report counts even if its head is not indexed yet."""
        if self._reported_final is None:
            return self._finalized
        return max(self._reported_final, self._finalized or 0)

    async def _prune(self) -> None:
        if time.monotonic() - self._pruned < PRUNE_SECONDS:
            return
        self._pruned = time.monotonic()
        cursor = self._open_cursor()
        depth = KEEP_LOCAL_BLOCKS if self.sources.allows_deep_reorgs else self._finality_blocks
        below = min(cursor.number - depth, final_block(cursor.number, self._finalized, depth))
        async with self._pool.connection() as connection:
            await prune_blocks(connection, cursor, below)

    def _open_cursor(self) -> Cursor:
        assert self.cursor is not None, "open() comes first"
        return self.cursor


def _is(header: Header, cursor: Cursor) -> bool:
    return cursor.hash is not None and header.hash == hex_of(cursor.hash)
