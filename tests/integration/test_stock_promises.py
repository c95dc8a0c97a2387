"""What the specification says of the service as a whole, held to the chain: what a market is, what the relay does and
cannot do, what anybody can do without us, and how soon a bet is seen everywhere."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from api.stock.facts import SIDES
from core.db.engine import conninfo
from scripts._stack import wallets
from tests.support.nursery import cold, run
from tests.support.played_chain import Reverted
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
    with cold():  # a test reads the environment it was started with
        stock_venue.start("api", VPM_RELAYER_KEYS="")
    return stock_venue


@pytest.fixture
def chain(service: StockService) -> StockChain:
    return service.chain


@pytest.fixture(scope="module")
def market(service: StockService) -> int:
    """A market that takes bets for the whole module."""
    return service.chain.open_market(strike_in=5 * DAY, lasts=DAY)


def funded(chain: StockChain, name: str) -> wallets.Wallet:
    """A wallet with 50 USDG and no ETH."""
    wallet = wallets.wallet(name)
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    chain.ask("anvil_setBalance", wallet.address, "0x0")
    return wallet


def environment_of(guard: int) -> str:
    """The environment of the program a guard started."""
    program = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()[0]
    return Path(f"/proc/{program}/environ").read_text()


def staked(chain: StockChain) -> int:
    """All bets together, by view calls."""
    markets = range(1, chain.read(chain.contracts.settler.call("marketCount")) + 1)
    views = (chain.read(chain.contracts.settler.call("position", each)) for m in markets for each in chain.positions(m))
    return sum(view["offered"] for view in views if not view["seed"])


# ---------------------------------------------------------------- what a market is


async def test_two_sides_a_pool_for_each_a_fee_limits_and_a_seed(door: Door, chain: StockChain) -> None:
    market = chain.open_market(strike_in=600, lasts=600, seed=10 * USDG, min_entry=2 * USDG, max_entry=40 * USDG)
    stakes = {0: 20 * USDG, 1: 30 * USDG}
    for outcome, amount in stakes.items():
        wallet = funded(chain, f"takes side {outcome}")
        bet = chain.bet(wallet, market, outcome, amount)
        response, answer = await door.post("/api/relay/enter", chain.signed(wallet, bet))
        assert (response.status, answer["receipt"]) == (200, "confirmed"), answer
        # In USDG, with 6 decimals, on the L2: it left the wallet for the contract there.
        assert chain.read(chain.contracts.token.call("balanceOf", wallet.address)) == 50 * USDG - amount
    assert chain.read(chain.contracts.token.call("decimals")) == 6
    assert chain.read(chain.contracts.settler.call("token")) == chain.contracts.token.address.lower()
    assert int(chain.ask("eth_chainId"), 16) == chain.deployment.chain_id == 4663
    chain.mine()

    body = await door.until(f"/api/markets/{market}", lambda b: [p["finalized"] for p in b["positions"]] == [True] * 4)
    shown = body["market"]
    assert [(each["side"], each["seed"], each["accepted"]) for each in body["positions"]] == [
        ("UP", True, str(10 * USDG)),
        ("DOWN", True, str(10 * USDG)),
        ("UP", False, str(20 * USDG)),
        ("DOWN", False, str(30 * USDG)),
    ]
    assert shown["pool"] == {"up": str(30 * USDG), "down": str(40 * USDG)}
    assert shown["seedPerLeg"] == str(10 * USDG)
    assert (shown["limits"]["minEntry"], shown["limits"]["maxEntry"]) == (str(2 * USDG), str(40 * USDG))
    fee = shown["limits"]["feeBps"]
    assert 0 < fee < 10_000
    poor = funded(chain, "beyond this market's own limits")
    for amount in (2 * USDG - 1, 40 * USDG + 1):
        _, answer = await door.post("/api/relay/enter", chain.signed(poor, chain.bet(poor, market, 0, amount)))
        assert answer["error"] == "amount_out_of_bounds"

    # The fee is taken in basis points of what the winner gained, and of nothing else.
    spec = chain.read(chain.contracts.resolver.call("spec", market))
    chain.warp_to(spec["strikeTime"] + 1)
    chain.push(FLAT_PRICE + 1)
    chain.warp_to(spec["finalTime"] + 1)
    chain.send(chain.contracts.resolver.call("resolve", market), STRANGER)
    body = await door.until(f"/api/markets/{market}", lambda b: b["resolution"] is not None)
    due = body["positions"][2]["settlement"]
    gained = int(due["gross"]) - 20 * USDG
    assert gained > 0
    assert int(due["fee"]) in (gained * fee // 10_000, -(-gained * fee // 10_000))
    assert int(due["net"]) == int(due["gross"]) - int(due["fee"])
    chain.push(FLAT_PRICE)


# ---------------------------------------------------------------- what the relay does, and what it cannot


async def test_a_bet_is_checked_simulated_sent_and_its_hash_returned(
    service: StockService, door: Door, chain: StockChain, market: int, database_url: str
) -> None:
    async def sends_asked_for() -> int:
        async with await psycopg.AsyncConnection.connect(conninfo(database_url)) as connection:
            found = await (await connection.execute("SELECT count(*) FROM outbox_intent")).fetchone()
            assert found is not None
            return int(found[0])

    before = await sends_asked_for()
    wallet = funded(chain, "checked and simulated")
    block = chain.block
    bet = chain.bet(wallet, market)
    good = chain.signed(wallet, bet)
    _, answer = await door.post("/api/relay/enter", good | {"outcome": 1})  # the check of the signature
    assert answer["error"] == "bad_signature"
    token, deployer = chain.contracts.token, wallets.DEPLOYER.address
    chain.send(token.call("freeze", wallet.address), deployer)
    _, answer = await door.post("/api/relay/enter", good)  # only the simulation can know of this
    assert answer["error"] == "simulation_failed"
    chain.send(token.call("unfreeze", wallet.address), deployer)
    assert chain.block == block + 2  # neither cost a transaction
    assert await sends_asked_for() == before

    response, answer = await door.post("/api/relay/enter", good)
    assert (response.status, answer["ok"], answer["receipt"]) == (200, True, "confirmed")
    assert await sends_asked_for() == before + 1
    sent = chain.ask("eth_getTransactionByHash", answer["txHash"])
    assert sent["to"].lower() == chain.contracts.settler.address.lower()
    assert sent["from"].lower() in {each.address.lower() for each in wallets.RELAY_LANES}
    function = chain.contracts.settler.abi.function("enterWithAuthorization")
    data = bytes.fromhex(sent["input"][2:])
    assert data[:4] == function.selector
    given = function.decode_inputs(data)
    assert (given["from"], given["marketId"], given["outcome"], given["amount"]) == (
        wallet.address.lower(),
        market,
        0,
        5 * USDG,
    )

    # The API had no part in signing it: its process was never given a key that moves money.
    environment = environment_of(service.running["api"].pid)
    assert "VPM_PORT=" in environment
    keys = [each.private_key for each in (*wallets.RELAY_LANES, wallets.OPENER, wallets.DEPLOYER)]
    assert not any(key.removeprefix("0x") in environment for key in keys)


async def test_whoever_sends_a_signed_bet_can_change_nothing_of_it(door: Door, chain: StockChain, market: int) -> None:
    wallet, other = funded(chain, "signs once"), funded(chain, "would like the position")
    elsewhere = chain.open_market(strike_in=5 * DAY, lasts=DAY)
    bet = chain.bet(wallet, market, 0, 5 * USDG)
    signature = bytes.fromhex(chain.signed(wallet, bet)["signature"][2:])
    relay = wallets.RELAY_LANES[2]  # not one at work here: it would lose the nonces these use
    for change in (
        {"signer": other.address},
        {"market_id": elsewhere},
        {"outcome": 1},
        {"amount": 6 * USDG},
        {"amount": 4 * USDG},
        {"valid_after": 1},
        {"valid_before": bet.valid_before + 1},
        {"salt": b"\x11" * 32},
    ):
        with pytest.raises(Reverted):
            chain.send(replace(bet, **change).call(chain.contracts.settler, signature), relay.address)
        assert chain.read(chain.contracts.token.call("balanceOf", wallet.address)) == 50 * USDG, change
    response, answer = await door.post("/api/relay/enter", chain.signed(wallet, bet))
    assert (response.status, answer["receipt"]) == (200, "confirmed")
    view = chain.read(chain.contracts.settler.call("position", int(answer["positionId"])))
    assert (view["owner"], view["marketId"], view["outcome"], view["offered"]) == (
        wallet.address.lower(),
        market,
        0,
        5 * USDG,
    )


async def test_a_bet_without_eth_is_seen_everywhere_soon_after_its_block(
    door: Door, chain: StockChain, market: int, record_property: Callable[[str, object], None]
) -> None:
    """The figure is told and only bounded from far: a busy machine is not the service's fault."""
    wallet = funded(chain, "seen everywhere")
    owner = wallet.address

    def mine(body: dict[str, Any]) -> bool:
        return any(each["owner"] == owner for each in body["positions"])

    before = await asyncio.to_thread(staked, chain)
    await door.until("/api/proof", lambda b: b["usdg"]["staked"] == str(before))
    count = (await door.get(f"/api/markets/{market}"))[1]["market"]["positions"]
    shows: dict[str, Callable[[dict[str, Any]], bool]] = {
        "/api/markets": lambda b: next(m for m in b["markets"] if m["id"] == str(market))["positions"] == count + 1,
        f"/api/markets/{market}": mine,
        f"/api/positions?owner={owner}": mine,
        "/api/proof": lambda b: b["usdg"]["staked"] == str(before + 5 * USDG),
    }
    block = chain.block

    async def mined() -> float:
        while await asyncio.to_thread(lambda: chain.block) == block:
            await asyncio.sleep(0.01)
        return time.monotonic()

    async def seen(path: str) -> float:
        await door.until(path, shows[path])
        return time.monotonic()

    watching = [asyncio.create_task(each) for each in (mined(), *(seen(path) for path in shows))]
    response, answer = await door.post("/api/relay/enter", chain.signed(wallet, chain.bet(wallet, market)))
    assert (response.status, answer["receipt"]) == (200, "confirmed"), answer
    at, *times = await asyncio.gather(*watching)
    after = {path.partition("?")[0]: round(each - at, 3) for path, each in zip(shows, times, strict=True)}
    record_property("seconds_after_the_block", after)
    print("seconds after the block:", after)
    assert max(after.values()) < 30, after


# ---------------------------------------------------------------- the drill of refunds


async def test_a_refund_drill_not_refunded_yet_is_listed_and_no_other_short_market(
    door: Door, chain: StockChain
) -> None:
    """Markets of the family `drill` are also the short ones of a local stack, which are won as any other."""

    async def told() -> Any:
        """The drill on a proof page that has what was done last."""
        settler = chain.contracts.settler
        count = chain.read(settler.call("marketCount"))
        settled = sum(chain.read(settler.call("market", each))["status"] != 1 for each in range(1, count + 1))

        def knows(body: dict[str, Any]) -> bool:
            values = {each["label"]: each["value"] for each in body["counters"]}
            return (values.get("Markets listed"), values.get("Markets settled")) == (str(count), str(settled))

        return (await door.until("/api/proof", knows))["refundDrill"]

    short = chain.open_market(strike_in=60, lasts=60, family=2)
    assert await told() is None
    chain.warp_to(chain.now + 61)
    chain.push(FLAT_PRICE + 1)
    chain.warp_to(chain.now + 61)
    chain.send(chain.contracts.resolver.call("resolve", short), STRANGER)
    assert await told() is None
    drill = chain.open_market(strike_in=60, lasts=60, family=2, max_age=1)
    chain.enter(wallets.DEV[3], drill, 1, 7 * USDG)
    listed: dict[str, Any] = {"id": str(drill), "status": "listed", "reason": None, "voidTxUrl": None, "refunds": []}
    assert await told() == listed
    chain.open_market(strike_in=60, lasts=60, family=2)
    assert await told() == listed


async def test_a_refund_drill_tells_of_stakes_that_were_refused_whole(door: Door, chain: StockChain) -> None:
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
    assert "offers, receipts and callbacks go out unsigned" in line


# ---------------------------------------------------------------- what anybody can do without us


async def test_whatever_the_keeper_does_others_can_do_without_it(door: Door, chain: StockChain) -> None:
    """Opening by any wallet the lister's owner allows, the rest by a stranger; no keeper is running here."""
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


# ---------------------------------------------------------------- limits, who bet, and the audit on the proof page


@pytest.mark.parametrize("path", ["/api/prices", "/api/markets", "/api/markets/{market}", "/api/proof"])
async def test_the_other_reads_may_be_cached_by_an_edge_and_have_no_limit(door: Door, market: int, path: str) -> None:
    for _ in range(150):
        response, _ = await door.get(path.format(market=market), ip="192.0.2.99")
        assert response.status == 200
        assert response.headers["Cache-Control"].startswith("public, max-age=")


async def test_whoever_holds_a_position_later_who_placed_it_stays_told(
    door: Door, chain: StockChain, market: int
) -> None:
    """A bettor gives a bet to the listing wallet, and that wallet gives one of its own away."""
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
    _, told = await door.get(receipt)
    assert told["position"]["id"] == str(theirs)
    assert (told["position"]["owner"], told["position"]["opener"]) == (operator.address, False)
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
    # Every market and position has several numbers of its own.
    markets = chain.read(chain.contracts.settler.call("marketCount"))
    assert audit["compared"] >= markets + sum(len(chain.positions(each)) for each in range(1, markets + 1))
    assert audit["mismatches"] == 0
