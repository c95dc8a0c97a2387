"""An address of very many positions: its totals are exact, a page costs what a page costs, and others are answered."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from sqlalchemy import Connection, event, insert, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from api.agent.rows import read_wallet
from api.stock.owned import OwnedPage, read_owned, read_totals
from core.contracts.statuses import StakeStatus
from core.db.schema.index_stock import OWING, stock_market, stock_position, stock_vintage
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
    seed_vintage,
    settlement,
)
from core.stock.vested_views import OwnerTotals, position_view

OWNER, OTHER, NOBODY = b"\x01" * 20, b"\x02" * 20, b"\x00" * 20
TOKEN = 10**6
FREEZE = 1_000
NOW = Moment(500, 900)
MANY = 100_000


@pytest.fixture
async def engine(fresh_database_url: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(make_url(fresh_database_url).set(drivername="postgresql+psycopg"))
    yield made
    await made.dispose()


async def _owned(connection: AsyncConnection, limit: int, before: int | None = None) -> OwnedPage:
    page = await read_owned(connection, 1, OWNER, limit, before, NOW)
    assert page is not None
    return page


# ---------------------------------------------------------------- totals


def _played(
    market_id: int, chance: random.Random
) -> tuple[VestedMarket, dict[int, Vintage], list[tuple[Position, bytes]]]:
    """A market of random entries in some state: open with and without a vintage in hand, won, or void; some of it
    paid. Odd amounts, so that every quotient has a remainder."""
    seed = 3 * TOKEN + chance.randrange(7)
    terms = Terms(
        market_id, NOBODY, NOBODY, FREEZE, 600, chance.choice((0, 137, 200)), 3, seed, 1, 2**48 - 1, 2**48 - 1
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
        **dict.fromkeys(("opener", "resolver", "feed", "stock_token"), NOBODY),
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
        "offered_before": each.before,
        "entered_block": each.vintage,
        "entered_at": each.vintage,
        "entry_tx": bytes(32),
        "failed_deliveries": 0,
    }


async def test_totals_are_the_sums_of_the_views_of_all_positions(engine: AsyncEngine) -> None:
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
        at_rest = text(f"SELECT count(*) FROM stock_market WHERE NOT (closed_tx IS NULL OR {OWING})")
        assert 0 < (await connection.execute(at_rest)).scalar_one() < 60, "settled, and all sent"
    assert len(states) == 6, "open in three ways, won by either side, void"
    async with engine.connect() as reading:
        totals = await read_totals(reading, OWNER, NOW)
        assert await read_totals(reading, NOBODY, NOW) == OwnerTotals(0, 0, 0, 0, 0, 0)
    assert totals == OwnerTotals(
        staked=sum(view.offered for view in expected),
        accrued=sum(view.accrued for view in expected if view.open),
        paid=sum(view.paid_out or 0 for view in expected),
        accepted=sum(view.accepted or 0 for view in expected),
        deliverable=sum(view.settlement.total for view in expected),
        open=sum(view.open for view in expected),
    )
    assert min(totals.accrued, totals.paid, totals.deliverable, totals.open) > 0
    assert totals.accepted < totals.staked


# ---------------------------------------------------------------- pages


async def test_a_page_of_a_hundred_thousand_positions_reads_no_more_than_a_page(
    engine: AsyncEngine,
) -> None:
    """Each alone in its vintage and rationed; one market in forty is still open."""
    chance = random.Random(1)
    settled: Any = {"winner": UP, "voided": False, "paid_principal": 2**60, "vintage": None}
    per_market = MANY // 200
    async with engine.begin() as connection:
        for market_id in range(1, 201):
            market, _, _ = _played(market_id, chance)
            other = (Position(market_id << 32, market_id, OTHER, 0, 1, 0, 0), OTHER)
            ended = (
                replace(market, **settled)
                if market_id % 40
                else replace(market, winner=None, voided=False, vintage=None)
            )
            await connection.run_sync(_store, replace(ended, refunded=2**60), {}, [other])
        await connection.execute(
            text(
                "INSERT INTO stock_vintage SELECT market_id, v, 1000003, 1000003, 900001, 900001, 0, 0"
                f" FROM stock_market, generate_series(1, {per_market}) v"
            )
        )
        await connection.execute(
            text(
                "INSERT INTO stock_position (position_id, market_id, ordinal, owner, entered_by, outcome, offered,"
                " vintage, offered_before, claimed, refunded, payout, fee, refund, entered_block, entered_at, entry_tx,"
                " failed_deliveries) SELECT (market_id << 32) | v, market_id, v, :owner, :owner, v % 2, 1000003, v, 0,"
                " false, true, 0, 0, 100002, market_id * 1000 + v, 1, sha256(int8send(v)), 0"
                f" FROM stock_market, generate_series(1, {per_market}) v"
            ),
            {"owner": OWNER},
        )
    async with engine.connect() as tidying:
        await tidying.execution_options(isolation_level="AUTOCOMMIT")
        await tidying.execute(text("ANALYZE"))
    fetched: list[tuple[str, Any, int]] = []

    def keep(_connection: Any, cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        fetched.append((statement, parameters, cursor.rowcount))

    event.listen(engine.sync_engine, "after_cursor_execute", keep)
    async with engine.connect() as reading:
        first = await _owned(reading, 50)
        seen = [each.position.position_id for each in first.positions]
        last = await _owned(reading, 50, seen[-1])
        seen += [each.position.position_id for each in last.positions]
        assert await read_owned(reading, 1, OWNER, 50, 200 << 32, NOW) is None, "a position of another address"
        event.remove(engine.sync_engine, "after_cursor_execute", keep)
        assert seen == [(200 << 32) | v for v in range(per_market, per_market - 100, -1)]
        assert first.more
        assert first.totals == last.totals
        assert first.totals.staked == MANY * 1_000_003
        assert first.totals.accepted == MANY * 900_001
        assert max(rows for _, _, rows in fetched) <= 51, "bodies by the page, sums by the database"
        pages = [(statement, given) for statement, given, rows in fetched if rows == 51]
        assert len(pages) == 2
        for statement, given in pages:
            plan = (await reading.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", given)).scalar_one()
            nodes = list(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))
            assert not any(each["Node Type"] in ("Seq Scan", "Sort") for each in nodes), plan
            assert sum(each["Actual Rows"] * each["Actual Loops"] for each in nodes if "Relation Name" in each) <= 102


async def test_a_wallets_stakes_are_read_a_few_hundred_at_a_time(engine: AsyncEngine) -> None:
    """Other requests are answered in between."""
    async with engine.begin() as connection:
        await connection.execute(
            text(
                "INSERT INTO agent_stake (stake_id, market_id, ordinal, wallet, outcome, amount, fee, shares, nonce,"
                " bet_hash, idem_hash, status, staked_block, staked_log_index, staked_at, staked_tx, paid_amount,"
                " failed_payouts) SELECT n, h, n, :owner, 0, 1000000, 20000, 2000000, h, h, h, :in_book, n / 3,"
                " n % 3, n, h, 0, 0 FROM generate_series(1, 1201) n, LATERAL (SELECT sha256(int4send(n)) AS h) x"
            ),
            {"owner": OWNER, "in_book": int(StakeStatus.IN_BOOK)},
        )
    async with engine.connect() as reading:
        parts = [part async for part in read_wallet(reading, hex_of(OWNER), 500)]
    assert [len(part) for part in parts] == [500, 500, 201]
    assert [each.id for part in parts for each in part] == list(range(1201, 0, -1))


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for each in plan.get("Plans", ()) for node in _nodes(each))]
