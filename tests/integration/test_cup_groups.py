"""Trades that are written together: each has its own answer, and none takes the others down or holds them up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from api.cup.requests import signature_bytes
from core.cup import Refusal, ledger, trading
from core.cup.books import find
from core.db.engine import Connection, connect
from tests.support.cup_check import cup_faults, read_cup
from tests.support.cup_rig import Cup, Signer, now
from tests.waiting import PATIENCE

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def connection(cup: Cup) -> AsyncIterator[Connection]:
    async with await connect(cup.database_url) as opened:
        yield opened


def order(signer: Signer, slug: str, cents: int, side: str = "yes", trade_id: str | None = None) -> trading.PaperOrder:
    given: dict[str, Any] = signer.trade(slug, side, cents, trade_id)
    signature = signature_bytes(given["signature"])
    assert signature is not None
    return trading.PaperOrder(given["tradeId"], signer.address, slug, side, cents, given["issuedAt"], signature)


async def claimed(connection: Connection) -> Signer:
    signer = Signer()
    await ledger.claim(connection, signer.address)
    return signer


def codes(answers: list[trading.PaperReceipt | Exception]) -> list[str]:
    """`new`, `replay`, the code of a refusal, or the kind of another error."""
    outcomes = []
    for each in answers:
        if isinstance(each, trading.PaperReceipt):
            outcomes.append("replay" if each.replay else "new")
        else:
            outcomes.append(each.code if isinstance(each, Refusal) else type(each).__name__)
    return outcomes


async def exact(connection: Connection) -> None:
    assert cup_faults(await read_cup(connection)) == []


async def test_each_order_of_a_group_has_its_own_answer(cup: Cup, connection: Connection) -> None:
    open_, other = await cup.market(), await cup.market()
    over = await cup.market(opened=timedelta(hours=-2), closes=timedelta(hours=-1))
    one, two, poor = await claimed(connection), await claimed(connection), Signer()
    twice = order(one, open_, 500)
    group = [
        twice,
        order(two, open_, 700, "no"),
        twice,
        order(two, open_, 701, trade_id=twice.trade_id),
        order(poor, open_, 100),
        order(one, other, 999_501),
        order(one, other, 999_500),
        order(one, open_, 1),
        order(two, over, 100),
        order(two, "no-such-market", 100),
        order(two, open_, 100, "maybe"),
        order(two, other, 300),
    ]
    answers = await trading.place(connection, group, now)
    assert codes(answers) == [
        "new",
        "new",
        "replay",
        "trade_conflict",
        "insufficient_funds",
        "insufficient_funds",
        "new",
        "insufficient_funds",
        "market_closed",
        "market_not_found",
        "invalid_side",
        "new",
    ]
    first, second, again = answers[:3]
    assert isinstance(first, trading.PaperReceipt)
    assert isinstance(second, trading.PaperReceipt)
    assert isinstance(again, trading.PaperReceipt)
    assert (first.trade.pool_cents, second.trade.pool_cents) == (500, 1200)
    assert again.trade == first.trade
    assert (await find(connection, open_)).trades == 2
    assert codes(await trading.place(connection, group, now)) == [
        "replay" if code == "new" else code for code in codes(answers)
    ]
    await exact(connection)


async def test_a_group_is_what_its_orders_are_one_after_the_other(cup: Cup, connection: Connection) -> None:
    together, apart = await cup.market(), await cup.market()
    signers = [await claimed(connection) for _ in range(4)]
    plan = [(signers[n % 4], ("yes", "no")[n % 3 % 2], 100 + 37 * n) for n in range(24)]
    group = await trading.place(connection, [order(who, together, cents, side) for who, side, cents in plan], now)
    single = [
        each
        for who, side, cents in plan
        for each in await trading.place(connection, [order(who, apart, cents, side)], now)
    ]
    for one, other in zip(group, single, strict=True):
        assert isinstance(one, trading.PaperReceipt)
        assert isinstance(other, trading.PaperReceipt)
        assert (one.trade.shares_cents, one.trade.projected_payout_cents, one.trade.pool_cents) == (
            other.trade.shares_cents,
            other.trade.projected_payout_cents,
            other.trade.pool_cents,
        )
    assert (await find(connection, together)).book == (await find(connection, apart)).book
    await exact(connection)


async def test_what_the_database_refuses_is_refused_alone(cup: Cup, connection: Connection) -> None:
    slug = await cup.market()
    signer = await claimed(connection)
    good, bad, last = (order(signer, slug, cents) for cents in (100, 666, 300))
    await cup.run("ALTER TABLE cup_trade ADD CONSTRAINT not_the_devils CHECK (size_cents <> 666)")
    try:
        answers = await trading.place(connection, [good, bad, last], now)
    finally:
        await cup.run("ALTER TABLE cup_trade DROP CONSTRAINT not_the_devils")
    assert codes(answers) == ["new", "CheckViolation", "new"]
    assert await cup.value("SELECT trades FROM cup_market WHERE slug = %s", slug) == 2
    await exact(connection)


async def test_what_comes_after_the_close_of_the_tournament_is_refused_alone(cup: Cup, connection: Connection) -> None:
    """The first of a group that was taken apart is made in time, the others are not: it keeps its receipt."""
    slug = await cup.market()
    signer = await claimed(connection)
    group = [order(signer, slug, cents) for cents in (100, 666, 300)]
    asked = 0

    def clock() -> datetime:
        nonlocal asked
        asked += 1
        if asked > 2:  # for all together, and for the first
            raise Refusal(409, "cup_closed", "It is over.")
        return now()

    await cup.run("ALTER TABLE cup_trade ADD CONSTRAINT not_the_devils CHECK (size_cents <> 666)")
    try:
        answers = await trading.place(connection, group, clock)
    finally:
        await cup.run("ALTER TABLE cup_trade DROP CONSTRAINT not_the_devils")
    assert codes(answers) == ["new", "cup_closed", "cup_closed"]
    assert await cup.value("SELECT trades FROM cup_market WHERE slug = %s", slug) == 1
    await exact(connection)


async def test_ids_used_on_two_markets_at_once_neither_trade_twice_nor_wait_in_a_circle(
    cup: Cup, connection: Connection
) -> None:
    here, there = await cup.market(), await cup.market()
    signers = [await claimed(connection) for _ in range(4)]
    ids = [f"{n:02}-{here}" for n in range(100)]
    ours = [order(signers[n % 2], here, 100, trade_id=each) for n, each in enumerate(ids)]
    theirs = [order(signers[2 + n % 2], there, 100, trade_id=each) for n, each in enumerate(reversed(ids))]
    async with await connect(cup.database_url) as second:
        one, two = await asyncio.gather(trading.place(connection, ours, now), trading.place(second, theirs, now))
    outcome = [set(pair) for pair in zip(codes(one), reversed(codes(two)), strict=True)]
    assert outcome == [{"new", "trade_conflict"}] * 100
    await exact(connection)


async def test_a_locked_wallet_blocks_no_other(cup: Cup, connection: Connection) -> None:
    slug = await cup.market()
    held, free = await cup.claimed(), await cup.claimed()
    async with await connect(cup.database_url, autocommit=False) as holder:
        await holder.execute(
            "SELECT 1 FROM cup_account WHERE account = %s FOR NO KEY UPDATE", (f"wallet:{held.address}",)
        )
        waiting = asyncio.create_task(cup.post("/trade", held.trade(slug, "yes", 200)))
        async with asyncio.timeout(PATIENCE):
            for cents in (300, 400):
                assert (await cup.post("/trade", free.trade(slug, "no", cents))).status == 200
        assert not waiting.done()
        await holder.rollback()
    assert (await waiting).body["receipt"]["poolPaper"] == 9
    await exact(connection)


async def test_bets_of_locked_wallets_do_not_block_the_cup(cup: Cup, connection: Connection) -> None:
    """Settling a market locks all its wallets for long; they are more than there are connections."""
    live = await cup.open_round()
    held, free = [await cup.claimed() for _ in range(12)], await cup.claimed()
    async with await connect(cup.database_url, autocommit=False) as holder:
        await ledger.lock_wallets(holder, [each.address for each in held])
        waiting = [
            asyncio.create_task(cup.post("/roulette/bet", each.bet(live.round_no, "half:low", 1000))) for each in held
        ]
        await asyncio.sleep(0.5)
        async with asyncio.timeout(PATIENCE):
            assert (await cup.get("/roulette")).status == 200
            assert (await cup.post("/roulette/bet", free.bet(live.round_no, "half:low", 1000))).status == 200
        assert not any(each.done() for each in waiting)
        await holder.rollback()
    assert {each.status for each in await asyncio.gather(*waiting)} == {200}
    await cup.finish_round(live.round_no)
    await exact(connection)


async def test_claims_wait_for_no_other_wallet(cup: Cup, connection: Connection) -> None:
    first, second = Signer(), Signer()
    async with await connect(cup.database_url) as other, other.transaction():
        await ledger.claim(other, first.address)
        async with asyncio.timeout(PATIENCE):
            assert (await ledger.claim(connection, second.address))[1]
    await exact(connection)
