"""The stock markets, read from the index: current markets are kept in memory, older ones are read on request."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, and_, literal_column, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.database import reading
from api.followed_index import Archive, FollowedIndex
from api.head import Head, head_of, last_reorg, read_cursor
from api.problems import unavailable
from api.stock.facts import HeldPosition, ListedMarket, MarketResult, MarketsSnapshot
from core.chain import checksum
from core.contracts.statuses import Family
from core.db.schema.index_stock import OWING, UNPAID, stock_market, stock_position, stock_venue, stock_vintage
from core.feeds.rounds import Round
from core.hexadecimal import hex_of
from core.stock.projection import market_of, may_be_owed, position_of, vintage_of
from core.stock.settling import REFUND_DRILL_AGE_SECONDS
from core.stock.vested import Moment, settlement

# The newest settled markets that are kept in memory with the unsettled ones; others are read on request.
MAX_SETTLED = 200
MAX_UNPAID = 500
_IS_LISTED = and_(stock_market.c.feed.is_not(None), stock_market.c.strike_time.is_not(None))
_IS_SETTLED = and_(stock_market.c.closed_tx.is_not(None), _IS_LISTED)
_SETTLED = select(stock_market.c.market_id).where(_IS_SETTLED)
_LAST_SETTLED_FIRST = (stock_market.c.closed_at.desc(), stock_market.c.market_id.desc())

HELD = select(
    stock_position, *(column for column in stock_vintage.c if column.name not in ("market_id", "vintage"))
).join(
    stock_vintage,
    (stock_vintage.c.market_id == stock_position.c.market_id) & (stock_vintage.c.vintage == stock_position.c.vintage),
)


async def read_snapshot(
    chain_id: int, archive: Archive[int, ListedMarket], connection: AsyncConnection, previous: MarketsSnapshot | None
) -> MarketsSnapshot | None:
    """Return the current state, or None before the first block. Only markets that changed since `previous` are read.
    They are also removed from `archive`, because it may hold their old rows. Call this within one snapshot."""
    row = await read_cursor(connection, chain_id, stock_venue.c.entries_paused, stock_venue.c.fees_swept)
    if row is None:
        return None
    head = head_of(row)
    reorgs = row.last_reorg or 0
    if previous is not None and (previous.head.hash, previous.reorgs) == (head.hash, reorgs):
        # Rows of an indexed block change only together with a signal to read everything again.
        paused, swept = bool(row.entries_paused), row.fees_swept or 0
        return replace(previous, head=head, entries_paused=paused, fees_swept=swept)
    # A reorganization may have lowered any market's last block, so after one everything is read again.
    if previous is None or previous.reorgs != reorgs or previous.head.number > head.number:
        archive.forget_all()
        markets: Mapping[int, ListedMarket] = await _read_present(connection, reorgs)
    else:
        changed = await _read_where(connection, reorgs, stock_market.c.updated_block > previous.head.number)
        archive.forget(changed)
        markets = _present({**previous.markets, **changed}) if changed else previous.markets
    return MarketsSnapshot(
        head=head,
        entries_paused=bool(row.entries_paused),
        fees_swept=row.fees_swept or 0,
        reorgs=reorgs,
        markets=markets,
    )


async def _read_present(connection: AsyncConnection, reorgs: int) -> dict[int, ListedMarket]:
    columns = stock_market.c
    listed = _SETTLED.order_by(columns.market_id.desc()).limit(MAX_SETTLED)
    newest = _SETTLED.order_by(*_LAST_SETTLED_FIRST).limit(MAX_SETTLED)
    unpaid = select(columns.market_id).where(text(UNPAID)).order_by(columns.market_id.desc()).limit(MAX_UNPAID)
    keys = {each for query in (listed, newest, unpaid) for each in await connection.scalars(query)}
    return {
        **await _read_where(connection, reorgs, columns.closed_tx.is_(None)),
        **await _read_where(connection, reorgs, columns.market_id.in_(keys)),
    }


def _present(markets: Mapping[int, ListedMarket]) -> dict[int, ListedMarket]:
    """Return the markets to keep: the unsettled ones, the settled ones that were listed or settled last, and the newest
    ones with unpaid winners."""
    settled = [(each.result.at, number) for number, each in markets.items() if each.result is not None]
    kept = {number for _, number in heapq.nlargest(MAX_SETTLED, settled)}
    kept.update(heapq.nlargest(MAX_SETTLED, (number for _, number in settled)))
    kept.update(heapq.nlargest(MAX_UNPAID, (n for n, each in markets.items() if each.market.unpaid_principal > 0)))
    return {number: each for number, each in markets.items() if each.result is None or number in kept}


async def read_settled(chain_id: int, connection: AsyncConnection, numbers: Sequence[int]) -> dict[int, ListedMarket]:
    query = select(stock_market, last_reorg(chain_id).label("last_reorg")).where(
        stock_market.c.market_id.in_(numbers), _IS_SETTLED
    )
    return {row.market_id: _listed(row, row.last_reorg or 0) for row in await connection.execute(query)}


async def read_settled_page(connection: AsyncConnection, before: int, limit: int) -> list[int]:
    """Return the ids of at most `limit` settled markets with ids below `before`, highest first."""
    query = _SETTLED.where(stock_market.c.market_id < before).order_by(stock_market.c.market_id.desc()).limit(limit)
    return list(await connection.scalars(query))


async def read_drill(connection: AsyncConnection) -> ListedMarket | None:
    """Return the last market listed to demonstrate refunds, preferably one that is void and fully refunded. A market of
    the drill family counts only if it is void, or if it was listed so that its prices become stale. The family's other
    markets are won normally."""
    columns = stock_market.c
    drills = (
        select(stock_market)
        .where(
            columns.family == literal_column(f"{Family.DRILL:d}"),
            _IS_LISTED,
            or_(columns.voided, and_(columns.winner.is_(None), columns.max_final_age <= REFUND_DRILL_AGE_SECONDS)),
        )
        .order_by(columns.market_id.desc())
        .limit(1)
    )
    refunded = drills.where(columns.voided, columns.paid_principal == columns.principal_up + columns.principal_down)
    for query in (refunded, drills):
        row = (await connection.execute(query)).one_or_none()
        if row is not None:
            return _listed(row, 0)
    return None


async def _read_where(connection: AsyncConnection, reorgs: int, where: ColumnElement[bool]) -> dict[int, ListedMarket]:
    query = select(stock_market).where(where, _IS_LISTED)
    return {row.market_id: _listed(row, reorgs) for row in await connection.execute(query)}


async def read_positions(
    connection: AsyncConnection, chain_id: int, market_id: int
) -> tuple[tuple[int, int], tuple[HeldPosition, ...]]:
    """Return the market's version and its positions in order of entry, seed first. The version is (-1, -1) if there is
    no such market."""
    query = (
        HELD.add_columns(stock_market.c.updated_block, last_reorg(chain_id).label("last_reorg"))
        .join(stock_market, stock_market.c.market_id == stock_position.c.market_id)
        .where(stock_position.c.market_id == market_id)
        .order_by(stock_position.c.ordinal)
    )
    rows = (await connection.execute(query)).all()
    version = (rows[0].last_reorg or 0, rows[0].updated_block) if rows else (-1, -1)
    return version, tuple(held_position(row) for row in rows)


async def read_undelivered(
    connection: AsyncConnection, markets: Sequence[ListedMarket], now: Moment, *, at_most: int, include_refused: bool
) -> set[int]:
    """Return the ids of settled markets that still have an unsent payout or refund. Candidates are read in pages of
    `at_most`. Reading stops after the first page that contains such a market, so the result may be incomplete.
    `include_refused`: whether to count positions whose delivery the token refused."""
    by_id = {market.id: market.market for market in markets}
    owing = (
        select(stock_market.c.market_id).where(stock_market.c.market_id.in_(by_id), text(f"({OWING})")).correlate(None)
    )
    query = (
        HELD.join(stock_market, stock_market.c.market_id == stock_position.c.market_id)
        .where(stock_position.c.market_id.in_(owing), may_be_owed())
        .order_by(stock_position.c.position_id)
        .limit(at_most)
    )
    if not include_refused:
        query = query.where(stock_position.c.failed_deliveries == 0)
    after = -1
    while True:
        page = (await connection.execute(query.where(stock_position.c.position_id > after))).all()
        undelivered = {
            row.market_id
            for row in page
            if settlement(by_id[row.market_id], position_of(row), vintage_of(row), now).deliverable
        }
        if undelivered or len(page) < at_most:
            return undelivered
        after = page[-1].position_id


def _listed(row: Any, reorgs: int) -> ListedMarket:
    result = None
    if row.closed_tx is not None:
        result = MarketResult(
            outcome=row.outcome,
            reason=row.reason,
            strike=_round(row.strike_round, row.strike_answer, row.strike_round_at),
            final=_round(row.final_round, row.final_answer, row.final_round_at),
            tx=hex_of(row.closed_tx),
            at=row.closed_at,
        )
    return ListedMarket(
        id=row.market_id,
        ticker=row.ticker,
        family=row.family,
        feed=checksum(row.feed),
        stock_token=checksum(row.stock_token),
        spec_id=hex_of(row.spec_id),
        opener=checksum(row.opener),
        strike_time=row.strike_time,
        final_time=row.final_time,
        max_strike_age=row.max_strike_age,
        max_final_age=row.max_final_age,
        opened_at=row.created_at,
        opened_tx=hex_of(row.created_tx),
        market=market_of(row),
        positions=row.positions,
        result=result,
        version=(reorgs, row.updated_block),
    )


def held_position(row: Any) -> HeldPosition:
    return HeldPosition(
        position_of(row),
        vintage_of(row),
        owner=checksum(row.owner),
        entered_by=checksum(row.entered_by),
        entered_at=row.entered_at,
        entry_tx=hex_of(row.entry_tx),
        payout_tx=None if row.payout_tx is None else hex_of(row.payout_tx),
        failed_deliveries=row.failed_deliveries,
    )


def _round(number: int | None, answer: int | None, at: int | None) -> Round | None:
    """Build a round. Return None for the zeros of a market that was settled without a round."""
    return None if not number or answer is None or at is None else Round(number, answer, at)


PAUSE_SECONDS = 0.1
# The largest market id that the database can hold.
MAX_ID = 2**63 - 1
# After this long without news from a node, or without reading the index, every response is stale.
STALE_AFTER_SECONDS = 10


BEFORE_DEPLOYMENT = MarketsSnapshot(Head(0, 0, 0), entries_paused=False, fees_swept=0, reorgs=0)


class StockIndex(FollowedIndex[MarketsSnapshot]):
    """The stock markets as last read, and an archive of settled ones. They are stale while the database is unavailable,
    when the indexer has not reached a node for a while, and when it has stopped at a contradiction. Without `deployed`
    contracts there are no markets."""

    def __init__(
        self, url: str, engine: AsyncEngine, chain_id: int, *, deployed: bool = True, replica: bool = False
    ) -> None:
        self._archive: Archive[int, ListedMarket] = Archive(engine, partial(read_settled, chain_id))
        self._deployed = deployed
        super().__init__(
            "stock",
            chain_id,
            url,
            engine,
            partial(self._read_snapshot, chain_id),
            pause_seconds=PAUSE_SECONDS,
            is_stale=_is_stale,
            replica_block=(lambda snapshot: snapshot.head.number) if replica else None,
        )

    async def _read_snapshot(
        self, chain_id: int, connection: AsyncConnection, previous: MarketsSnapshot | None
    ) -> MarketsSnapshot | None:
        if not self._deployed:
            return BEFORE_DEPLOYMENT
        return await read_snapshot(chain_id, self._archive, connection, previous)

    @property
    def read_at(self) -> int:
        """Return when the indexer last read the chain, by our clock, or 0 before the first read."""
        return 0 if self.snapshot is None else self.snapshot.head.seen_at

    def required(self) -> MarketsSnapshot:
        """Return the snapshot, or raise a 503 before the first read."""
        if self.snapshot is None:
            raise unavailable("The service has not read the chain yet; try again shortly.")
        return self.snapshot

    async def market(self, number: int) -> ListedMarket | None:
        return (await self.markets((number,))).get(number)

    async def markets(self, numbers: Iterable[int]) -> dict[int, ListedMarket]:
        """Return the indexed markets among these numbers, of any age. Raise a 503 if some cannot be read."""
        present = {} if self.snapshot is None else self.snapshot.markets
        possible = {number for number in numbers if number <= MAX_ID}
        markets = {number: present[number] for number in possible if number in present}
        async with reading("This market"):
            return markets | await self._archive.get(possible - markets.keys())

    async def page(self, before: int | None, limit: int) -> list[ListedMarket]:
        """Return at most `limit` markets with ids below `before`, highest first."""
        present = {} if self.snapshot is None else self.snapshot.markets
        top = MAX_ID if before is None else before
        async with reading("The settled markets"), self._engine.connect() as connection:
            settled = await read_settled_page(connection, top, limit)
        numbers = sorted({*(each for each in present if each < top), *settled}, reverse=True)[:limit]
        markets = await self.markets(numbers)
        return [markets[each] for each in numbers if each in markets]


def _is_stale(snapshot: MarketsSnapshot | None) -> bool:
    if snapshot is BEFORE_DEPLOYMENT:
        return False
    if snapshot is None or snapshot.head.state != "tail":
        return True
    return time.time() - snapshot.head.seen_at > STALE_AFTER_SECONDS
