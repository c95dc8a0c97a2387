"""The reads of rows of the stock projections in the index, and their conversion to facts."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, and_, literal_column, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from api.followed_index import Archive
from api.head import head_of, last_reorg, read_cursor
from api.stock.facts import EntryReceipt, HeldPosition, ListedMarket, MarketResult, MarketsSnapshot
from core.chain import checksum
from core.chain.heads import final_block
from core.contracts.statuses import Family
from core.db.schema.index import chain_cursor
from core.db.schema.index_shared import oracle_round, token_authorization
from core.db.schema.index_stock import UNPAID, stock_feed, stock_market, stock_position, stock_venue, stock_vintage
from core.feeds.rounds import Round
from core.hexadecimal import bytes_of, hex_of
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
    """Return the present state, or None before the first block. Only markets that changed since `previous` are read.

    Markets that may have changed are removed from `archive`. Call this function within one snapshot.
    """
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
    """Return the markets to keep: the unsettled, those listed or settled last, and the newest with unpaid winners."""
    settled = [(each.result.at, number) for number, each in markets.items() if each.result is not None]
    kept = {number for _, number in heapq.nlargest(MAX_SETTLED, settled)}
    kept.update(heapq.nlargest(MAX_SETTLED, (number for _, number in settled)))
    kept.update(heapq.nlargest(MAX_UNPAID, (n for n, each in markets.items() if each.market.unpaid_principal > 0)))
    return {number: each for number, each in markets.items() if each.result is None or number in kept}


async def read_settled(chain_id: int, connection: AsyncConnection, numbers: Sequence[int]) -> dict[int, ListedMarket]:
    """Return those of the markets with these ids that are settled."""
    query = select(stock_market, last_reorg(chain_id).label("last_reorg")).where(
        stock_market.c.market_id.in_(numbers), _IS_SETTLED
    )
    return {row.market_id: _listed(row, row.last_reorg or 0) for row in await connection.execute(query)}


async def read_settled_page(connection: AsyncConnection, before: int, limit: int) -> list[int]:
    """Return the ids of at most `limit` settled markets whose ids are below `before`, the highest first."""
    query = _SETTLED.where(stock_market.c.market_id < before).order_by(stock_market.c.market_id.desc()).limit(limit)
    return list(await connection.scalars(query))


async def read_newest_settled(
    connection: AsyncConnection, reorgs: int, limit: int, previous: Mapping[int, ListedMarket]
) -> list[ListedMarket]:
    """Return the markets settled last, the newest first. `previous`: markets by id that were read before; they are read
    again only if they have changed."""
    columns = stock_market.c
    query = (
        select(columns.market_id, columns.updated_block).where(_IS_SETTLED).order_by(*_LAST_SETTLED_FIRST).limit(limit)
    )
    newest = (await connection.execute(query)).all()
    same = {at: previous[at] for at, block in newest if at in previous and previous[at].version == (reorgs, block)}
    others = [number for number, _ in newest if number not in same]
    markets = same | await _read_where(connection, reorgs, columns.market_id.in_(others)) if others else same
    return [markets[number] for number, _ in newest]


async def read_drill(connection: AsyncConnection) -> ListedMarket | None:
    """Return the last market listed to demonstrate refunds, preferably one that is void and fully refunded. A short
    market of the drill family counts only if it is void or was listed to become stale, because other markets of the
    family are won normally."""
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
    """Return the market's current `ListedMarket.version`, and its positions in the order of entry, the seed first. If
    there is no such market, the version is (-1, -1)."""
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
    """Return the ids of those markets that still have an unsent payout or refund. All `markets` must be settled.

    Candidates are read in pages of `at_most`. The search stops after the first page that contains an unsent payout or
    refund. `include_refused`: whether positions count whose delivery the token refused.
    """
    by_id = {market.id: market.market for market in markets}
    query = (
        HELD.join(stock_market, stock_market.c.market_id == stock_position.c.market_id)
        .where(stock_position.c.market_id.in_(by_id), may_be_owed())
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


async def read_receipt(
    connection: AsyncConnection, chain_id: int, settler: str, signer: bytes, nonce: bytes, finality_blocks: int
) -> EntryReceipt:
    """Return the state, as of the last indexed block, of the bet that `signer` signed with this nonce."""
    spent = token_authorization.c
    paid = and_(
        spent.chain_id == chain_cursor.c.chain_id,
        spent.authorizer == signer,
        spent.nonce == nonce,
        spent.recipient == bytes_of(settler),
    )
    row = (
        await connection.execute(
            select(chain_cursor, spent.block_number, spent.at, spent.tx, spent.value)
            .outerjoin(token_authorization, paid)
            .where(chain_cursor.c.chain_id == chain_id)
        )
    ).one()
    final = final_block(row.number, row.finalized_number, finality_blocks)
    if row.tx is None:
        return EntryReceipt(head_of(row), final)
    # Positions are found by their entry time: transactions are not indexed.
    made = HELD.where(
        stock_position.c.vintage > 0,
        stock_position.c.entered_at == row.at,
        stock_position.c.entered_by == signer,
        stock_position.c.entry_tx == row.tx,
        stock_position.c.offered == row.value,
    )
    positions = [held_position(each) for each in await connection.execute(made)]
    position = positions[0] if len(positions) == 1 else None
    return EntryReceipt(head_of(row), final, row.block_number, hex_of(row.tx), position)


async def read_latest_rounds(connection: AsyncConnection, chain_id: int, feeds: Sequence[str]) -> dict[str, Round]:
    """Return the last indexed round of each feed. These rounds are shown until the chain itself has been read."""
    latest: dict[str, Round] = {}
    for feed in feeds:  # a handful, each one index lookup
        query = (
            select(oracle_round)
            .where(oracle_round.c.chain_id == chain_id, oracle_round.c.feed == bytes_of(feed))
            .order_by(oracle_round.c.updated_at.desc(), oracle_round.c.round_id.desc())
            .limit(1)
        )
        row = (await connection.execute(query)).one_or_none()
        if row is not None:
            latest[checksum(row.feed)] = Round(row.round_id, row.answer, row.updated_at)
    return latest


async def read_allowed_feeds(connection: AsyncConnection) -> list[tuple[str, str]]:
    """Return the ticker and the feed of every stock that may be listed now."""
    query = select(stock_feed.c.ticker, stock_feed.c.feed).where(stock_feed.c.allowed).order_by(stock_feed.c.ticker)
    return [(row.ticker, checksum(row.feed)) for row in await connection.execute(query)]


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
    """Make a round. Return None for the zeros of a market that was settled without a round."""
    return None if not number or answer is None or at is None else Round(number, answer, at)
