"""One chain, followed: at every news of a head, read what is new and write it; undo what was replaced.

Nothing is kept in memory that decides what is written: each step starts from the cursor, and moves it in the
transaction of its rows. Killed anywhere, or doubled, it continues from the last commit.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from core.chain.errors import RpcError
from core.chain.finality import final_block
from core.db.engine import Connection, ConnectionPool
from core.hexadecimal import bytes_of, hex_of
from core.log import get_logger
from indexer import metrics
from indexer.backfill import TOO_MUCH, Width, pages
from indexer.errors import BeyondFinality, Contradiction, NodeFault
from indexer.feeds import read_past
from indexer.fetch import Fetcher, Replaced
from indexer.finality import FinalityTracker, Fork, common_ancestor, confirms
from indexer.logs import Page
from indexer.node import ChainNode
from indexer.sources import Sources
from indexer.store import lookup
from indexer.store.cursor import Cursor, note_head, note_state, open_cursor
from indexer.store.steps import append, forget_below, mend, rewind
from indexer.store.sums import sum_all
from indexer.wire import Header

log = get_logger(__name__)

LINKED_AT_ONCE = 32
"""Blocks read together at the head."""
LOOK_BACK = 64
"""Remembered blocks compared with the chain at once."""
KEEP_LOCAL_BLOCKS = 20_000
"""A development chain is remembered so deep block by block; below, only blocks with logs."""
PRUNE_SECONDS = 60.0
GONE_SECONDS = 10.0  # of several nodes behind one address each is met within so long
NOTED_AGAIN_SECONDS = 0.9  # of chains that are asked once a second every answer is written down
MAX_LINKED_GAP = 2_048
SHORT_HISTORY = 1_000  # blocks: so few are summed as they are read, not when all of them are
"""A finalized block further behind than this does not keep history from being read in pages."""


RECHECK_SECONDS = 15.0
RECHECK_BLOCKS = 2_000
"""Of history, each time, at most: fewer where they hold more logs than a page should."""
RECHECK_AFTER = 4
"""So many blocks later a node's search has what it lacked at the head."""


@dataclass(slots=True)
class Recheck:
    """How far committed blocks were compared with the nodes again."""

    looked_at: float = field(default_factory=time.monotonic)
    recent_until: int | None = None
    history_until: int | None = None
    width: Width = field(default_factory=lambda: Width(ceiling=RECHECK_BLOCKS, widest=RECHECK_BLOCKS))

    def recent(self, cursor: int, lowest: int) -> tuple[int, int] | None:
        """Return the next of the newest blocks to compare; blocks too far behind for one look count as history."""
        last = cursor - RECHECK_AFTER
        until = self.recent_until if self.recent_until is not None else last - LINKED_AT_ONCE
        first = max(lowest, until + 1, last - 4 * LINKED_AT_ONCE)
        return None if first > last else (first, min(last, first + LINKED_AT_ONCE - 1))

    def history(self, newest: int, lowest: int) -> tuple[int, int] | None:
        """Return the next page up to `newest`, beginning again at the lowest block once through."""
        first = lowest if self.history_until is None or self.history_until >= newest else self.history_until + 1
        return None if first > newest else (first, min(newest, first + self.width.blocks - 1))


class _Noted:
    """The values last written for readers, so that heads are written less often than they are fetched. The same value
    is written again after a second: readers see by its time that the chain is followed, and the previous leader may
    have written something else."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[object, float]] = {}

    def is_due(self, what: str, said: object) -> bool:
        written, at = self._written.get(what, (None, -math.inf))
        return written != said or time.monotonic() - at >= NOTED_AGAIN_SECONDS

    def done(self, what: str, said: object) -> None:
        self._written[what] = said, time.monotonic()


@dataclass(slots=True)
class _Unread:
    """The highest head that a node named and the tables were not brought to, and when it, or one above, was named."""

    number: int
    named_at: float

    def named(self, head: int) -> None:
        if head >= self.number:
            self.number, self.named_at = head, time.monotonic()

    def is_settled_by(self, head: int) -> bool:
        """Return whether the tables are at this head: it was read, or no node has named it for a while."""
        return head >= self.number or time.monotonic() - self.named_at >= GONE_SECONDS


class ChainFollower:
    """One chain's way into the database. `catch_up` brings the tables to the node's present head."""

    def __init__(self, node: ChainNode, sources: Sources, pool: ConnectionPool, *, finality_blocks: int) -> None:
        self.node = node
        self.sources = sources
        self.cursor: Cursor | None = None
        self.head: Header | None = None
        self._unnoted: Header | None = None
        self._noted = _Noted()
        self._pool = pool
        self._finality_blocks = finality_blocks
        self._fetcher = Fetcher(node, sources)
        self._recheck = Recheck()
        self._level_at = time.time()
        metrics.LAG_SECONDS.labels(sources.name).set_function(lambda: max(0.0, time.time() - self._level_at))
        self._width = Width()
        self._linked_at_once = LINKED_AT_ONCE
        self._unread: _Unread | None = None
        self._finalized: int | None = None
        self._said_final: int | None = None
        self._finality = FinalityTracker(node)
        self._pruned = time.monotonic()
        self._feeds_complete = False
        metrics.UNPAID_STAKES.labels(sources.name)  # shown as 0 from the start

    async def open(self) -> Cursor:
        """Read the cursor; needed before the first `catch_up` and after every failure."""
        async with self._pool.connection() as connection:
            self.cursor = await open_cursor(connection, self.sources)
        self._finalized = self.cursor.finalized
        return self.cursor

    async def catch_up(self) -> None:
        """Index until the tables are at the head the node names now. RpcError, NodeFault, Contradiction, BeyondFinality
        and psycopg.Error leave the tables at the last commit."""
        head = self.head = await self.node.head()
        cursor, was_level = self._at(), self._unread is None
        # What a node calls final is believed once this very head was followed; else it said it of other blocks.
        self._said_final = None
        if not was_level:
            self._finality.due_at = -math.inf
        # A node that names heads but does not give their contents counts as silent: what we show gets old, even if
        # another node names older heads.
        self._unnoted = head if was_level else None
        if head.number < cursor.number and not self.sources.any_depth:
            # One node that is behind is no reorganization; the chain will pass the cursor, or the node will.
            await self._note(asks_what_is_final=False)
            return
        unread = self._unread = self._unread or _Unread(head.number, time.monotonic())
        unread.named(head.number)
        if head.number <= cursor.number:
            await self._note()
        cut_short = head.number < cursor.number
        if not cursor.at_start and (cut_short or (head.number == cursor.number and not _is(head, cursor))):
            await self._undo(head)
        if head.number - cursor.number <= SHORT_HISTORY:
            await self._sum()
        while self._at().number < head.number:
            try:
                await self._forward(head)
            except Replaced:
                await self._undo(head)
            except Contradiction:
                await self._doubt()
                raise
        if not self._feeds_complete:
            await read_past(self._pool, self.node, self.sources, self._at())
            self._feeds_complete = True
        await self._in_state("tail")
        await self._sum()
        if unread.is_settled_by(head.number) or self.sources.any_depth:
            self._level_at, self._unread = time.time(), None
            if self._believe_what_is_final() or not was_level:
                self._unnoted = head
                await self._note()
        self._measure()
        await self._prune()
        await self._look_again()

    async def _sum(self) -> None:
        """Sum what is indexed, once; every later step keeps the sums."""
        if not self._at().summed:
            async with self._pool.connection() as connection:
                self.cursor = await sum_all(connection, self.sources, self._at())

    async def _forward(self, head: Header) -> None:
        cursor = self._at()
        settled = self._settled_below(head.number)
        if settled - cursor.number > LINKED_AT_ONCE:
            await self._note()
            await self._still_there(cursor)
            await self._in_state("backfill")
            await self._backfill(cursor.number + 1, settled)
            return
        started = time.perf_counter()
        first, last = cursor.number + 1, min(head.number, cursor.number + self._linked_at_once)
        try:
            page = await self._noting(self._fetcher.linked(first, last, cursor.hash, head))
        except RpcError as error:
            if error.kind not in TOO_MUCH or first == last:
                raise
            self._linked_at_once = (last - first + 1) // 2
            return
        self._linked_at_once = min(2 * self._linked_at_once, LINKED_AT_ONCE)
        await self._append(page)
        metrics.STEP_SECONDS.labels(self.sources.name, "tail").observe(time.perf_counter() - started)

    def _settled_below(self, head: int) -> int:
        """Return the highest block that is read as history: so deep that its neighbours' hashes need not be
        remembered."""
        settled = head - self._finality_blocks
        for final in (self._finalized, self._said_final):
            if final is not None and final >= head - MAX_LINKED_GAP:
                settled = min(settled, final)
        return settled

    async def _backfill(self, first: int, last: int) -> None:
        begun = time.monotonic()
        said, events = begun, 0
        async with aclosing(pages(self._fetcher, first, last, self._width)) as history:
            async for page in history:
                started = time.perf_counter()
                await self._append(page, durable=False)
                metrics.STEP_SECONDS.labels(self.sources.name, "backfill").observe(time.perf_counter() - started)
                now = time.monotonic()
                events += len(page.logs)
                if now - said > 5 or page.end.number == last:
                    said = now
                    done = (page.end.number - first + 1) / (last - first + 1)
                    log.info(
                        f"backfill {done:.0%}",
                        action="index.backfill",
                        chain=self.sources.name,
                        block=page.end.number,
                        until=last,
                        events=events,
                        remaining_seconds=round((now - begun) / done * (1 - done)),
                    )

    async def _append(self, page: Page, *, durable: bool = True) -> None:
        cursor = self._at()
        async with self._pool.connection() as connection:
            # A page of history that the database loses in a crash is read again.
            self.cursor = await append(connection, self.sources, cursor, page, durable=durable)
        metrics.EVENTS.labels(self.sources.name).inc(len(page.logs))
        metrics.BLOCKS.labels(self.sources.name).inc(page.end.number - cursor.number)
        self._measure()
        metrics.INDEXED.labels(self.sources.name).set(page.end.number)

    # ---------------------------------------------------------------- what was committed and is not whole

    async def _doubt(self) -> None:
        """Compare the newest blocks with the node at once, up to the cursor itself: if one of them lacks what the next
        block builds on, nothing more can be read until that is put in. History is compared as usual."""
        cursor = self._at()
        first = max(self.sources.start_block, cursor.number - 4 * LINKED_AT_ONCE + 1)
        if self.head is not None and first <= cursor.number:
            try:
                await self._put_in_missing(await self._fetcher.linked(first, cursor.number, None, self.head))
            except (RpcError, NodeFault, Contradiction) as error:  # the tables are no worse than before
                log.info(error.message, action="index.not_compared", chain=self.sources.name)
        await self._look_again()

    async def _look_again(self) -> None:
        """Compare blocks the cursor has passed with the nodes: the newest once more when nodes have had time to take in
        what they lacked, and history a page at a time, over and over. What is missing is put in."""
        now, cursor = time.monotonic(), self._at()
        if now - self._recheck.looked_at < RECHECK_SECONDS:
            return
        self._recheck.looked_at = now
        lowest = self.sources.start_block
        recent = self._recheck.recent(cursor.number, lowest)
        history = self._recheck.history(cursor.number - RECHECK_AFTER, lowest)
        try:
            if recent is not None and self.head is not None:
                await self._put_in_missing(await self._fetcher.linked(*recent, None, self.head))
                self._recheck.recent_until = recent[1]
            if history is not None:
                page = await self._fetcher.settled(*history)
                self._recheck.width.came_back(history[1] - history[0] + 1, len(page.logs))
                await self._put_in_missing(page)
                self._recheck.history_until = history[1]
        except (RpcError, NodeFault, Contradiction) as error:  # the tables are no worse than before
            if isinstance(error, RpcError) and error.kind in TOO_MUCH and history is not None:
                self._recheck.width.refused(history[1] - history[0] + 1)
            log.info(error.message, action="index.not_compared", chain=self.sources.name)

    async def _put_in_missing(self, page: Page) -> None:
        async with self._pool.connection() as connection:
            stored = await lookup.places_of_logs(connection, self.sources.chain_id, page.first, page.end.number)
            missing = [log for log in page.logs if (log.block, log.index) not in stored]
            if not missing:
                return
            log.warning(
                "logs were missing in blocks that were read before; they are put in",
                action="index.mended",
                chain=self.sources.name,
                logs=len(missing),
                blocks=sorted({each.block for each in missing})[:20],
            )
            await mend(connection, self.sources, self._at(), page, missing)
        metrics.MENDED.labels(self.sources.name).inc(len(missing))

    # ---------------------------------------------------------------- reorganizations

    async def _still_there(self, cursor: Cursor) -> None:
        """Require that the chain still has the cursor's block, before history is read on top of it."""
        if cursor.hash is not None:
            (header,) = await self.node.headers([cursor.number])
            if header is None or not _is(header, cursor):
                raise Replaced

    async def _undo(self, head: Header) -> None:
        """Go back to the last block the tables and the chain agree on, if that is allowed and every node says so."""
        cursor = self._at()
        if cursor.at_start:
            raise NodeFault("A node's first block does not follow from its own predecessor.")
        async with self._pool.connection() as connection:
            fork = await self._fork(connection, cursor, head)
            await self._agree(fork)
            back_to = self.sources.start_block - 1 if fork.ancestor is None else fork.ancestor.number
            lowest = final_block(cursor.number, self._finalized, self._finality_blocks)
            if back_to < lowest and not self.sources.any_depth:
                raise BeyondFinality(
                    f"{self.sources.name} replaced blocks from {back_to + 1} on, below {lowest}, which counts as final;"
                    f" what was indexed up to block {cursor.number} is served as stale.",
                    hint="Make sure the nodes are sound. To follow them, stop every indexer and run ./vpm reindex.",
                )
            log.warning(
                "the chain replaced blocks",
                action="index.reorg",
                chain=self.sources.name,
                indexed=cursor.number,
                ancestor=back_to,
                depth=cursor.number - back_to,
            )
            self.cursor = await rewind(connection, self.sources, cursor, fork.ancestor)
        metrics.REORGS.labels(self.sources.name).inc()
        metrics.REORG_DEPTH.labels(self.sources.name).observe(cursor.number - back_to)
        metrics.INDEXED.labels(self.sources.name).set(back_to)

    async def _fork(self, connection: Connection, cursor: Cursor, head: Header) -> Fork:
        top = min(cursor.number, head.number)
        above = await lookup.first_block_after(connection, cursor.chain_id, top)
        while True:
            stored = await lookup.blocks_below(connection, cursor.chain_id, top, LOOK_BACK)
            if not stored:
                return Fork(None, above)
            fork = common_ancestor(stored, await self._hashes(self.node, [block.number for block in stored]))
            if fork is not None:
                return Fork(fork.ancestor, fork.replaced or above)
            above, top = stored[-1], stored[-1].number - 1

    async def _agree(self, fork: Fork) -> None:
        """Raise NodeFault, and so wait, while a node is behind, on the old side, or reports another fork."""
        asked = [block.number for block in (fork.ancestor, fork.replaced) if block is not None]
        for node in self.node.opinions():
            hashes = await self._hashes(node, asked)
            ancestor = hashes.get(fork.ancestor.number) if fork.ancestor is not None else None
            replaced = hashes.get(fork.replaced.number) if fork.replaced is not None else None
            if not confirms(fork, ancestor, replaced):
                raise NodeFault(
                    f"The nodes of {self.sources.name} disagree on a reorganization at block {asked[-1]}; nothing is"
                    " undone until they agree."
                )

    @staticmethod
    async def _hashes(node: ChainNode, numbers: list[int]) -> dict[int, bytes]:
        headers = await node.headers(numbers) if numbers else []
        return {
            number: bytes_of(header.hash) for number, header in zip(numbers, headers, strict=True) if header is not None
        }

    # ---------------------------------------------------------------- what others see of it

    async def halt(self, problem: str) -> None:
        """Say in the tables that what is served is stale, and why."""
        await self._in_state("halted", problem)

    async def _in_state(self, state: str, problem: str | None = None) -> None:
        metrics.HALTED.labels(self.sources.name).set(state == "halted")
        if self._noted.is_due("state", (state, problem)):
            async with self._pool.connection() as connection:
                await note_state(connection, self.sources.chain_id, state, problem)
            self._noted.done("state", (state, problem))

    async def _noting(self, reading: Coroutine[Any, Any, Page]) -> Page:
        """Read what is missing while writing down how far the chain is. If either fails, both end."""
        read, noted = await asyncio.gather(reading, self._note(), return_exceptions=True)
        for each in (noted, read):
            if isinstance(each, BaseException):
                raise each
        assert isinstance(read, Page)
        return read

    async def _note(self, *, asks_what_is_final: bool = True) -> None:
        """Write down how far the chain is, if its head was asked for since, and is news or due again."""
        head, self._unnoted = self._unnoted, None
        if head is None:
            return
        if asks_what_is_final:
            said_final = await self._finality.if_due(head.number)
            if said_final is not None:
                self._said_final = said_final
        said = (head.hash, self._finalized)
        if self._noted.is_due("head", said):
            async with self._pool.connection() as connection:
                await note_head(connection, self.sources.chain_id, head.number, head.timestamp, self._finalized)
            self._noted.done("head", said)
        metrics.HEAD.labels(self.sources.name).set(head.number)
        metrics.HEAD_TIME.labels(self.sources.name).set(head.timestamp)
        self._measure()

    def _believe_what_is_final(self) -> bool:
        """Take what was called final while the tables followed this chain to its head. Return whether that is news."""
        before = self._finalized
        if self._said_final is not None:
            self._finalized = max(self._said_final, before or 0)
        return self._finalized != before

    def _measure(self) -> None:
        if self.head is not None and self.cursor is not None:
            lag = max(0, self.head.number - self.cursor.number)
            metrics.LAG_BLOCKS.labels(self.sources.name).set(lag)

    async def _prune(self) -> None:
        if time.monotonic() - self._pruned < PRUNE_SECONDS:
            return
        self._pruned = time.monotonic()
        cursor = self._at()
        depth = KEEP_LOCAL_BLOCKS if self.sources.any_depth else self._finality_blocks
        below = min(cursor.number - depth, final_block(cursor.number, self._finalized, depth))
        async with self._pool.connection() as connection:
            await forget_below(connection, cursor, below)

    def _at(self) -> Cursor:
        assert self.cursor is not None, "open() comes first"
        return self.cursor


def _is(header: Header, cursor: Cursor) -> bool:
    return cursor.hash is not None and header.hash == hex_of(cursor.hash)
