"""A stock market's whole life without an operator: a warped chain, the real indexer, relayer and keepers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keeper.stock import deliver
from scripts._stack import wallets
from tests.support.genesis import Genesis, chain
from tests.support.keeper_rig import Rig, body, rigged
from tests.support.stock_chain import StockChain

pytestmark = pytest.mark.timeout(300)

DOLLAR = 10**6
UP, DOWN = 0, 1
ANN, BEN, CAT, DAN = wallets.DEV[:4]


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "stock") as running:
        yield running


@pytest.fixture
def stock(rig: Rig) -> StockChain:
    return StockChain.on(rig.chains["stock"].url, rig.deployment("stock"))


def held(stock: StockChain, owner: str) -> int:
    return int(stock.read(stock.contracts.token.call("balanceOf", owner)))


def market(rig: Rig, market_id: int, columns: str = "*") -> tuple[Any, ...]:
    found = rig.rows(f"SELECT {columns} FROM stock_market WHERE market_id = %s", market_id)
    return found[0] if found else ()


async def listed(rig: Rig, where: str) -> tuple[int, str, int, int]:
    query = (
        f"SELECT market_id, ticker, strike_time, final_time FROM stock_market WHERE {where} ORDER BY market_id LIMIT 1"
    )
    rows = await rig.until(lambda: rig.rows(query), f"a market with {where}")
    return rows[0]  # type: ignore[return-value]


def undelivered(rig: Rig, stock: StockChain, market_id: int) -> list[tuple[Any, ...]]:
    query = "SELECT position_id FROM stock_position WHERE market_id = %s ORDER BY position_id"
    owed = []
    for (position_id,) in rig.rows(query, market_id):
        if total := stock.read(stock.contracts.settler.call("settlement", position_id))[4]:
            owed.append((position_id, total))
    return owed


def reached(rig: Rig, moment: int) -> bool:
    rows = rig.rows("SELECT block_time FROM chain_cursor")
    return bool(rows) and rows[0][0] is not None and rows[0][0] >= moment


async def looked(rig: Rig) -> None:
    """Wait until a run of the resolver that begins after this has ended."""
    ran = "SELECT 1 FROM keeper_run WHERE job = 'resolve' AND started_at > %s"
    ((began,),) = rig.rows("SELECT clock_timestamp()")
    await rig.until(lambda: rig.rows(ran, began), "a look of the keeper")


@pytest.mark.thorough
async def test_a_market_and_a_refund_drill_live_unattended_under_two_keepers(rig: Rig, stock: StockChain) -> None:
    """List, bets, bell, resolve, deliver, poke, residue, sweep; then a market without a fresh reading, refunded."""
    rig.extra = {"VPM_KEEPER_SWEEP_FROM_UNITS": "1", "VPM_KEEPER_LOCAL_PRICES": "0"}
    rig.start("indexer", "relayer", "keeper", "keeper-2")
    await rig.works()
    market_id, ticker, strike, final = await listed(rig, "family = 2")

    before = {one.address: held(stock, one.address) for one in (ANN, BEN, CAT, DAN)}
    stock.push(100_00000000, ticker=ticker)
    for bettor in (ANN, BEN, CAT):  # 27 fit on one side of a fresh 3/3 market: Cat's last 3 are refused
        stock.enter(bettor, market_id, UP, 10 * DOLLAR)
    stock.enter(DAN, market_id, DOWN, 20 * DOLLAR)
    refused = "SELECT refund FROM stock_position WHERE market_id = %s AND refunded"
    # The refused part comes back while the market is still open, before any bell.
    returned = await rig.until(lambda: rig.rows(refused, market_id), "the refused remainder")
    assert returned == [(3 * DOLLAR,)]
    assert not market(rig, market_id, "winner, voided")[1]

    # One keeper is killed, the leader or not; the other goes on.
    rig.daemons.pop("keeper").kill()
    rig.warp("stock", strike + 2)
    stock.push(105_00000000, ticker=ticker)
    with rig.no_blocks("stock"):
        rig.warp("stock", final + 30)
        await rig.until(lambda: reached(rig, final + 30), "the index at the bell")
        await looked(rig)
        assert rig.now("stock") <= final + 60, "the clock stood still too late"
        asked = "SELECT 1 FROM keeper_attempt WHERE subject = %s"
        assert rig.rows(asked, f"stock:resolve:{market_id}") == [], "nothing may settle within a minute of the bell"
    rig.warp("stock", final + 61)
    await rig.until(lambda: market(rig, market_id, "winner") == (UP,), "the resolution")
    await rig.until(lambda: not undelivered(rig, stock, market_id), "the deliveries")
    residue = "SELECT residue_tx FROM stock_market WHERE market_id = %s"
    whole = f"SELECT principal_up + principal_down - paid - fees FROM stock_market WHERE market_id = {market_id}"
    if rig.rows(whole)[0][0]:
        await rig.until(lambda: rig.rows(residue, market_id)[0][0], "the residue")
    await rig.until(lambda: rig.rows("SELECT 1 FROM stock_fee_sweep"), "a sweep of fees")

    gains = {one.address: held(stock, one.address) - before[one.address] for one in (ANN, BEN, CAT, DAN)}
    assert gains[DAN.address] == -20 * DOLLAR
    for bettor in (ANN, BEN, CAT):
        assert 0 < gains[bettor.address] < 20 * DOLLAR
    # Every batch and resolution was asked for once, although two keepers ran all along. A listing that was under way
    # while the clock leapt came too late.
    failed = "SELECT key FROM outbox_intent WHERE (outcome = 'reverted' OR state = 'failed') AND kind <> 'open'"
    assert rig.rows(failed) == []
    resolved = "SELECT count(*) FROM outbox_intent WHERE kind = 'resolve'"
    closed = "SELECT count(*) FROM stock_market WHERE closed_tx IS NOT NULL"
    await rig.until(lambda: rig.rows(resolved) == rig.rows(closed), "as many ends as were asked for")

    # The refund drill: no round is a second old at its strike.
    print(body(await rig.run("refund-drill")))
    drill, _, _, bell = await listed(rig, "max_strike_age = 1")
    before = {one.address: held(stock, one.address) for one in (ANN, BEN)}
    stock.enter(ANN, drill, UP, 50 * DOLLAR)
    stock.enter(BEN, drill, DOWN, 70 * DOLLAR)
    rig.warp("stock", bell + 90)
    sighted = f"SELECT 1 FROM keeper_confirmation WHERE subject = 'stock:stale:{drill}'"
    await rig.until(lambda: rig.rows(sighted), "a first read that it is stale")
    assert market(rig, drill, "voided") == (False,), "one stale read voids nothing"
    rig.warp("stock", bell + 15 * 60 + 1)
    await rig.until(lambda: market(rig, drill, "voided, outcome, reason") == (True, 3, 2), "the void")
    await rig.until(lambda: not undelivered(rig, stock, drill), "the refunds")
    assert {one.address: held(stock, one.address) for one in (ANN, BEN)} == before


@pytest.mark.thorough
async def test_a_frozen_owner_delays_no_one_else_and_is_rarely_retried(rig: Rig, stock: StockChain) -> None:
    rig.extra = {"VPM_KEEPER_LOCAL_PRICES": "0"}
    rig.start("indexer", "relayer", "keeper")
    await rig.works()
    market_id, ticker, strike, final = await listed(rig, "family = 2")
    stock.push(100_00000000, ticker=ticker)
    for bettor in (ANN, BEN):
        stock.enter(bettor, market_id, UP, 10 * DOLLAR)
    stock.enter(DAN, market_id, DOWN, 20 * DOLLAR)
    before = held(stock, BEN.address)
    stock.send(stock.contracts.token.call("freeze", ANN.address), DAN.address)
    rig.warp("stock", strike + 2)
    stock.push(105_00000000, ticker=ticker)
    rig.warp("stock", final + 61)
    await rig.until(lambda: held(stock, BEN.address) > before, "the others' payouts")
    failed = "SELECT position_id FROM stock_position WHERE market_id = %s AND failed_deliveries = 1"
    ((position_id,),) = await rig.until(lambda: rig.rows(failed, market_id), "the refused delivery")
    await asyncio.sleep(5)
    assert rig.rows(f"SELECT attempts FROM keeper_attempt WHERE subject = 'stock:deliver:{position_id}'") == [(1,)]
    assert [each for each, _ in undelivered(rig, stock, market_id)] == [position_id]
    stock.send(stock.contracts.token.call("unfreeze", ANN.address), DAN.address)
    again = "UPDATE keeper_attempt SET requested_at = requested_at - interval '2 hours' WHERE subject = %s RETURNING 1"
    rig.rows(again, f"stock:deliver:{position_id}")
    await rig.until(lambda: not undelivered(rig, stock, market_id), "the delivery after all")


@pytest.mark.thorough
async def test_waiting_payouts_never_block_those_behind_them(
    rig: Rig, stock: StockChain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "MAX_ROWS", 2)
    rig.start("indexer", "relayer")
    await rig.works()
    await rig.run("drill")
    market_id, ticker, strike, final = await listed(rig, "max_strike_age <> 1")
    stock.push(100_00000000, ticker=ticker)
    for bettor in (ANN, CAT, BEN):
        stock.enter(bettor, market_id, UP, 10 * DOLLAR)
    before = held(stock, BEN.address)
    for frozen in (ANN, CAT):
        stock.send(stock.contracts.token.call("freeze", frozen.address), DAN.address)
    rig.warp("stock", strike + 2)
    stock.push(105_00000000, ticker=ticker)
    rig.warp("stock", final + 61)
    await rig.until(lambda: reached(rig, final + 61), "the index")
    await rig.run("resolve")
    await rig.until(lambda: market(rig, market_id, "winner") == (UP,), "the resolution")

    failed = "SELECT count(*) FROM stock_position WHERE market_id = %s AND failed_deliveries = 1"
    for _ in range(20):
        report = await rig.run("deliver")
        assert report.ok, report.errors
        if held(stock, BEN.address) > before and rig.rows(failed, market_id) == [(2,)]:
            break
        await asyncio.sleep(1)
    assert held(stock, BEN.address) > before
    attempts = "SELECT max(attempts) FROM keeper_attempt WHERE subject LIKE 'stock:deliver:%%'"
    assert rig.rows(attempts) == [(1,)], "no owner is tried twice for it"


@pytest.mark.thorough
async def test_a_contradicting_node_stops_a_void(
    rig: Rig, local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two nodes are configured, and one does not see the stale market: nothing is voided on the word of the other. A
    node that is away stops nothing."""
    rig.start("indexer", "relayer")
    await rig.works()
    await rig.run("refund-drill")
    drill, _, _, bell = await listed(rig, "max_strike_age = 1")
    rig.warp("stock", bell + 16 * 60)
    await rig.until(lambda: reached(rig, bell + 16 * 60), "the index")
    log = tmp_path_factory.mktemp("other") / "anvil.log"
    with chain(local_genesis, "stock", log, block_seconds=1.0) as other:
        urls = f"{rig.chains['stock'].url},{other.url}"
        for reason in ("a second read must confirm it", f"but not according to 1:{other.url.removeprefix('http://')}"):
            report = await rig.run("resolve", VPM_STOCK_RPC_URLS=urls)
            assert report.actions == []
            assert reason in report.skipped[0].reason
            rig.warp("stock", rig.now("stock") + 90)
    report = await rig.run("resolve", dry_run=True, VPM_STOCK_RPC_URLS=urls)  # the other node is gone now
    assert [each.kind for each in report.actions] == ["void"], report.skipped
    assert "no response from" in report.actions[0].detail
    report = await rig.run("resolve", dry_run=True)
    assert [each.kind for each in report.actions] == ["void"]
    report = await rig.run("resolve")
    assert [each.kind for each in report.actions] == ["void"]
    await rig.until(lambda: market(rig, drill, "voided") == (True,), "the void")


async def test_a_pause_over_the_bell_is_witnessed_in_and_out_and_voids(rig: Rig, stock: StockChain) -> None:
    rig.start("indexer", "relayer")
    await rig.works()
    await rig.run("drill")
    market_id, ticker, strike, final = await listed(rig, "family = 2")
    before = held(stock, ANN.address)
    stock.enter(ANN, market_id, UP, 10 * DOLLAR)
    rig.warp("stock", strike + 2)
    stock.push(105_00000000, ticker=ticker)

    async def witnessed(count: int) -> None:
        done = "SELECT 1 FROM outbox_intent WHERE kind = 'witness' AND outcome = 'succeeded'"
        while len(rig.rows(done)) < count:  # every ten seconds, as the keeper does; an attempt rests for five
            await rig.run("witness")
            await asyncio.sleep(0.5)
        assert len(rig.rows(done)) == count

    report = await rig.run("witness")
    assert (report.ok, report.actions) == (True, []), body(report)  # nothing is new
    stock.pause_oracle(True, ticker)
    await witnessed(1)
    rig.warp("stock", final + 2)
    await rig.until(lambda: reached(rig, final + 2), "the index past the bell")
    await witnessed(2)  # over the bell
    stock.pause_oracle(False, ticker)
    await witnessed(3)
    token = stock.feed(ticker).stock_token
    assert stock.read(stock.contracts.resolver.call("pausedBetween", token, final, final))
    rig.warp("stock", final + 130)
    await rig.until(lambda: reached(rig, final + 130), "the index two minutes past the bell")
    await rig.run("resolve")
    await rig.until(lambda: market(rig, market_id, "voided, outcome, reason") == (True, 3, 3), "the void")
    await rig.run("deliver")
    await rig.until(lambda: held(stock, ANN.address) == before, "the refund")
