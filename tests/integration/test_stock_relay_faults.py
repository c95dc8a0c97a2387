"""The relay when sends are slow, lost, refused or impossible: what the bettor is answered, and nothing books twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from api.stock.relay import RelayBody
from core.service.cancelling import cancel_and_wait
from scripts._stack import wallets
from tests.support.bodies import hold
from tests.support.genesis import Genesis, chain
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service
from tests.waiting import PATIENCE, until

DAY = 86_400
BEYOND_FINALITY = 600
LANES = [wallet.address for wallet in wallets.RELAY_LANES[:2]]


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    """Run on a chain that mines on demand, with room for one bet at a time."""
    folder = tmp_path_factory.mktemp("stock-relay-faults")
    with chain(local_genesis, "stock", folder / "anvil.log", mine_on_demand=True) as running:
        stock = StockChain.on(running.url, running.deployment, mine_after=True)
        limits = {"VPM_RELAY_BUSY_ABOVE": "1", "VPM_RELAYER_LEASE_SECONDS": "20"}
        with stock_service(stock, database_url, local_genesis.deployments, folder, **limits) as service:
            service.start("indexer", "relayer", "api")
            yield service


@pytest.fixture(scope="module")
def market(service: StockService) -> int:
    service.chain.push(FLAT_PRICE)
    return service.chain.open_market(strike_in=3 * DAY, lasts=DAY)


def bettor(service: StockService, name: str) -> wallets.Wallet:
    wallet = wallets.wallet(name)
    service.chain.send(service.chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    return wallet


async def mine_until(service: StockService, work: asyncio.Task[Any]) -> Any:
    while not work.done():
        await asyncio.to_thread(service.chain.mine)
        await asyncio.sleep(0.2)
    return work.result()


async def test_a_slow_block_is_pending_then_confirmed(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, bettor(service, "waits for her block")
    body = chain.signed(wallet, chain.bet(wallet, market))
    started = time.monotonic()
    posting = asyncio.create_task(door.post("/api/relay/enter", body))
    await asyncio.sleep(3)

    # Until then there is no room for another bet.
    other = bettor_without_mining(service)
    response, busy = await door.post("/api/relay/enter", chain.signed(other, chain.bet(other, market)))
    assert (response.status, busy["error"]) == (503, "busy")
    assert isinstance(busy["retryAfter"], int)
    assert response.headers["Retry-After"] == str(busy["retryAfter"])

    response, pending = await posting
    assert 9 <= time.monotonic() - started <= 14
    assert (response.status, pending["ok"], pending["receipt"]) == (200, True, "pending")
    hold(RelayBody, pending)
    assert pending["positionId"] is None

    again = asyncio.create_task(door.post("/api/relay/enter", body))
    response, confirmed = await mine_until(service, again)
    assert (response.status, confirmed["receipt"]) == (200, "confirmed"), confirmed
    assert confirmed["txHash"] == pending["txHash"]
    assert len(chain.positions(market)) == 2 + 1


async def test_a_bettor_who_lost_the_connection_gets_the_answer_on_retry(
    service: StockService, door: Door, market: int
) -> None:
    """Her connection drops while the relay waits for the block. No answer arrived, so her bet is not "used" yet."""
    chain, wallet = service.chain, bettor(service, "cut off")
    body = chain.signed(wallet, chain.bet(wallet, market))
    before = confirmations(service)
    async with aiohttp.ClientSession() as session:
        posting = asyncio.create_task(Door(session, service.url).post("/api/relay/enter", body))
        await asyncio.sleep(2)
        await cancel_and_wait(posting)
    deadline = time.monotonic() + PATIENCE
    while confirmations(service) == before:  # the relay has seen its block, and answers no one
        assert time.monotonic() < deadline
        await asyncio.to_thread(chain.mine)
        await asyncio.sleep(0.2)
    await asyncio.sleep(1)  # and what it does afterwards is done

    response, confirmed = await door.post("/api/relay/enter", body)
    assert (response.status, confirmed["receipt"]) == (200, "confirmed"), confirmed
    position = chain.read(chain.contracts.settler.call("position", int(confirmed["positionId"])))
    assert position["owner"] == wallet.address.lower()
    response, booked = await door.post("/api/relay/enter", body)
    assert (response.status, booked["error"], booked["receipt"]) == (409, "already_used", "confirmed")


def confirmations(service: StockService) -> float:
    lines = service.metrics("api").splitlines()
    return sum(float(each.split()[-1]) for each in lines if 'vpm_stock_relay_answers_total{answer="confirmed"' in each)


def bettor_without_mining(service: StockService) -> wallets.Wallet:
    return wallets.DEV[7]


async def test_a_bet_mined_after_the_bell_is_reverted(service: StockService, door: Door) -> None:
    chain, wallet = service.chain, bettor(service, "a second too late")
    short = chain.open_market(strike_in=600, lasts=600)
    body = chain.signed(wallet, chain.bet(wallet, short, valid_before=chain.now + 3500))
    posting = asyncio.create_task(door.post("/api/relay/enter", body))
    await asyncio.to_thread(chain.until_sent)
    spec = chain.read(chain.contracts.resolver.call("spec", short))
    chain.warp_to(spec["finalTime"] + 1)
    response, answer = await mine_until(service, posting)
    assert (response.status, answer["ok"], answer["receipt"]) == (200, False, "reverted"), answer
    hold(RelayBody, answer)
    assert chain.ask("eth_getTransactionReceipt", answer["txHash"])["status"] == "0x0"
    # The same body is judged afresh, and what it is refused with is not for good either: it was signed.
    assert answer["final"] is False
    nonce = answer["nonce"]
    response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer["error"], answer["final"]) == (409, "market_closed", False), answer
    assert "it may still be taken" in answer["message"]
    block, receipt = chain.block, f"/api/relay/receipt?from={wallet.address}&nonce={nonce}"
    chain.mine(BEYOND_FINALITY)
    await door.until(receipt, lambda body: int(body["finalBlock"]) >= block)
    response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer["error"]) == (409, "market_closed")
    assert "final" not in answer


async def test_a_reverted_bet_may_be_taken_after_its_block_is_undone(service: StockService, door: Door) -> None:
    """The chain replaces a block after the bell by one before it: the bet is signed, and it is taken."""
    chain, wallet = service.chain, bettor(service, "late, and then not")
    short = chain.open_market(strike_in=600, lasts=600)
    body = chain.signed(wallet, chain.bet(wallet, short, valid_before=chain.now + 3500))
    bell = chain.read(chain.contracts.resolver.call("spec", short))["finalTime"]
    before = chain.block
    posting = asyncio.create_task(door.post("/api/relay/enter", body))
    await asyncio.to_thread(chain.until_sent)
    chain.ask("evm_setNextBlockTimestamp", hex(bell + 1))
    chain.ask("evm_mine")
    response, refused = await posting
    assert (response.status, refused["receipt"], refused["final"]) == (200, "reverted", False), refused

    chain.ask("anvil_rollback", chain.block - before)
    chain.ask("evm_setNextBlockTimestamp", hex(bell - 60))
    chain.ask("evm_mine")
    await asyncio.to_thread(chain.until_sent)
    chain.ask("evm_setNextBlockTimestamp", hex(bell - 30))
    chain.ask("evm_mine")
    assert len(chain.positions(short)) == 2 + 1
    deadline = time.monotonic() + PATIENCE
    while True:
        asked = f"/api/relay/receipt?from={wallet.address}&nonce={refused['nonce']}"
        _, receipt = await door.get(asked)
        if receipt["receipt"] == "confirmed":
            break
        assert time.monotonic() < deadline, receipt
        await asyncio.sleep(1)
    assert receipt["txHash"] == refused["txHash"]


async def test_a_bet_that_a_stranger_sent_first_is_confirmed(service: StockService, door: Door, market: int) -> None:
    """A stranger copies the call out of the pool and pays more: ours reverts, and the bet is on the chain."""
    chain, wallet = service.chain, bettor(service, "copied from the pool")
    bet = chain.bet(wallet, market)
    body = chain.signed(wallet, bet)
    posting = asyncio.create_task(door.post("/api/relay/enter", body))
    await asyncio.to_thread(chain.until_sent)
    call = bet.call(chain.contracts.settler, bytes.fromhex(body["signature"][2:]))
    fees = {"maxFeePerGas": hex(400 * 10**9), "maxPriorityFeePerGas": hex(300 * 10**9), "gas": hex(900_000)}
    chain.ask("anvil_impersonateAccount", wallets.DEV[5].address)
    copied = chain.ask("eth_sendTransaction", {**call.parameters(), "from": wallets.DEV[5].address, **fees})
    response, answer = await mine_until(service, posting)
    assert chain.ask("eth_getTransactionReceipt", copied)["status"] == "0x1"
    assert (response.status, answer.get("receipt")) == (200, "confirmed"), answer
    assert answer["txHash"] == copied
    assert answer["positionId"] is not None


async def test_a_relayer_killed_while_sending(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, bettor(service, "trusts the retry")
    bet = chain.bet(wallet, market)
    body = chain.signed(wallet, bet)
    service.kill("relayer")
    response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer["error"]) == (502, "relay_failed"), answer
    assert "may have been placed" in answer["message"]
    assert answer["escapeKit"]["to"] == chain.contracts.settler.address
    await asyncio.to_thread(service.start, "relayer")

    async def confirmed() -> dict[str, Any] | None:
        _, answer = await door.post("/api/relay/enter", body)
        assert answer.get("error") in (None, "relay_failed"), answer
        return dict(answer) if answer.get("receipt") == "confirmed" else None

    answer = await mine_until(service, asyncio.create_task(until(confirmed, "the confirmation")))
    owners = [chain.read(chain.contracts.settler.call("position", each))["owner"] for each in chain.positions(market)]
    assert owners.count(wallet.address.lower()) == 1
    assert answer["nonce"] == "0x" + bet.nonce.hex()


async def failing_checks(door: Door, wanted: str) -> set[str]:
    failing: set[str] = set()

    async def is_among() -> bool:
        nonlocal failing
        response, health = await door.get("/api/health")
        failing = {check["name"] for check in health["checks"] if not check["ok"]}
        assert wanted not in failing or (response.status, health["ok"]) == (503, False)
        return wanted in failing

    await until(is_among, lambda: f"{wanted} among {failing}", pause=0.2)
    return failing


@pytest.mark.thorough
async def test_lanes_without_gas_leave_the_escape_kit(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, bettor(service, "sends it on her own")
    for lane in LANES:
        chain.ask("anvil_setBalance", lane, "0x0")
    chain.mine()
    try:
        failing = await failing_checks(door, "relayer")
        assert {"relayer", "keeper-eth"} <= failing
        body = chain.signed(wallet, chain.bet(wallet, market))
        response, answer = await door.post("/api/relay/enter", body)
        assert (response.status, answer["error"]) == (503, "relay_unavailable"), answer
        assert "yourself" in answer["message"]
    finally:
        for lane in LANES:
            chain.ask("anvil_setBalance", lane, hex(10**21))
    kit = answer["escapeKit"]
    before = len(chain.positions(market))
    chain.ask("anvil_impersonateAccount", wallets.DEV[5].address)
    sent = {"from": wallets.DEV[5].address, "to": kit["to"], "data": kit["data"], "gas": hex(1_000_000)}
    transaction = chain.ask("eth_sendTransaction", sent)
    chain.mine()
    chain.receipt(transaction)
    assert len(chain.positions(market)) == before + 1
    response, answer = await mine_until(service, asyncio.create_task(door.post("/api/relay/enter", body)))
    assert answer.get("txHash") in (transaction, None), answer


async def test_without_a_relayer_the_relay_says_so(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, bettor(service, "meets a closed counter")
    service.stop("relayer")
    body = chain.signed(wallet, chain.bet(wallet, market))
    response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer["error"]) == (503, "relay_unavailable"), answer
    assert answer["escapeKit"]["data"].startswith("0x")
    assert "relayer" in await failing_checks(door, "relayer")
