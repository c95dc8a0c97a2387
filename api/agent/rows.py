"""Reads the index tables and returns facts."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    SmallInteger,
    and_,
    case,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncConnection

from api.agent.errors import problem
from api.agent.facts import (
    Arrival,
    Ending,
    FeedRound,
    Holding,
    ListedMarket,
    MarketsSnapshot,
    Stake,
)
from api.database import unnest_rows
from api.followed_index import Archive
from api.head import Head, head_of, read_cursor
from core.agent.book import Book
from core.agent.document import Metadata, Specification, listed_document
from core.chain import checksum
from core.contracts.statuses import AgentMarketStatus, RefundReason
from core.db.schema.index import chain_cursor
from core.db.schema.index_agent import agent_holding, agent_market, agent_outcome, agent_stake, agent_venue
from core.db.schema.index_shared import oracle_round, token_authorization
from core.db.types import Address
from core.feeds.words import FeedWords
from core.hexadecimal import bytes_of, hex_of

DAY_SECONDS = 86_400
# The newest settled markets kept in memory along with the unsettled ones; others are read on demand.
MAX_SETTLED = 200

# A literal, as in the partial indexes: with a parameter, a generic plan could not use them.
_OPEN: ColumnElement[int] = literal_column(f"{AgentMarketStatus.OPEN:d}")
_SETTLED = agent_market.c.status != _OPEN
# Arrays over a market's outcomes, by name.
_BOOK = {name: agent_outcome.c[name] for name in ("net", "shares", "excess")}
_BOOK["outcome_stakes"] = agent_outcome.c.stakes
STAKE_COLUMNS = (
    "stake_id", "market_id", "ordinal", "wallet", "outcome", "amount", "fee", "shares", "price_after", "bet_hash",
    "idem_hash", "builder", "ref", "refund_reason", "staked_block", "staked_log_index", "staked_at", "staked_tx",
    "paid_tx",
)  # fmt: skip
_STAKE = select(*(agent_stake.c[name] for name in STAKE_COLUMNS))
_IN_BOOK = _STAKE.where(agent_stake.c.outcome.is_not(None))
_ROUND = (oracle_round.c.answer, oracle_round.c.updated_at, oracle_round.c.tx)


async def read_snapshot(
    chain_id: int,
    feeds: Mapping[bytes, FeedWords],
    archive: Archive[bytes, ListedMarket],
    connection: AsyncConnection,
    previous: MarketsSnapshot | None,
) -> MarketsSnapshot | None:
    """Return the current state, or None before the first block. Only markets that changed since `previous` are read.
    Call this within one database snapshot."""
    row = await read_cursor(connection, chain_id, agent_venue.c.stakes_paused)
    if row is None:
        return None
    head = head_of(row)
    reorgs = row.last_reorg or 0
    if previous is not None and (previous.head.hash, previous.reorgs) == (head.hash, reorgs):
        # A repair of a block's rows is always signalled and makes everything be read again.
        return replace(previous, head=head, stakes_paused=bool(row.stakes_paused))
    # A reorganization may have lowered any market's last block, so it makes everything be read again.
    if previous is None or previous.reorgs != reorgs or previous.head.number > head.number:
        archive.forget_all()
        markets: Mapping[bytes, ListedMarket] = await _read_present(connection, feeds)
        stake = agent_stake.c
        volumes = await _read_volumes(connection, stake.amount, stake.staked_at > head.timestamp - DAY_SECONDS)
    else:
        volumes = await _moved_volumes(connection, previous, head)
        changed = await _read_where(connection, feeds, agent_market.c.updated_block > previous.head.number)
        archive.forget(changed)
        markets = _present({**previous.markets, **changed}) if changed else previous.markets
    observed = feeds.keys() | {each.spec.feed for each in markets.values()}
    return MarketsSnapshot(
        head=head,
        stakes_paused=bool(row.stakes_paused),
        reorgs=reorgs,
        markets=markets,
        latest=await _read_latest(connection, chain_id, observed),
        volume_24h=volumes,
    )


async def _read_present(connection: AsyncConnection, feeds: Mapping[bytes, FeedWords]) -> dict[bytes, ListedMarket]:
    newest = (
        select(agent_market.c.market_id)
        .where(_SETTLED)
        .order_by(agent_market.c.closed_at.desc(), agent_market.c.market_id.desc())
        .limit(MAX_SETTLED)
    )
    keys = list(await connection.scalars(newest))
    unsettled = await _read_where(connection, feeds, agent_market.c.status == _OPEN)
    return {**unsettled, **await _read_where(connection, feeds, agent_market.c.market_id.in_(keys))}


def _present(markets: Mapping[bytes, ListedMarket]) -> dict[bytes, ListedMarket]:
    unsettled = {key: each for key, each in markets.items() if each.ending is None}
    settled = [(each.ending.at, key) for key, each in markets.items() if each.ending is not None]
    return unsettled | {key: markets[key] for _, key in heapq.nlargest(MAX_SETTLED, settled)}


async def read_settled(
    feeds: Mapping[bytes, FeedWords], connection: AsyncConnection, keys: Sequence[bytes]
) -> dict[bytes, ListedMarket]:
    return await _read_where(connection, feeds, and_(agent_market.c.market_id.in_(keys), _SETTLED))


async def read_settled_page(
    connection: AsyncConnection, feeds: Iterable[bytes], kinds: Iterable[int], after: tuple[int, ...] | None, limit: int
) -> list[bytes]:
    """Return the keys of settled markets on these feeds and of these kinds, earliest deadline first. The page begins
    after the sort key `after`. Each pair of feed and kind is an index range, and at most one page of each range is
    read."""
    columns = agent_market.c
    place = (columns.closes_at, columns.listed_block, columns.listed_log_index)
    ranges = list(product(feeds, kinds))
    wanted = unnest_rows(
        "wanted", feed=(Address, [feed for feed, _ in ranges]), kind=(SmallInteger, [kind for _, kind in ranges])
    )
    page = (
        select(columns.market_id, *place)
        .where(columns.feed == wanted.c.feed, columns.kind == wanted.c.kind, _SETTLED)
        .order_by(*place)
        .limit(limit)
    )
    if after is not None:
        page = page.where(tuple_(*place) > tuple_(*map(literal, after)))
    each = page.lateral("page")
    query = (
        select(each.c.market_id)
        .select_from(wanted.join(each, true()))
        .order_by(each.c.closes_at, each.c.listed_block, each.c.listed_log_index)
        .limit(limit)
    )
    return list(await connection.scalars(query))


async def _read_where(
    connection: AsyncConnection, feeds: Mapping[bytes, FeedWords], where: ColumnElement[bool]
) -> dict[bytes, ListedMarket]:
    """Read markets in one statement, so that each market is consistent even without a transaction."""
    arrays = (
        func.array_agg(aggregate_order_by(column, agent_outcome.c.outcome)).label(name)
        for name, column in _BOOK.items()
    )
    books = select(*arrays).where(agent_outcome.c.market_id == agent_market.c.market_id).lateral("books")
    query = select(agent_market, books).join(books, true()).where(where)
    return {row.market_id: _market(row, feeds) for row in await connection.execute(query)}


async def _read_latest(connection: AsyncConnection, chain_id: int, feeds: set[bytes]) -> dict[str, FeedRound]:
    if not feeds:
        return {}
    wanted = unnest_rows("wanted", feed=(Address, list(feeds)))
    newest = (  # one index lookup per feed
        select(*_ROUND)
        .where(
            oracle_round.c.chain_id == chain_id,
            oracle_round.c.feed == wanted.c.feed,
            oracle_round.c.answer > 0,  # other readings are invalid
        )
        .order_by(oracle_round.c.updated_at.desc(), oracle_round.c.round_id.desc())
        .limit(1)
        .lateral("newest")
    )
    rows = await connection.execute(select(wanted.c.feed, newest).select_from(wanted.join(newest, true())))
    return {_feed_text(row.feed): FeedRound(row.answer, row.updated_at, row.tx) for row in rows}


async def _read_volumes(
    connection: AsyncConnection, amount: ColumnElement[int], where: ColumnElement[bool]
) -> dict[bytes, int]:
    query = (
        select(agent_stake.c.market_id, func.sum(amount).label("amount"))
        .where(agent_stake.c.outcome.is_not(None), where)
        .group_by(agent_stake.c.market_id)
    )
    return {row.market_id: int(row.amount) for row in await connection.execute(query)}


async def _moved_volumes(connection: AsyncConnection, previous: MarketsSnapshot, head: Head) -> dict[bytes, int]:
    """Update the 24-hour volumes of `previous` to the time of `head`: add newer bets and subtract bets that are now
    older than a day. Index lookups find these bets; the other bets of the day are not read."""
    stake, before = agent_stake.c, previous.head
    begins, began = head.timestamp - DAY_SECONDS, before.timestamp - DAY_SECONDS
    is_new = and_(stake.staked_at >= max(before.timestamp, begins + 1), stake.staked_block > before.number)
    is_old = and_(stake.staked_at > began, stake.staked_at <= begins, stake.staked_block <= before.number)
    change = case((stake.staked_block > before.number, stake.amount), else_=-stake.amount)
    changes = await _read_volumes(connection, change, or_(is_new, is_old))
    moved = {key: previous.volume_24h.get(key, 0) + changes.get(key, 0) for key in {**previous.volume_24h, **changes}}
    return {key: amount for key, amount in moved.items() if amount}


async def read_observations(connection: AsyncConnection, chain_id: int, feed: bytes, limit: int) -> list[FeedRound]:
    newest = (oracle_round.c.updated_at.desc(), oracle_round.c.round_id.desc())
    query = _rounds_of(chain_id, feed).order_by(*newest).limit(limit)
    return [FeedRound(row.answer, row.updated_at, row.tx) for row in await connection.execute(query)]


async def read_readings(
    connection: AsyncConnection, chain_id: int, feed: bytes, times: Sequence[int]
) -> dict[int, FeedRound]:
    """Return a feed's readings at exactly these times. If there are several at one time, return the newest one."""
    query = _rounds_of(chain_id, feed).where(oracle_round.c.updated_at.in_(times)).order_by(oracle_round.c.round_id)
    return {row.updated_at: FeedRound(row.answer, row.updated_at, row.tx) for row in await connection.execute(query)}


def _rounds_of(chain_id: int, feed: bytes) -> Select[tuple[int, int, bytes]]:
    return select(*_ROUND).where(oracle_round.c.chain_id == chain_id, oracle_round.c.feed == feed)


async def read_history(connection: AsyncConnection, market_key: bytes, limit: int) -> list[Stake]:
    """Return a market's newest stakes in chronological order."""
    newest = _IN_BOOK.where(agent_stake.c.market_id == market_key).order_by(agent_stake.c.ordinal.desc())
    return (await _stakes(connection, newest.limit(limit)))[::-1]


async def read_positions(
    connection: AsyncConnection, wallet: str, limit: int, before: tuple[int, ...] | None
) -> list[Stake]:
    """Return a wallet's stakes, newest first. If `before` is given, start below that block number and log index."""
    place = (agent_stake.c.staked_block, agent_stake.c.staked_log_index)
    query = _of_wallet(wallet).order_by(*(column.desc() for column in place)).limit(limit)
    if before is not None:
        query = query.where(tuple_(*place) < tuple_(*map(literal, before)))
    return await _stakes(connection, query)


async def require_sums(connection: AsyncConnection, chain_id: int, what: str) -> None:
    """Refuse `what` until the index has read the chain's history, because the sums do not exist before then."""
    summed = await connection.scalar(select(chain_cursor.c.summed).where(chain_cursor.c.chain_id == chain_id))
    if summed is False:
        raise problem("internal_error", f"{what} will be available once the index has read the chain's history.")


async def read_holdings(connection: AsyncConnection, chain_id: int, wallet: str) -> list[Holding]:
    await require_sums(connection, chain_id, "Positions")
    rows = await connection.execute(select(agent_holding).where(agent_holding.c.wallet == bytes_of(wallet)))
    return [
        Holding(
            market_key=row.market_id if any(row.market_id) else None,
            outcome=row.outcome,
            stakes=row.stakes,
            amount=row.amount,
            shares=row.shares,
            worth=row.worth,
        )
        for row in rows
    ]


async def read_by_bet(connection: AsyncConnection, bet_hash: bytes) -> Stake | None:
    return next(iter(await _stakes(connection, _IN_BOOK.where(agent_stake.c.bet_hash == bet_hash))), None)


async def read_by_nonce(connection: AsyncConnection, wallet: str, nonce: bytes) -> Stake | None:
    """Find the stake or refund that a wallet's authorization was booked as."""
    return next(iter(await _stakes(connection, _of_wallet(wallet).where(agent_stake.c.nonce == nonce))), None)


def _of_wallet(wallet: str) -> Select[Any]:
    return _STAKE.where(agent_stake.c.wallet == bytes_of(wallet))


async def _stakes(connection: AsyncConnection, query: Select[Any]) -> list[Stake]:
    return [stake_of(row) for row in await connection.execute(query)]


async def read_arrival(
    connection: AsyncConnection, chain_id: int, token: str, payer: str, nonce: bytes
) -> Arrival | None:
    query = select(token_authorization).where(
        token_authorization.c.chain_id == chain_id,
        token_authorization.c.authorizer == bytes_of(payer),
        token_authorization.c.nonce == nonce,
        token_authorization.c.token == bytes_of(token),
    )
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None
    return Arrival(row.state == "canceled", row.value, row.block_number, row.tx)


def stake_of(values: Sequence[Any]) -> Stake:
    """Build a stake from the values of STAKE_COLUMNS, read through either database library."""
    number, market_key, ordinal, wallet, outcome, amount, fee, shares, price_after, *others = values
    bet_hash, idem_hash, builder, ref, refund_reason, *chain = others
    return Stake(
        number,
        market_key,
        ordinal,
        hex_of(wallet),
        outcome,
        int(amount),
        int(fee),
        int(shares),
        None if price_after is None else int(price_after),
        bet_hash,
        idem_hash,
        None if builder is None else hex_of(builder),
        ref,
        None if refund_reason is None else RefundReason(refund_reason),
        *chain,
    )


_feed_text = lru_cache(maxsize=1_024)(checksum)


def _market(row: Any, feeds: Mapping[bytes, FeedWords]) -> ListedMarket:
    spec = Specification.from_row(row)
    words = feeds.get(spec.feed)
    ending = None
    if row.status != AgentMarketStatus.OPEN:
        ending = Ending(
            winner=row.winner,
            end_answer=row.end_answer,
            end_at=row.end_updated_at,
            start_answer=row.start_answer,
            start_at=row.start_updated_at,
            at=row.closed_at,
            tx=row.closed_tx,
        )
    return ListedMarket(
        key=row.market_id,
        feed=_feed_text(row.feed),
        spec=spec,
        words=listed_document(row.market_id, spec, words.key if words else None, words.computed if words else None),
        book=Book.from_row(row),
        volume=row.staked,
        pot_cap=row.pot_cap,
        bets=row.stakes,
        outcome_bets=tuple(row.outcome_stakes),
        ending=ending,
        listed_order=(row.listed_block, row.listed_log_index),
        version=f"{row.updated_block}-{row.stakes}",
        metadata=Metadata.read(row.document),
    )
