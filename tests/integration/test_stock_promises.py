"""What the specification promises of the service as a whole, held to the chain: refund drills, what anyone can do
without us, who placed a bet, and the audit on the proof page."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

import pytest

from api.stock.facts import SIDES
from scripts._stack import wallets
from tests.support.programs import run
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService

DAY = 86_400
STRANGER = wallets.DEV[5].address


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    """Without a keeper. The API is given no key."""
    chain = stock_venue.chain
    chain.push(FLAT_PRICE)
    stock_venue.start("indexer", "relayer")
    stock_venue.start("api", VPM_RELAYER_KEYS="")
    return stock_venue


@pytest.fixture
def chain(service: StockService) -> StockChain:
    return service.chain


@pytest.fixture(scope="module")
def market(service: StockService) -> int:
    return service.chain.open_market(strike_in=5 * DAY, lasts=DAY)


def funded(chain: StockChain, name: str) -> wallets.Wallet:
    wallet = wallets.wallet(name)
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    chain.ask("anvil_setBalance", wallet.address, "0x0")
    return wallet


def staked(chain: StockChain) -> int:
    markets = range(1, chain.read(chain.contracts.settler.call("marketCount")) + 1)
    views = (chain.read(chain.contracts.settler.call("position", each)) for m in markets for each in chain.positions(m))
    return sum(view["offered"] for view in views if not view["seed"])


async def test_a_refund_drill_not_refunded_yet_is_listed_and_no_other_short_market(
    door: Door, chain: StockChain
) -> None:
    """Markets of the family `drill` are also the short ones of a local stack, which are won as any other."""

    async def drill_shown() -> Any:
        settler = chain.contracts.settler
        count = chain.read(settler.call("marketCount"))
        settled = sum(chain.read(settler.call("market", each))["status"] != 1 for each in range(1, count + 1))

        def knows(body: dict[str, Any]) -> bool:
            values = {each["label"]: each["value"] for each in body["counters"]}
            return (values.get("Markets listed"), values.get("Markets settled")) == (str(count), str(settled))

        return (await door.until("/api/proof", knows))["refundDrill"]

    short = chain.open_market(strike_in=60, lasts=60, family=2)
    assert await drill_shown() is None
    chain.warp_to(chain.now + 61)
    chain.push(FLAT_PRICE + 1)
    chain.warp_to(chain.now + 61)
    chain.send(chain.contracts.resolver.call("resolve", short), STRANGER)
    assert await drill_shown() is None
    drill = chain.open_market(strike_in=60, lasts=60, family=2, max_age=1)
    chain.enter(wallets.DEV[3], drill, 1, 7 * USDG)
    listed: dict[str, Any] = {"id": str(drill), "status": "listed", "reason": None, "voidTxUrl": None, "refunds": []}
    assert await drill_shown() == listed
    chain.open_market(strike_in=60, lasts=60, family=2)
    assert await drill_shown() == listed


async def test_a_refund_drill_includes_stakes_that_were_refused_whole(door: Door, chain: StockChain) -> None:
    """They came back as any other: what the drill gave back adds up to what was put in."""
    drill = chain.open_market(strike_in=60, lasts=60, family=2, seed=USDG)
    chain.enter(wallets.DEV[1], drill, 0, 50 * USDG)  # more than the book takes
    chain.enter(wallets.DEV[2], drill, 0, 5 * USDG)
    chain.warp_to(chain.now + 121)
    chain.send(chain.contracts.resolver.call("resolve", drill), STRANGER)
    chain.send(chain.contracts.settler.call("deliver", chain.positions(drill)), STRANGER)
    refunded = {"id": str(drill), "status": "refunded"}
    body = await door.until("/api/proof", lambda b: refunded.items() <= (b["refundDrill"] or {}).items())
    given = [(each["owner"], int(each["amount"])) for each in body["refundDrill"]["refunds"]]
    opener = wallets.OPENER.address
    assert given == [
        (opener, USDG),
        (opener, USDG),
        (wallets.DEV[1].address, 50 * USDG),
        (wallets.DEV[2].address, 5 * USDG),
    ]


def test_an_api_without_the_attestation_key_warns_of_all_that_it_does_not_sign(service: StockService) -> None:
    (line,) = [line for line in service.log("api").splitlines() if "agent.unsigned" in line]
    assert "offers, receipts and callbacks are not signed" in line


async def test_all_that_the_keeper_does_others_can_do_without_it(door: Door, chain: StockChain) -> None:
    safe, token, lister = chain.deployment.safe, chain.contracts.token, chain.contracts.lister
    assert safe is not None
    opener, feed = funded(chain, "opens instead of the keeper"), chain.feed()
    terms = {
        "feed": feed.proxy,
        "strikeTime": chain.now + 60,
        "finalTime": chain.now + 120,
        "maxStrikeAge": feed.max_strike_age_seconds,
        "maxFinalAge": feed.max_final_age_seconds,
        "seedPerLeg": 10 * USDG,
        "minEntry": USDG,
        "maxEntry": 100 * USDG,
        "family": 0,
    }
    chain.send(lister.call("setOpener", opener.address, True), safe.address)
    chain.send(token.call("approve", lister.address, 20 * USDG), opener.address)
    chain.send(lister.call("open", terms), opener.address)
    market = chain.read(chain.contracts.settler.call("marketCount"))
    body = await door.until(f"/api/markets/{market}", lambda b: b["market"]["phase"] == "opens")
    assert body["market"]["opener"] == opener.address
    chain.enter(wallets.DEV[1], market, 0, 5 * USDG)
    chain.warp_to(terms["finalTime"] + 1)
    chain.send(chain.contracts.resolver.call("resolve", market), STRANGER)
    chain.send(chain.contracts.settler.call("deliver", chain.positions(market)), STRANGER)
    body = await door.until(
        f"/api/markets/{market}", lambda b: all(p["refunded"] or p["claimed"] for p in b["positions"])
    )
    assert body["resolution"]["outcome"] in (*SIDES, "FLAT")


@pytest.mark.parametrize("path", ["/api/prices", "/api/markets", "/api/markets/{market}", "/api/proof"])
async def test_the_other_reads_may_be_cached_by_an_edge_and_have_no_limit(door: Door, market: int, path: str) -> None:
    for _ in range(150):
        response, _ = await door.get(path.format(market=market), ip="192.0.2.99")
        assert response.status == 200
        assert response.headers["Cache-Control"].startswith("public, max-age=")


async def test_a_transferred_position_still_shows_who_placed_it(door: Door, chain: StockChain, market: int) -> None:
    bettor, operator, stranger = funded(chain, "gives a bet away"), wallets.OPENER, wallets.DEV[6].address
    bet = chain.bet(bettor, market, amount=7 * USDG)
    response, _ = await door.post("/api/relay/enter", chain.signed(bettor, bet))
    assert response.status == 200
    chain.enter(operator, market, 1, 3 * USDG)
    theirs, ours = chain.positions(market)[-2:]
    receipt = f"/api/relay/receipt?from={bettor.address}&nonce=0x{bet.nonce.hex()}"

    def counted(body: dict[str, Any]) -> bool:
        return int(body["usdg"]["staked"]) == staked(chain) and not body["missing"]

    before = await door.until("/api/proof", counted)
    placed = {each["id"]: each["opener"] for each in (await door.get(f"/api/markets/{market}"))[1]["positions"]}
    assert (placed[str(theirs)], placed[str(ours)]) == (False, True)
    chain.ask("anvil_setBalance", bettor.address, hex(10**18))
    settler = chain.contracts.settler
    chain.send(settler.call("transferPosition", theirs, operator.address), bettor.address)
    chain.send(settler.call("transferPosition", ours, stranger), operator.address)

    def held(body: dict[str, Any]) -> bool:
        owners = {each["id"]: each["owner"] for each in body["positions"]}
        return (owners[str(theirs)], owners[str(ours)]) == (operator.address, stranger)

    detail = await door.until(f"/api/markets/{market}", held)
    assert {each["id"]: each["opener"] for each in detail["positions"]} == placed
    _, shown = await door.get(receipt)
    assert shown["position"]["id"] == str(theirs)
    assert (shown["position"]["owner"], shown["position"]["opener"]) == (operator.address, False)
    chain.enter(operator, market, 1, 2 * USDG)
    after = await door.until("/api/proof", counted)
    assert after["bettors"] == {**before["bettors"], "operatorBets": before["bettors"]["operatorBets"] + 1}


async def test_the_last_audit_is_on_the_proof_page(service: StockService, door: Door, chain: StockChain) -> None:
    started = int(time.time())
    chain.mine()
    command = [sys.executable, "-m", "indexer", "audit", "--chain", "stock"]
    done = await asyncio.to_thread(run, command, {**os.environ, **service.env})
    assert done.returncode == 0, done.stdout + done.stderr
    body = await door.until("/api/proof", lambda b: b["audit"] is not None)
    audit = body["audit"]
    assert set(audit) == {"at", "block", "compared", "mismatches"}
    assert started - 2 <= audit["at"] <= time.time() + 2
    assert 0 < int(audit["block"]) <= chain.block
    # Every market and position has several numbers.
    markets = chain.read(chain.contracts.settler.call("marketCount"))
    assert audit["compared"] >= markets + sum(len(chain.positions(each)) for each in range(1, markets + 1))
    assert audit["mismatches"] == 0
