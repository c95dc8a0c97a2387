"""A market's whole life through the door, each phase held to the contracts by view calls at the body's own block."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from scripts._stack import wallets
from tests.support.service import Door
from tests.support.stock_bodies import hold_detail, hold_market, hold_preview, round_of
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    stock_venue.start("indexer", "api")
    return stock_venue


@pytest.fixture
def chain(service: StockService) -> StockChain:
    return service.chain


async def detail(door: Door, chain: StockChain, market_id: int, holds: Callable[[Any], bool] = bool) -> Any:
    """Return the market as of the present block or a later one, when `holds`, compared with the contracts."""
    block = chain.block
    body = await door.until(
        f"/api/markets/{market_id}", lambda body: int(body["head"]["blockNumber"]) >= block and holds(body)
    )
    hold_detail(chain, body)
    return body


async def text(door: Door, path: str) -> str:
    async with door.session.get(f"{door.url}{path}") as response:
        assert response.status == 200
        return await response.text()


def after_bell(chain: StockChain, market_id: int) -> tuple[int, int]:
    spec = chain.read(chain.contracts.resolver.call("spec", market_id))
    chain.warp_to(spec["finalTime"] + 1)
    return spec["strikeTime"], spec["finalTime"]


async def opened(door: Door, chain: StockChain, **terms: Any) -> int:
    chain.push(FLAT_PRICE)
    market_id = chain.open_market(**terms)
    chain.enter(wallets.DEV[1], market_id, 0, 20 * USDG)
    chain.enter(wallets.DEV[2], market_id, 1, 30 * USDG)
    chain.enter(wallets.DEV[3], market_id, 0, 10 * USDG)
    return market_id


async def test_from_opening_to_a_paid_winner(door: Door, chain: StockChain) -> None:
    chain.push(FLAT_PRICE)
    market_id = chain.open_market(strike_in=600, lasts=3600)
    body = await detail(door, chain, market_id)
    assert body["market"]["phase"] == "opens"
    assert body["market"]["acceptingBets"] is True
    assert [each["seed"] for each in body["positions"]] == [True, True]
    assert body["vintageBlock"] is None
    assert (body["resolution"], body["finder"], body["preview"]) == (None, None, None)

    # The first bet's batch is open in its own block, and matched in the next.
    chain.enter(wallets.DEV[1], market_id, 0, 20 * USDG)
    body = await detail(door, chain, market_id)
    assert body["vintageBlock"] == body["head"]["l1BlockNumber"]
    assert body["positions"][2]["accepted"] is None
    assert body["positions"][2]["finalized"] is False
    assert body["market"]["totals"]["pendingUp"] == str(20 * USDG)
    assert body["market"]["headroom"]["up"] == str(70 * USDG)
    chain.mine()
    body = await detail(door, chain, market_id)
    assert body["vintageBlock"] is None
    assert body["positions"][2]["accepted"] == str(20 * USDG)
    accrued = body["positions"][2]["accrued"]

    spec = chain.read(chain.contracts.resolver.call("spec", market_id))
    chain.warp_to(spec["strikeTime"] + 5)
    chain.push(FLAT_PRICE + 1_00000000)
    chain.enter(wallets.DEV[2], market_id, 1, 30 * USDG)
    chain.mine()
    live = {"answer": str(FLAT_PRICE + 1_00000000)}
    body = await detail(door, chain, market_id, lambda b: b["market"]["live"]["answer"] == live["answer"])
    assert body["market"]["phase"] == "live"
    assert body["market"]["strike"] == round_of(chain, spec["strikeTime"])
    assert body["market"]["strike"]["answer"] == str(FLAT_PRICE)
    assert body["market"]["strikeProblem"] is None
    assert body["market"]["change"] == {"direction": "UP", "bps": 53, "text": "+0.53% (+1.00)"}
    assert int(body["positions"][2]["accrued"]) > int(accrued)

    after_bell(chain, market_id)
    body = await detail(door, chain, market_id, lambda b: b["preview"] and b["preview"]["status"] == 1)
    hold_preview(chain, body)
    assert body["market"]["phase"] == "frozen"
    assert body["market"]["acceptingBets"] is False
    assert body["finder"]["ok"] is True
    assert body["finder"]["expected"] == "UP"
    assert body["finder"]["problem"] is None
    assert body["finder"]["strike"] == round_of(chain, spec["strikeTime"])
    assert body["finder"]["final"] == round_of(chain, spec["finalTime"])
    assert body["preview"]["name"] == "UP"

    receipt = chain.send(chain.contracts.resolver.call("resolve", market_id), wallets.DEV[5].address)
    body = await detail(door, chain, market_id)
    hold_preview(chain, body)
    assert body["market"]["phase"] == "resolved"
    assert body["market"]["status"] == "resolved UP"
    assert body["market"]["winner"] == "UP"
    assert body["resolution"]["outcome"] == "UP"
    assert body["resolution"]["reason"] is None
    assert body["resolution"]["tx"] == receipt["transactionHash"]
    assert body["resolution"]["strikeRound"] == body["finder"]["strikeRound"]
    winner, loser = body["positions"][2], body["positions"][3]
    assert int(winner["payout"]) > 20 * USDG
    assert (loser["payout"], loser["classicPayout"]) == ("0", "0")
    # On the same stakes an ordinary pool pays by share of the winning pool alone.
    assert int(winner["classicPayout"]) > 20 * USDG
    assert winner["paidOut"] is None
    assert winner["settlement"]["deliverable"] is True

    ids = chain.positions(market_id)
    receipt = chain.send(chain.contracts.settler.call("deliver", ids), wallets.DEV[5].address)
    body = await detail(door, chain, market_id)
    winner = body["positions"][2]
    assert winner["claimed"] is True
    assert winner["paidOut"] == winner["payout"]
    assert winner["payoutTx"] == receipt["transactionHash"]
    paid_out = sum(int(each["paidOut"] or 0) for each in body["positions"])
    assert body["market"]["totals"]["paidOut"] == str(paid_out)

    # After the settlement the market is on the list as it is on its own page.
    listed = await door.until("/api/markets", lambda b: b["markets"][0]["id"] == str(market_id))
    hold_market(chain, listed["markets"][0], chain.block)
    assert listed["markets"][0] == body["market"]


async def test_down_wins(door: Door, chain: StockChain) -> None:
    market_id = await opened(door, chain)
    chain.warp_to(chain.read(chain.contracts.resolver.call("spec", market_id))["strikeTime"] + 1)
    chain.push(FLAT_PRICE - 2_00000000)
    after_bell(chain, market_id)
    chain.send(chain.contracts.resolver.call("resolve", market_id), wallets.DEV[5].address)
    body = await detail(door, chain, market_id)
    hold_preview(chain, body)
    assert body["market"]["status"] == "resolved DOWN"
    assert (body["market"]["winner"], body["resolution"]["outcome"]) == ("DOWN", "DOWN")
    assert body["market"]["change"]["direction"] == "DOWN"
    assert body["positions"][3]["side"] == "DOWN"
    assert int(body["positions"][3]["payout"]) > 30 * USDG


async def test_equal_readings_void_as_flat(door: Door, chain: StockChain) -> None:
    market_id = await opened(door, chain)
    after_bell(chain, market_id)
    chain.send(chain.contracts.resolver.call("resolve", market_id), wallets.DEV[5].address)
    body = await detail(door, chain, market_id)
    hold_preview(chain, body)
    assert (body["market"]["phase"], body["market"]["status"], body["market"]["winner"]) == ("void", "void", None)
    assert (body["resolution"]["outcome"], body["resolution"]["reason"]) == ("FLAT", "flat")
    assert body["preview"]["name"] == "FLAT"
    # Every owner gets back what was accepted.
    assert [each["payout"] for each in body["positions"]] == [each["accepted"] for each in body["positions"]]
    assert {each["classicPayout"] for each in body["positions"]} == {None}
    # It is not sent yet.
    for path in (f"/m/{market_id}", f"/positions?owner={wallets.DEV[1].address}", "/"):
        page = await text(door, path)
        assert "void, full refund" in page, path
        assert "refunded" not in page, path


async def test_a_stale_reading_voids(door: Door, chain: StockChain) -> None:
    market_id = await opened(door, chain, strike_in=600, max_age=60)
    strike, final = after_bell(chain, market_id)
    body = await detail(door, chain, market_id, lambda b: b["preview"] and b["preview"]["status"] == 4)
    hold_preview(chain, body)
    assert body["finder"]["ok"] is True
    assert body["finder"]["expected"] == "VOID"
    assert "old, more than the 1 minute allowed" in body["finder"]["problem"]
    assert "old, more than the 1 minute allowed" in body["market"]["strikeProblem"]
    rounds = [int(round_of(chain, at)["roundId"]) for at in (strike, final)]
    chain.send(chain.contracts.resolver.call("voidStale", market_id, *rounds), wallets.DEV[5].address)
    body = await detail(door, chain, market_id)
    hold_preview(chain, body)
    assert (body["resolution"]["outcome"], body["resolution"]["reason"]) == ("VOID", "stale")
    assert body["preview"]["name"] == "STALE"


async def test_an_answer_that_is_no_price_voids_as_stale_with_detail(door: Door, chain: StockChain) -> None:
    market_id = await opened(door, chain)
    strike = chain.read(chain.contracts.resolver.call("spec", market_id))["strikeTime"]
    chain.push(0, strike - 1)
    strike, final = after_bell(chain, market_id)
    body = await detail(door, chain, market_id, lambda b: b["preview"] and b["preview"]["status"] == 7)
    hold_preview(chain, body)
    assert body["market"]["strikeProblem"] == "the answer 0 is not a price"
    rounds = [int(round_of(chain, at)["roundId"]) for at in (strike, final)]
    chain.send(chain.contracts.resolver.call("voidBadAnswer", market_id, *rounds), wallets.DEV[5].address)
    body = await detail(door, chain, market_id)
    hold_preview(chain, body)
    assert (body["resolution"]["outcome"], body["resolution"]["reason"]) == ("VOID", "stale")
    assert "not a price" in body["resolution"]["detail"]
    chain.push(FLAT_PRICE)


async def test_a_paused_oracle_voids(door: Door, chain: StockChain) -> None:
    market_id = await opened(door, chain)
    chain.pause_oracle(True)
    try:
        chain.witness()
        after_bell(chain, market_id)
        body = await detail(door, chain, market_id, lambda b: b["preview"] and b["preview"]["status"] == 6)
        hold_preview(chain, body)
        page = await text(door, f"/m/{market_id}")
        assert "oracle was paused at the time of a reading" in page
        call = chain.contracts.resolver.call("voidPaused", market_id)
        assert call.parameters()["data"] in page
        chain.send(chain.contracts.resolver.call("voidPaused", market_id), wallets.DEV[5].address)
        body = await detail(door, chain, market_id, lambda b: b["resolution"] and b["preview"]["status"] == 6)
        hold_preview(chain, body)
    finally:
        chain.pause_oracle(False)
    assert (body["resolution"]["outcome"], body["resolution"]["reason"]) == ("VOID", "paused")
    assert body["resolution"]["strikeRound"] == body["preview"]["strikeRound"]


async def test_who_won_is_offered_the_call_that_pays_her_also_when_anyone_may_void(
    door: Door, chain: StockChain
) -> None:
    """Both calls go then, and the first one counts: a page with the void alone is the losers' page."""
    market_id = await opened(door, chain)
    spec = chain.read(chain.contracts.resolver.call("spec", market_id))
    chain.warp_to(spec["strikeTime"] + 1)
    chain.push(FLAT_PRICE + 10**8)
    after_bell(chain, market_id)
    body = await detail(door, chain, market_id, lambda b: b["preview"] and b["preview"]["name"] == "UP")
    assert "The service sends this call two minutes after the bell." in await text(door, f"/m/{market_id}")
    chain.warp_to(body["market"]["voidableAt"])
    await detail(door, chain, market_id, lambda b: b["preview"]["name"] == "UP")
    page = await text(door, f"/m/{market_id}")
    offered = re.search(r'data-send="0x[0-9a-f]{8}([0-9a-f]{64})([0-9a-f]{64})([0-9a-f]{64})"', page)
    assert offered is not None, page.partition('id="settle"')[2][:1500]
    call = chain.contracts.resolver.call("resolveWith", *(int(word, 16) for word in offered.groups()))
    assert f'data-send="{call.parameters()["data"]}"' in page
    assert "anyone can void the market instead" in page
    chain.send(call, wallets.DEV[5].address)
    body = await detail(door, chain, market_id, lambda b: b["resolution"])
    assert body["resolution"]["outcome"] == "UP"
    # It is not sent yet: it is due, and not paid.
    page = await text(door, f"/m/{market_id}?owner={wallets.DEV[1].address}")
    tile = page.partition('<article class="position">')[2].partition("</article>")[0]
    assert "<dt>Due</dt>" in tile
    assert "<dt>Paid</dt>" not in tile
    (won,) = [each["id"] for each in body["positions"] if each["owner"] == wallets.DEV[1].address]
    chain.send(chain.contracts.settler.call("deliver", [int(won)]), wallets.DEV[5].address)
    await detail(door, chain, market_id)
    page = await text(door, f"/m/{market_id}?owner={wallets.DEV[1].address}")
    tile = page.partition('<article class="position">')[2].partition("</article>")[0]
    assert "<dt>Paid</dt>" in tile
    chain.push(FLAT_PRICE)


async def test_an_unsettled_market_voids_by_the_timeout(door: Door, chain: StockChain) -> None:
    market_id = await opened(door, chain)
    body = await detail(door, chain, market_id)
    chain.warp_to(body["market"]["voidableAt"])
    chain.send(chain.contracts.settler.call("voidMarket", market_id), wallets.DEV[5].address)
    body = await detail(door, chain, market_id, lambda b: b["preview"] and b["preview"]["status"] != 0)
    hold_preview(chain, body)
    assert (body["resolution"]["outcome"], body["resolution"]["reason"]) == ("VOID", "timeout")
    assert body["resolution"]["strikeRound"] is None
    assert body["market"]["phase"] == "void"
