"""An owner of very many positions: the totals are those of the positions, and reading them costs what few cost."""

from __future__ import annotations

import hashlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from api.agent.rows import read_holdings, read_positions
from api.stock.bodies import OwnerTotalsBody
from api.stock.owned import NO_TOTALS, OwnerPage, read_owner_page, read_totals
from core.contracts.statuses import AgentMarketStatus, StakeStatus
from core.db.schema.index import chain_cursor
from core.db.schema.index_agent import agent_market, agent_outcome
from core.db.schema.index_stock import stock_market, stock_position, stock_vintage
from core.hexadecimal import hex_of
from core.stock.vested import (
    DOWN,
    SEED,
    UP,
    Moment,
    Position,
    Terms,
    VestedMarket,
    Vintage,
    accepted_of,
    as_of,
    match,
    offer,
    open_books,
    position_view,
    seed_vintage,
    settlement,
)
from tests.support.history_fill import sum_all

OWNER, OTHER, FEW, NO_ONE = b"\x01" * 20, b"\x02" * 20, b"\x03" * 20, bytes(20)
TOKEN = 10**6
FREEZE = 1_000
NOW = Moment(500, 900)
MANY = 100_000


@pytest.fixture
async def engine(fresh_database_url: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(make_url(fresh_database_url).set(drivername="postgresql+psycopg"))
    async with made.begin() as connection:
        row = {"chain_id": 1, "name": "both", "start_block": 1, "number": 1, "hash": bytes(32), "sources": {}}
        await connection.execute(insert(chain_cursor), row | {"block_time": NOW.timestamp})
    yield made
    await made.dispose()


async def _owned(connection: AsyncConnection, limit: int, before: int | None = None) -> OwnerPage:
    page = await read_owner_page(connection, 1, OWNER, limit, before, NOW)
    assert page is not None
    return page


def _played(
    market_id: int, chance: random.Random
) -> tuple[VestedMarket, dict[int, Vintage], list[tuple[Position, bytes]]]:
    """A market of random entries in some state: open with and without a vintage in hand, won, or void; some of it
    paid. Odd amounts, so that every quotient has a remainder."""
    seed = 3 * TOKEN + chance.randrange(7)
    terms = Terms(
        market_id, NO_ONE, NO_ONE, FREEZE, 600, chance.choice((0, 137, 200)), 3, seed, 1, 2**48 - 1, 2**48 - 1
    )
    market, numbers = VestedMarket(terms, open_books(seed)), count(market_id << 32)
    vintages = {SEED: seed_vintage(seed)}
    positions = [(Position(next(numbers), market_id, OTHER, side, seed, SEED, 0), OTHER) for side in (UP, DOWN)]
    blocks = chance.sample(range(100, NOW.block_number), 8) + [NOW.block_number] * chance.randrange(2)
    for block in sorted(blocks):
        if market.vintage is not None:
            market, done = match(market)
            vintages[done.number] = done
        for _ in range(chance.randrange(1, 4)):
            side, amount, owner = chance.randrange(2), chance.randrange(1, 40 * TOKEN), chance.choice((OWNER, OTHER))
            market, before = offer(market, side, amount, block)
            positions.append((Position(next(numbers), market_id, owner, side, amount, block, before), owner))
    ending = chance.choice(("open", "open", "won", "void"))
    if ending != "open" or chance.random() < 0.4:
        market, done = match(market)
        vintages[done.number] = done
    elif market.vintage is not None:
        vintages[market.vintage.number] = market.vintage
    if ending == "won":
        market = replace(market, winner=chance.randrange(2))
    elif ending == "void":
        market = replace(market, voided=True)
    sent, share = [], chance.choice((0.5, 1.0))
    for entered, owner in positions:
        position = entered
        due = settlement(market, position, vintages[position.vintage], NOW)
        if market.settled and due.net and chance.random() < share:
            position = replace(position, claimed=True, payout=due.net, fee=due.fee)
        if due.refund and vintages[position.vintage].accepted is not None and chance.random() < share:
            position = replace(position, refunded=True, refund=due.refund)
        sent.append((position, owner))
    claimed = [each for each, _ in sent if each.claimed]
    return (
        replace(
            market,
            paid_principal=sum(accepted_of(each, vintages[each.vintage]) or 0 for each in claimed),
            refunded=sum(each.refund for each, _ in sent),
        ),
        vintages,
        sent,
    )


def _store(
    connection: Connection, market: VestedMarket, vintages: dict[int, Vintage], positions: list[tuple[Position, bytes]]
) -> None:
    terms, (up, down), pending = market.terms, market.books, market.vintage
    closed = {"closed_block": 600, "closed_at": 950, "closed_tx": bytes(32)} if market.settled else {}
    row: dict[str, Any] = {column.name: 0 for column in stock_market.c if not column.nullable}
    row |= {
        "market_id": terms.market_id,
        **dict.fromkeys(("opener", "resolver", "feed", "stock_token"), NO_ONE),
        **dict.fromkeys(("created_tx", "spec_id"), bytes(32)),
        **{name: getattr(terms, name) for name in ("freeze_time", "void_delay", "fee_bps", "kappa", "seed_per_leg")},
        **{"principal_up": up.principal, "principal_down": down.principal, "acc_up": up.acc, "acc_down": down.acc},
        "side_cap": terms.side_cap,
        "pending_vintage": pending and pending.number,
        **({} if pending is None else {"pending_up": pending.offered[UP], "pending_down": pending.offered[DOWN]}),
        "winner": market.winner,
        "voided": market.voided,
        "paid_principal": market.paid_principal,
        "refunded": market.refunded,
        "refused": sum(sum(each.offered) - sum(each.accepted) for each in vintages.values() if each.accepted),
        "strike_time": 1,
        "family": 0,
        **closed,
    }
    connection.execute(insert(stock_market), row)
    none = (None, None)
    for each in vintages.values():
        values = {"market_id": terms.market_id, "vintage": each.number}
        for name, pair in (("offered", each.offered), ("accepted", each.accepted), ("entry_acc", each.entry_acc)):
            values |= dict(zip((f"{name}_up", f"{name}_down"), pair or none, strict=True))  # type: ignore[arg-type]
        connection.execute(insert(stock_vintage), values)
    connection.execute(insert(stock_position), [_position_row(*each, at) for at, each in enumerate(positions)])


def _position_row(each: Position, owner: bytes, ordinal: int) -> dict[str, Any]:
    names = (
        "position_id",
        "market_id",
        "outcome",
        "offered",
        "vintage",
        "claimed",
        "refunded",
        "payout",
        "fee",
        "refund",
    )
    return {
        **{name: getattr(each, name) for name in names},
        "ordinal": ordinal,
        "owner": owner,
        "entered_by": owner,
        "offered_before": each.offered_before,
        "entered_block": each.vintage,
        "entered_at": each.vintage,
        "entry_tx": bytes(32),
        "failed_deliveries": 0,
    }


async def test_totals_are_the_sums_of_the_views_of_all_positions(engine: AsyncEngine, fresh_database_url: str) -> None:
    chance = random.Random(20_261_128)
    expected, states = [], set()
    async with engine.begin() as connection:
        for market_id in range(1, 121):
            market, vintages, positions = _played(market_id, chance)
            await connection.run_sync(_store, market, vintages, positions)
            _, matched = as_of(market, NOW)
            states.add((market.winner, market.voided, market.vintage is not None, matched is not None))
            mine = [position for position, owner in positions if owner == OWNER]
            expected += [position_view(market, each, vintages[each.vintage], NOW) for each in mine]
    assert len(states) == 6, "open in three ways, won by either side, void"
    await sum_all(fresh_database_url)
    async with engine.connect() as reading:
        totals = await read_totals(reading, OWNER, NOW)
        assert await read_totals(reading, NO_ONE, NOW) == NO_TOTALS
    open_ones = [view for view in expected if view.payout is None]
    accrued = sum(view.accrued for view in open_ones)
    assert accrued <= int(totals.accrued) < accrued + len(open_ones), "rounded down for each market and side"
    assert totals == OwnerTotalsBody(
        staked=str(sum(view.offered for view in expected)),
        accrued=totals.accrued,
        paid=str(sum(view.paid_out or 0 for view in expected)),
        accepted=str(sum(view.accepted or 0 for view in expected)),
        deliverable=str(sum(view.settlement.total for view in expected)),
        open=len(open_ones),
    )
    assert min(accrued, int(totals.paid), int(totals.deliverable), totals.open) > 0
    assert int(totals.accepted) < int(totals.staked)


async def test_an_owner_of_a_hundred_thousand_positions_costs_what_one_of_a_hundred_does(
    engine: AsyncEngine, fresh_database_url: str
) -> None:
    """Each position alone in its vintage and rationed, half of the markets still open, nothing paid."""
    chance = random.Random(1)
    async with engine.begin() as connection:
        for market_id in range(1, 201):
            market, _, _ = _played(market_id, chance)
            other = (Position(market_id << 32, market_id, OTHER, 0, 1, 0, 0), OTHER)
            ended = replace(market, winner=UP if market_id % 2 else None, voided=False, vintage=None)
            await connection.run_sync(_store, ended, {}, [other])
        for owner, each, first in ((FEW, 1, 0), (OWNER, MANY // 100, 1)):
            await connection.execute(
                text(
                    "INSERT INTO stock_vintage SELECT market_id, v, 1000003, 1000003, 900001, 900001, 0, 0"
                    " FROM stock_market, generate_series(CAST(:first AS int), CAST(:last AS int)) v"
                    " WHERE market_id <= 100"
                ),
                {"first": first + 1, "last": first + each},
            )
            await connection.execute(
                text(
                    "INSERT INTO stock_position (position_id, market_id, ordinal, owner, entered_by, outcome, offered,"
                    " vintage, offered_before, claimed, refunded, payout, fee, refund, entered_block, entered_at,"
                    " entry_tx, failed_deliveries) SELECT (market_id << 32) | v, market_id, v, :owner, :owner, v % 2,"
                    " 1000003, v, 0, false, true, 0, 0, 100002, market_id * 10000 + v, 1, sha256(int8send(v)), 0"
                    " FROM stock_market, generate_series(CAST(:first AS int), CAST(:last AS int)) v"
                    " WHERE market_id <= 100"
                ),
                {"owner": owner, "first": first + 1, "last": first + each},
            )
    await sum_all(fresh_database_url)
    few, many = [await _pages_read(engine, owner) for owner in (FEW, OWNER)]
    assert many <= 2 * few
    async with engine.connect() as reading:
        first_page = await _owned(reading, 50)
        seen = [each.position.position_id for each in first_page.positions]
        second = await _owned(reading, 50, seen[-1])
        assert await read_owner_page(reading, 1, OWNER, 50, 200 << 32, NOW) is None, "a position of another address"
    seen += [each.position.position_id for each in second.positions]
    assert seen == [(100 << 32) | v for v in range(1_001, 901, -1)]
    assert first_page.more
    assert first_page.totals == second.totals
    assert first_page.totals.staked == str(MANY * 1_000_003)
    assert first_page.totals.accepted == str(MANY * 900_001)
    assert first_page.totals.open == MANY // 2


async def _pages_read(engine: AsyncEngine, owner: bytes) -> int:
    async with engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("VACUUM ANALYZE"))
    statements: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        statements.append((statement, parameters))

    async with engine.connect() as reading:
        event.listen(engine.sync_engine, "before_cursor_execute", keep)
        assert await read_owner_page(reading, 1, owner, 50, None, NOW) is not None
        event.remove(engine.sync_engine, "before_cursor_execute", keep)
        pages = 0
        for statement, given in statements:
            explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}"
            plan = (await reading.exec_driver_sql(explain, given)).scalar_one()[0]["Plan"]
            pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return int(pages)


async def test_a_wallets_stakes_are_read_by_the_page_and_summed_by_market(
    engine: AsyncEngine, fresh_database_url: str
) -> None:
    """Two open markets, one won, one void, and a late payment; every payout of the won one is an odd fraction."""
    market = {"status": int(AgentMarketStatus.OPEN), "winner": None}
    async with engine.begin() as connection:
        await connection.run_sync(_store_agent_markets, market)
        await connection.execute(
            text(
                "INSERT INTO agent_stake (stake_id, market_id, ordinal, wallet, outcome, amount, fee, shares, nonce,"
                " bet_hash, idem_hash, status, staked_block, staked_log_index, staked_at, staked_tx, paid_amount,"
                " failed_payouts) SELECT n, sha256(int4send(n % 4)), n, :owner, CASE WHEN n < 1200 THEN n / 4 % 2 END,"
                " 1000003, 20000, 1500001, h, h, h, :in_book, n / 3, n % 3, n, h, 0, 0"
                " FROM generate_series(0, 1200) n, LATERAL (SELECT sha256(int4send(n)) AS h) x"
            ),
            {"owner": OWNER, "in_book": int(StakeStatus.IN_BOOK)},
        )
    await sum_all(fresh_database_url)
    owner = hex_of(OWNER)
    async with engine.connect() as reading:
        first = await read_positions(reading, owner, 500, None)
        second = await read_positions(reading, owner, 1_000, (first[-1].block, first[-1].log_index))
        held = {(each.market_key, each.outcome): each for each in await read_holdings(reading, 1, owner)}
    assert [each.id for each in first + second] == list(range(1200, -1, -1))
    settled = held.pop((None, 0))
    assert sorted(each.stakes for each in held.values()) == [150] * 4, "two open markets"
    assert {(each.amount, each.shares) for each in held.values()} == {(150 * 1_000_003, 150 * 1_500_001)}
    won = 150 * (1_500_001 * POOL // SHARES)
    assert (settled.stakes, settled.amount) == (601, 601 * 1_000_003)
    assert settled.worth == won + 300 * 1_000_003 + 1_000_003, "winners' shares, the void market, the late payment"


POOL, SHARES = 150 * 2 * 980_003, 150 * 1_500_001


def _store_agent_markets(connection: Connection, market: dict[str, Any]) -> None:
    for number in range(4):
        ended = {
            2: {"status": int(AgentMarketStatus.RESOLVED), "winner": 1, "closed_tx": bytes(32)},
            3: {"status": int(AgentMarketStatus.VOID), "void_reason": 1, "closed_tx": bytes(32)},
        }.get(number, {})
        row: dict[str, Any] = {column.name: 0 for column in agent_market.c if not column.nullable}
        row |= {
            **market,
            **ended,
            "market_id": hashlib.sha256(number.to_bytes(4)).digest(),
            "index": number,
            "feed": NO_ONE,
            "lister": NO_ONE,
            "listed_tx": bytes(32),
            "bounds": [],
            "weights": [1, 1],
            "metadata": "",
            "early_resolvable": False,
            "published": False,
            "net_pool": POOL,
        }
        connection.execute(insert(agent_market), row)
        for outcome in (0, 1):
            book = {"net": POOL // 2, "shares": SHARES, "excess": 1, "stakes": 150}
            connection.execute(insert(agent_outcome), {"market_id": row["market_id"], "outcome": outcome, **book})
