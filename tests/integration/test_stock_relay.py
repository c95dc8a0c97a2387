"""Signed bets through the public API, on a real chain with a real indexer and relayer."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from eth_account import Account
from eth_account.messages import encode_typed_data

from api.limits import RateLimits
from api.stock import bets
from api.stock.bets import StockBet
from api.stock.index import StockIndex
from api.stock.quoting import TypedDataBody
from api.stock.receipt import ReceiptBody, bet_receipt
from api.stock.relay import RelayBody
from core.chain import ChainClient, ChainProvider
from core.config import Settings, load
from core.db.engine import make_engine
from core.service.cancelling import cancel_and_wait
from scripts._stack import wallets
from tests.support import questions
from tests.support.bodies import hold
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain, body_of
from tests.support.stock_service import StockService
from tests.waiting import until

DAY = 86_400


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    stock_venue.start("indexer", "relayer", "api")
    return stock_venue


async def test_a_wallet_without_eth_bets_through_the_relay(service: StockService, door: Door) -> None:
    chain, wallet = service.chain, wallets.DEV[0]
    market = chain.open_market()
    chain.ask("anvil_setBalance", wallet.address, "0x0")
    bet = chain.bet(wallet, market, amount=5 * USDG)
    response, body = await door.post("/api/relay/enter", chain.signed(wallet, bet))
    assert response.status == 200, body
    hold(RelayBody, body)
    assert body["ok"] is True
    assert body["receipt"] == "confirmed"
    assert body["nonce"] == "0x" + bet.nonce.hex()
    assert chain.ask("eth_getTransactionReceipt", body["txHash"])["status"] == "0x1"
    position = chain.read(chain.contracts.settler.call("position", int(body["positionId"])))
    assert position["owner"].lower() == wallet.address.lower()
    assert position["offered"] == 5 * USDG


async def test_a_receipt_goes_from_pending_to_confirmed_to_final(service: StockService, door: Door) -> None:
    """The same for a bet that its wallet sent itself; an unknown nonce is not pending for ever."""
    chain, wallet = service.chain, wallets.DEV[0]
    market = chain.open_market()
    bet = chain.bet(wallet, market, amount=5 * USDG)
    where = f"/api/relay/receipt?from={wallet.address}&nonce=0x{bet.nonce.hex()}"
    response, body = await door.get(where)
    assert response.status == 200, body
    assert response.headers["Cache-Control"] == "no-store"
    assert (body["receipt"], body["txHash"], body["blockNumber"], body["position"]) == ("pending", None, None, None)
    signed = chain.signed(wallet, bet)
    _, sent = await door.post("/api/relay/enter", signed)
    chain.mine()  # its batch ends
    body = await door.until(where, lambda b: b["position"] is not None and b["position"]["accepted"] is not None)
    hold(ReceiptBody, body)
    assert (body["receipt"], body["txHash"], body["blockNumber"]) == ("confirmed", sent["txHash"], sent["blockNumber"])
    assert (body["position"]["id"], body["position"]["accepted"]) == (sent["positionId"], str(5 * USDG))
    chain.mine(600)
    body = await door.until(where, lambda b: b["receipt"] == "final")
    assert int(body["finalBlock"]) >= int(body["blockNumber"])
    assert (body["txHash"], body["position"]["id"]) == (sent["txHash"], sent["positionId"])
    _, body = await door.get(f"/api/relay/receipt?from={wallets.DEV[1].address}&nonce=0x{bet.nonce.hex()}")
    assert body["receipt"] == "pending", "a nonce is its signer's"
    response, body = await door.get(f"/api/relay/receipt?from={wallet.address}&nonce=0x12")
    assert (response.status, body["error"]) == (400, "invalid_request")


async def test_a_receipt_is_of_one_block_even_if_the_markets_in_memory_lag(service: StockService, door: Door) -> None:
    """Otherwise a matched batch is shown as unmatched, or as matched with a market that lacks a part of it."""
    chain, wallet, url = service.chain, wallets.DEV[0], service.env["DATABASE_URL"]
    chain_id, market = chain.deployment.chain_id, chain.open_market()
    await door.until(f"/api/markets/{market}", lambda b: b["market"]["phase"] == "opens")
    engine, limits = make_engine(url), RateLimits("memory://")
    settings = load(Settings, service.env)
    context: Any = SimpleNamespace(settings=settings, engine=engine, limits=limits)
    index = StockIndex(url, engine, chain_id)
    sources: Any = SimpleNamespace(deployment=chain.deployment, contracts=chain.contracts, index=index)
    await index.refresh()  # and it is not refreshed after this
    bet = chain.bet(wallet, market, amount=5 * USDG)
    where = f"/api/relay/receipt?from={wallet.address}&nonce=0x{bet.nonce.hex()}"
    await door.post("/api/relay/enter", chain.signed(wallet, bet))
    chain.mine()
    shown = await door.until(where, lambda b: b["position"] is not None and b["position"]["accepted"] is not None)
    try:
        answer = await bet_receipt(context, sources, make_mocked_request("GET", where))
        assert isinstance(answer, web.Response)
        body = json.loads(bytes(answer.body))
    finally:
        await engine.dispose()
    assert body["position"]["accepted"] == str(5 * USDG)
    assert body == {**shown, "readAt": body["readAt"]}


def rows(service: StockService, query: str, *values: object) -> list[tuple[Any, ...]]:
    return questions.rows(service.env["DATABASE_URL"], query, *values)


# ---------------------------------------------------------------- refusals, in the order of the checks


@pytest.fixture(scope="module")
def market(service: StockService) -> int:
    return service.chain.open_market(strike_in=3 * DAY, lasts=DAY)


async def refused(door: Door, body: object, status: int, code: str, *words: str, **how: Any) -> dict[str, Any]:
    response, answer = await door.post("/api/relay/enter", body, **how)
    assert (response.status, answer.get("error")) == (status, code), answer
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Request-Id"]
    for word in words:
        assert word in answer["message"], answer["message"]
    return dict(answer)


async def test_a_bet_on_a_full_side_is_refused_before_it_costs_gas(service: StockService, door: Door) -> None:
    """Sent, it would be booked and given back whole, and both at our expense, again and again with the same money."""
    chain, wallet = service.chain, wallets.DEV[5]
    market = chain.open_market(seed=USDG)
    room, other = chain.read(chain.contracts.settler.call("headroom", market))
    chain.enter(wallets.DEV[6], market, 0, room - USDG // 2)
    chain.mine()
    answer = await refused(door, chain.signed(wallet, chain.bet(wallet, market)), 400, "amount_out_of_bounds", "UP")
    assert answer["headroom"] == str(USDG // 2)
    assert rows(service, "SELECT count(*) FROM relay_bet WHERE market_id = %s", market) == [(0,)]
    response, body = await door.post("/api/relay/enter", chain.signed(wallet, chain.bet(wallet, market, outcome=1)))
    assert (response.status, body["receipt"]) == (200, "confirmed"), body
    assert other > 0


async def test_a_cancelled_authorization_needs_no_log_query_and_raises_no_alarm(
    service: StockService, door: Door, market: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index holds the cancellation, however long ago it was. Looked for in the logs of the last hours it was not
    found, and each call counted as a bet that we could not send."""
    chain, wallet = service.chain, wallets.DEV[7]
    bet = chain.bet(wallet, market)
    cancel(chain, wallet, bet)
    sql = "SELECT count(*) FROM token_authorization WHERE nonce = %s AND state = 'canceled'"
    await until(lambda: rows(service, sql, bet.nonce) == [(1,)])
    chain.mine(20)
    await refused(door, chain.signed(wallet, bet), 409, "already_used", "cancelled")
    monkeypatch.setattr(bets, "_MAX_SEARCH_BLOCKS", 10)
    async with ChainProvider((chain.url,), chain_id=chain.deployment.chain_id) as node:
        engine, client = make_engine(service.env["DATABASE_URL"], pool_size=1), ChainClient(node)
        monkeypatch.setattr(client, "logs", lambda *_: pytest.fail("a log was asked for"))
        found = await bets.find_landing(engine, client, chain.contracts, bet, 5.0, seen=chain.block, spent=True)
        await engine.dispose()
    assert found is None


async def test_a_wallet_whose_bets_are_returned_is_refused_after_a_few(service: StockService, door: Door) -> None:
    """In one block many bets share what room there is: all but a crumb of each comes back, at our expense."""
    chain, wallet = service.chain, wallets.DEV[4]
    wallet_bytes = bytes.fromhex(wallet.address[2:])
    market = chain.open_market(seed=USDG)
    response, body = await door.post("/api/relay/enter", chain.signed(wallet, chain.bet(wallet, market, outcome=1)))
    assert response.status == 200, body
    room, _ = chain.read(chain.contracts.settler.call("headroom", market))
    chain.enter(wallets.DEV[6], market, 0, min(100 * USDG, room - USDG))
    while (room := chain.read(chain.contracts.settler.call("headroom", market))[0]) > USDG:
        chain.enter(wallets.DEV[6], market, 0, min(100 * USDG, room - USDG))
    chain.ask("evm_setAutomine", False)
    try:
        bets = [chain.signed(wallet, chain.bet(wallet, market, amount=20 * USDG)) for _ in range(6)]
        sent = [asyncio.create_task(door.post("/api/relay/enter", each)) for each in bets]
        sql = "SELECT count(*) FROM outbox_intent i JOIN relay_bet b ON b.intent_id = i.id WHERE i.state = 'sent'"
        await until(lambda: rows(service, sql) == [(6,)])
        chain.mine()
        answers = await asyncio.gather(*sent)
    finally:
        chain.ask("evm_setAutomine", True)
    assert [response.status for response, _ in answers] == [200] * 6
    chain.mine()
    chain.send(chain.contracts.settler.call("finalizeVintage", market), wallets.DEV[6].address)
    elsewhere = chain.signed(wallet, chain.bet(wallet, chain.open_market()))
    sql = "SELECT count(*) FROM stock_vintage WHERE market_id = %s AND accepted_up < offered_up"
    await until(lambda: rows(service, sql, market) == [(1,)])
    answer = await refused(door, elsewhere, 429, "rate_limited", "refunded almost entirely")
    assert answer["escapeKit"]["data"].startswith("0x")
    # Who gives them away placed them still.
    for (position,) in rows(service, "SELECT position_id FROM stock_position WHERE owner = %s", wallet_bytes):
        give = chain.contracts.settler.call("transferPosition", position, wallets.DEV[6].address)
        chain.send(give, wallet.address)
    await until(lambda: rows(service, "SELECT 1 FROM stock_position WHERE owner = %s", wallet_bytes) == [])
    await refused(door, elsewhere, 429, "rate_limited", "refunded almost entirely")


async def test_pending_bets_reserve_the_wallets_funds(service: StockService, door: Door) -> None:
    """A wallet whose bets were true so far has one dollar left, and signs eight bets over it within one block's time:
    seven would be mined and revert, at our expense."""
    chain, wallet = service.chain, wallets.wallet("eight bets over one dollar")
    mint = chain.contracts.token.call("mint", wallet.address, USDG)
    chain.send(mint, wallets.DEPLOYER.address)
    market = chain.open_market()
    bodies = [chain.signed(wallet, chain.bet(wallet, market, amount=USDG)) for _ in range(9)]
    response, body = await door.post("/api/relay/enter", bodies.pop())
    assert (response.status, body["receipt"]) == (200, "confirmed"), body
    chain.send(mint, wallets.DEPLOYER.address)
    payer = bytes.fromhex(wallet.address[2:])
    counted = "SELECT count(*) FROM outbox_intent WHERE payer = %s AND (state = %s OR outcome = %s)"
    with chain.held():
        posted = [asyncio.create_task(door.post("/api/relay/enter", each)) for each in bodies]
        await until(
            lambda: rows(service, counted, payer, "sent", "") == [(len(posted) - sum(each.done() for each in posted),)]
        )
        chain.mine()
        answers = await asyncio.gather(*posted)
    assert rows(service, counted, payer, "", "reverted") == [(0,)]
    refused_ones = [each for each, (response, _) in zip(bodies, answers, strict=True) if response.status != 200]
    assert len(refused_ones) == len(bodies) - 1
    for response, answer in answers:
        if response.status != 200:
            assert (response.status, answer["error"]) == (429, "rate_limited"), answer
            assert "pending bets need" in answer["message"]
            assert int(response.headers["Retry-After"]) <= 10
            assert answer["escapeKit"]["data"].startswith("0x")
    chain.send(mint, wallets.DEPLOYER.address)
    response, body = await door.post("/api/relay/enter", refused_ones[0])
    assert (response.status, body["receipt"]) == (200, "confirmed"), body


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"from": None}, "from"),
        ({"from": "0x1234"}, "from"),
        ({"marketId": 1}, "marketId"),
        ({"marketId": "01"}, "marketId"),
        ({"marketId": str(2**256)}, "marketId"),
        ({"outcome": 2}, "outcome"),
        ({"outcome": "0"}, "outcome"),
        ({"amount": 5000000}, "amount"),
        ({"amount": "5.0"}, "amount"),
        ({"amount": "-1"}, "amount"),
        ({"amount": str(2**256)}, "amount"),
        ({"validAfter": "soon"}, "validAfter"),
        ({"validBefore": ""}, "validBefore"),
        ({"salt": "0x12"}, "salt"),
        ({"signature": "0xzz"}, "signature"),
        ({"chainId": "4663"}, "chainId"),
        ({"serviceVpm": "here"}, "serviceVpm"),
    ],
)
async def test_a_malformed_field_is_named(
    service: StockService, door: Door, market: int, change: dict[str, Any], field: str
) -> None:
    body = service.chain.signed(wallets.DEV[1], service.chain.bet(wallets.DEV[1], market))
    body |= change
    if change.get("from", 0) is None:
        del body["from"]
    answer = await refused(door, body, 400, "invalid_request", field)
    assert answer["details"][0]["field"] == field


@pytest.mark.parametrize("body", [[], "bet", 7, False])
async def test_a_body_that_is_no_object_is_refused(service: StockService, door: Door, body: object) -> None:
    await refused(door, body, 400, "invalid_request", "JSON object")


async def test_amounts_out_of_bounds(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.DEV[1]
    for amount in (0, USDG - 1, 100 * USDG + 1, 2**255):
        body = chain.signed(wallet, chain.bet(wallet, market, amount=amount))
        await refused(door, body, 400, "amount_out_of_bounds", "from 1 to 100 USDG")
    tight = chain.open_market(strike_in=3 * DAY, min_entry=5 * USDG, max_entry=20 * USDG)
    for amount in (4 * USDG, 21 * USDG):
        body = chain.signed(wallet, chain.bet(wallet, tight, amount=amount))
        await refused(door, body, 400, "amount_out_of_bounds", "from 5 to 20 USDG")


async def test_a_side_that_one_bettor_filled_leaves_the_other_open(service: StockService, door: Door) -> None:
    """COIN takes 1,000 USDG a side; filling UP closes only UP, and DOWN's quote says what that means."""
    chain, filler, other = service.chain, wallets.DEV[6], wallets.DEV[1]
    market = chain.open_market(ticker="COIN", strike_in=3 * DAY, max_entry=5_000 * USDG)
    for outcome, amount in ((0, 90), (1, 200), (0, 5_000)):
        chain.enter(filler, market, outcome, amount * USDG)
        chain.mine()
    # The last bet is in the pool once the block after its own is indexed.
    filled = str(1_000 * USDG)
    body = await door.until(f"/api/markets/{market}", lambda b: b.get("market", {}).get("pool", {}).get("up") == filled)
    assert body["headroom"] == {"up": "0", "down": str(790 * USDG)}
    assert body["market"]["limits"]["sideCap"] == filled
    assert [book["capacity"] for book in body["books"]] == [str(1_000 * USDG)] * 2
    quotes = {(each["side"], int(each["amount"]) // USDG): each for each in body["market"]["quotes"]["bets"]}
    assert set(quotes) == {(side, stake) for side in ("UP", "DOWN") for stake in (1, 10, 100)}
    assert quotes["UP", 10]["breakEvenPct"] is None
    assert (quotes["DOWN", 10]["breakEvenPct"], quotes["DOWN", 10]["likelyPayout"]) == (100, str(10 * USDG))

    full = chain.signed(other, chain.bet(other, market, outcome=0))
    await refused(door, full, 400, "amount_out_of_bounds", "")
    response, answer = await door.post("/api/relay/enter", chain.signed(other, chain.bet(other, market, outcome=1)))
    assert (response.status, answer["receipt"]) == (200, "confirmed"), answer
    chain.mine()
    accepted = chain.read(chain.contracts.settler.call("position", int(answer["positionId"])))["accepted"]
    assert accepted == 5 * USDG


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ({"valid_before": 25}, "less than 30 s ahead"),
        ({"valid_before": -5}, "less than 30 s ahead"),
        ({"valid_before": 3700}, "more than an hour"),
        ({"valid_after": 60}, "valid only after"),
    ],
)
async def test_windows_too_short_too_long_or_ahead(
    service: StockService, door: Door, market: int, window: dict[str, int], says: str
) -> None:
    chain, wallet = service.chain, wallets.DEV[1]
    now = max(chain.now, int(time.time()))
    bet = chain.bet(wallet, market, **{name: now + ahead for name, ahead in window.items()})
    await refused(door, chain.signed(wallet, bet), 400, "expired", says)


async def test_a_market_that_was_never_listed(service: StockService, door: Door) -> None:
    for market_id in (0, 999_999, 9_999_999_999_999_999_999, 2**256 - 1):
        bet = service.chain.bet(wallets.DEV[1], market_id)
        await refused(door, service.chain.signed(wallets.DEV[1], bet), 404, "market_not_found", "ever listed")


async def test_a_contract_signer_gets_the_call_to_send_itself(service: StockService, door: Door, market: int) -> None:
    chain, safe = service.chain, service.chain.deployment.safe
    assert safe is not None
    bet = chain.bet(wallets.DEV[1], market, signer=safe.address)
    body = body_of(bet, b"\x01" * 65)
    answer = await refused(door, body, 400, "contract_signer", "smart contract", "yourself")
    sent = chain.contracts.settler.abi.function("enterWithAuthorization")
    data = bytes.fromhex(answer["escapeKit"]["data"][2:])
    assert data[:4] == sent.selector
    assert sent.decode_inputs(data)["from"] == safe.address.lower()
    assert sent.decode_inputs(data)["signature"] == b"\x01" * 65


async def test_signatures_that_do_not_match(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.DEV[1]
    bet = chain.bet(wallet, market)
    good = chain.signed(wallet, bet)
    wrong = [
        {"outcome": 1},
        {"amount": str(6 * USDG)},
        {"validBefore": str(bet.valid_before - 1)},
        {"salt": "0x" + "11" * 32},
        {"from": wallets.DEV[2].address},
        {"signature": "0x" + "11" * 65},
        {"signature": good["signature"][:-2]},
        {"signature": high_s(good["signature"])},
    ]
    for change in wrong:
        await refused(door, good | change, 400, "bad_signature", "does not match this wallet")
    await refused(door, good | {"chainId": 1}, 400, "bad_signature", "chain 4663", "chain 1")
    await refused(door, good | {"serviceVpm": wallets.DEV[2].address}, 400, "bad_signature", "another contract")
    elsewhere = chain.signed(wallet, replace(bet, chain_id=1))
    await refused(door, elsewhere, 400, "bad_signature")
    other = chain.deployment.token("USDG").model_copy(update={"domain_version": "2"})
    signed = Account.unsafe_sign_hash(bet.digest(other), wallet.private_key)
    await refused(door, body_of(bet, bytes(signed.signature)), 400, "bad_signature", "version 1")


async def test_too_little_usdg(service: StockService, door: Door, market: int) -> None:
    poor = wallets.wallet("a wallet without USDG")
    body = service.chain.signed(poor, service.chain.bet(poor, market))
    await refused(door, body, 422, "insufficient_balance", "holds 0 USDG", "the bet is 5")


async def test_a_bet_the_token_refuses(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.DEV[6]
    chain.send(chain.contracts.token.call("freeze", wallet.address), wallets.DEPLOYER.address)
    try:
        body = chain.signed(wallet, chain.bet(wallet, market))
        await refused(door, body, 422, "simulation_failed", "account frozen", wallet.address.lower())
    finally:
        chain.send(chain.contracts.token.call("unfreeze", wallet.address), wallets.DEPLOYER.address)


async def test_markets_that_take_no_bets(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.DEV[1]
    chain.pause()
    try:
        body = chain.signed(wallet, chain.bet(wallet, market))
        await refused(door, body, 409, "market_closed", "paused")
        listed = await door.until("/api/markets", lambda b: b["entriesPaused"])
        assert {each["acceptingBets"] for each in listed["markets"]} == {False}
    finally:
        chain.resume()
    short = chain.open_market(strike_in=60, lasts=60)
    chain.push(FLAT_PRICE)
    chain.warp_to(chain.now + 121)
    body = chain.signed(wallet, chain.bet(wallet, short))
    await refused(door, body, 409, "market_closed", "past its bell")
    chain.send(chain.contracts.resolver.call("resolve", short), wallets.DEV[5].address)
    body = chain.signed(wallet, chain.bet(wallet, short))
    await refused(door, body, 409, "market_closed", "settled")


async def test_blocked_regions(service: StockService, door: Door, market: int) -> None:
    body = service.chain.signed(wallets.DEV[1], service.chain.bet(wallets.DEV[1], market, amount=1))
    for region in ("US", "ca", "GB", "CH"):
        await refused(door, body, 403, "region_blocked", "not offered", headers={"CF-IPCountry": region})
    await refused(door, body, 400, "amount_out_of_bounds", headers={"CF-IPCountry": "DE"})
    await refused(door, {}, 403, "region_blocked", headers={"CF-IPCountry": "US"})


async def test_the_outcome_of_a_bet_is_shown_in_every_region(service: StockService, door: Door, market: int) -> None:
    wallet = wallets.DEV[1]
    body = service.chain.signed(wallet, service.chain.bet(wallet, market))
    async with aiohttp.ClientSession() as session:
        with service.chain.held():
            posting = asyncio.create_task(Door(session, service.url).post("/api/relay/enter", body))
            await asyncio.to_thread(service.chain.until_sent)
            await cancel_and_wait(posting)
    elsewhere = {"CF-IPCountry": "US"}
    response, answer = await door.post("/api/relay/enter", body, headers=elsewhere)
    assert (response.status, answer["receipt"]) == (200, "confirmed"), answer
    other = service.chain.signed(wallet, service.chain.bet(wallet, market))
    await refused(door, other, 403, "region_blocked", headers=elsewhere)


async def test_eleven_requests_a_minute_from_one_address(door: Door) -> None:
    for _ in range(10):
        await refused(door, {}, 400, "invalid_request", ip="192.0.2.7")
    answer = await refused(door, {}, 429, "rate_limited", "10 requests a minute", ip="192.0.2.7")
    assert 1 <= answer["retryAfter"] <= 60
    await refused(door, {}, 400, "invalid_request", ip="192.0.2.8")


async def test_eleven_bets_a_minute_from_one_signer(service: StockService, door: Door, market: int) -> None:
    chain, poor = service.chain, wallets.wallet("an eager wallet without USDG")
    stranger = chain.signed(poor, chain.bet(poor, market)) | {"outcome": 1}
    for _ in range(12):  # not signed by the wallet, so not its requests
        await refused(door, stranger, 400, "bad_signature")
    for _ in range(10):
        await refused(door, chain.signed(poor, chain.bet(poor, market)), 422, "insufficient_balance")
    await refused(door, chain.signed(poor, chain.bet(poor, market)), 429, "rate_limited", "10 requests a minute")


async def test_of_two_faults_the_earlier_check_is_reported(service: StockService, door: Door, market: int) -> None:
    """Each step of the ladder has the faults of all that follow it; the last have what cannot be had together alone."""
    chain, wallet = service.chain, wallets.wallet("a wallet without USDG")
    safe = chain.deployment.safe
    assert safe is not None
    short = chain.open_market(strike_in=60, lasts=60)
    chain.push(FLAT_PRICE)
    chain.warp_to(chain.now + 121)
    now = max(chain.now, int(time.time()))
    bad = {"signature": "0x" + "11" * 65}
    late = now + 10
    nowhere = 999_999
    ladder = [
        ("invalid_request", {"amount": 0, "valid_before": late, "market_id": nowhere}, {"outcome": 7}),
        ("amount_out_of_bounds", {"amount": 1, "valid_before": late, "market_id": nowhere}, bad),
        ("expired", {"valid_before": late, "market_id": nowhere}, bad),
        ("market_not_found", {"market_id": nowhere}, bad | {"from": safe.address}),
        ("market_closed", {"market_id": short}, bad | {"from": safe.address}),
        ("contract_signer", {}, bad | {"from": safe.address}),
        ("bad_signature", {}, bad),
        ("insufficient_balance", {}, {}),
    ]
    for code, terms, change in ladder:
        body = chain.signed(wallet, chain.bet(wallet, **{"market_id": market, **terms})) | change
        _, answer = await door.post("/api/relay/enter", body)
        assert answer["error"] == code
    # A used signature of a wallet that has nothing, and the same bet badly signed.
    cancelled = chain.bet(wallet, market)
    cancel(chain, wallet, cancelled)
    body = chain.signed(wallet, cancelled)
    _, answer = await door.post("/api/relay/enter", body)
    assert answer["error"] == "already_used"
    _, answer = await door.post("/api/relay/enter", body | bad)
    assert answer["error"] == "bad_signature"
    # The token refuses a frozen wallet, which only the simulation shows: it comes after the balance.
    chain.send(chain.contracts.token.call("freeze", wallet.address), wallets.DEPLOYER.address)
    try:
        _, answer = await door.post("/api/relay/enter", chain.signed(wallet, chain.bet(wallet, market)))
        assert answer["error"] == "insufficient_balance"
    finally:
        chain.send(chain.contracts.token.call("unfreeze", wallet.address), wallets.DEPLOYER.address)
    # The rate is looked at before the shape.
    for _ in range(10):
        await door.post("/api/relay/enter", {}, ip="192.0.2.77")
    _, answer = await door.post("/api/relay/enter", {}, ip="192.0.2.77")
    assert answer["error"] == "rate_limited"


def cancel(chain: StockChain, wallet: wallets.Wallet, bet: StockBet) -> None:
    types = {"CancelAuthorization": [{"name": "authorizer", "type": "address"}, {"name": "nonce", "type": "bytes32"}]}
    domain = bet.typed_data(chain.deployment.token("USDG"))["domain"]
    message = {"authorizer": wallet.address, "nonce": bet.nonce}
    signature = bytes(Account.sign_typed_data(wallet.private_key, domain, types, message).signature)
    name = "cancelAuthorization(address,bytes32,bytes)"
    chain.send(chain.contracts.token.call(name, wallet.address, bet.nonce, signature), wallets.DEV[5].address)


# ---------------------------------------------------------------- once, though sent again


def entries_of(service: StockService, bet: StockBet) -> int:
    chain = service.chain
    views = (chain.read(chain.contracts.settler.call("position", each)) for each in chain.positions(bet.market_id))
    return sum(view["owner"] == bet.signer.lower() for view in views)


async def test_a_confirmed_bet_is_already_used(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.wallet("one bet only")
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    bet = chain.bet(wallet, market)
    body = chain.signed(wallet, bet)
    bare = body | {"salt": body["salt"][2:], "signature": body["signature"][2:]}
    response, first = await door.post("/api/relay/enter", bare)
    assert (response.status, first["receipt"]) == (200, "confirmed")
    booked = f"already booked as position {first['positionId']} in transaction {first['txHash']}"
    again = await refused(door, body, 409, "already_used", booked, "send nothing more")
    assert (again["txHash"], again["positionId"]) == (first["txHash"], first["positionId"])
    assert again["receipt"] == "confirmed"
    # Another window with the same nonce is another signature, of the same bet.
    other = chain.signed(wallet, replace(bet, valid_before=bet.valid_before + 60))
    another = await refused(door, other, 409, "already_used", booked)
    assert another["receipt"] == "confirmed", "its nonce is of this market, side and amount"
    assert entries_of(service, bet) == 1


async def test_the_same_body_many_times_at_once_books_once(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.wallet("impatient")
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    bet = chain.bet(wallet, market)
    # Signed for another time, with the nonce that says what it is, it is the same bet.
    bodies = [chain.signed(wallet, replace(bet, valid_before=bet.valid_before + later)) for later in (0, 60)]
    answers = await asyncio.gather(*(door.post("/api/relay/enter", body) for body in bodies * 4))
    confirmed = {answer["txHash"] for response, answer in answers if response.status == 200}
    assert len(confirmed) == 1
    again = [answer for response, answer in answers if response.status != 200]
    assert {(answer["error"], answer.get("receipt")) for answer in again} <= {("already_used", "confirmed")}
    assert entries_of(service, bet) == 1


async def test_a_bet_that_landed_without_us_is_found(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.wallet("sends it herself")
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    bet = chain.bet(wallet, market)
    body = chain.signed(wallet, bet)
    call = bet.call(chain.contracts.settler, bytes.fromhex(body["signature"][2:]))
    receipt = chain.send(call, wallets.DEV[5].address)
    response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer["receipt"]) == (200, "confirmed"), answer
    assert answer["txHash"] == receipt["transactionHash"]
    assert answer["positionId"] is not None
    assert answer["escapeKit"] == {
        "to": chain.contracts.settler.address,
        "data": "0x" + call.data.hex(),
        "chainId": chain.deployment.chain_id,
        "expiresAt": bet.valid_before,
    }
    assert entries_of(service, bet) == 1


async def test_a_bet_that_the_chain_has_is_reported_after_its_market_closed(service: StockService, door: Door) -> None:
    chain, wallet = service.chain, wallets.wallet("sent it herself before the bell")
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    short = chain.open_market(strike_in=60, lasts=60)
    chain.push(FLAT_PRICE)
    bet = chain.bet(wallet, short)
    body = chain.signed(wallet, bet)
    call = bet.call(chain.contracts.settler, bytes.fromhex(body["signature"][2:]))
    receipt = chain.send(call, wallets.DEV[5].address)
    chain.warp_to(chain.now + 121)
    response, answer = await door.post("/api/relay/enter", body)
    assert (response.status, answer.get("receipt")) == (200, "confirmed"), answer
    assert answer["txHash"] == receipt["transactionHash"]
    assert entries_of(service, bet) == 1
    # A bettor who missed that answer may sign the same bet for another time: it still counts as booked.
    other = chain.signed(wallet, replace(bet, valid_before=bet.valid_before + 60))
    response, again = await door.post("/api/relay/enter", other)
    assert (response.status, again["receipt"], again["positionId"]) == (200, "confirmed", answer["positionId"])
    assert again["txHash"] == receipt["transactionHash"]


async def test_typed_data_is_ready_to_sign(service: StockService, door: Door, market: int) -> None:
    chain, wallet = service.chain, wallets.wallet("signs what it is given")
    chain.send(chain.contracts.token.call("mint", wallet.address, 50 * USDG), wallets.DEPLOYER.address)
    query = f"marketId={market}&outcome=1&amount={3 * USDG}&from={wallet.address}"
    await door.until("/api/markets", lambda b: str(market) in [each["id"] for each in b["markets"]])
    response, given = await door.get(f"/api/relay/typed-data?{query}")
    assert response.status == 200
    hold(TypedDataBody, given)
    nonce = chain.read(
        chain.contracts.settler.call("entryNonce", market, 1, 3 * USDG, bytes.fromhex(given["request"]["salt"][2:]))
    )
    assert given["nonce"] == given["message"]["nonce"] == "0x" + nonce.hex()
    quote = given["quote"]
    assert (quote["side"], quote["amount"], quote["accepted"]) == ("DOWN", str(3 * USDG), str(3 * USDG))
    assert int(quote["likelyPayout"]) > 3 * USDG
    assert quote["breakEvenPct"] == pytest.approx(100 * 3 * USDG / int(quote["likelyPayout"]), abs=0.1)
    assert quote["restsOn"]["settledMarkets"] >= 0
    numbers = {name: int(given["message"][name]) for name in ("value", "validAfter", "validBefore")}
    message = {**{key: given[key] for key in ("domain", "types", "primaryType")}, "message": given["message"] | numbers}
    signed = Account.sign_message(encode_typed_data(full_message=message), wallet.private_key).signature
    response, answer = await door.post("/api/relay/enter", given["request"] | {"signature": "0x" + bytes(signed).hex()})
    assert (response.status, answer["receipt"]) == (200, "confirmed"), answer
    view = chain.read(chain.contracts.settler.call("position", int(answer["positionId"])))
    assert (view["owner"], view["outcome"], view["offered"]) == (wallet.address.lower(), 1, 3 * USDG)
    for bad, status, code in (
        (f"marketId={market}", 400, "invalid_request"),
        *((f"marketId={none}&outcome=1&amount={USDG}", 404, "market_not_found") for none in (0, 999_999, 2**256 - 1)),
        (f"marketId={market}&outcome=1&amount={USDG - 1}", 400, "amount_out_of_bounds"),
        (f"marketId={market}&outcome=1&amount={100 * USDG + 1}", 400, "amount_out_of_bounds"),
    ):
        response, answer = await door.get(f"/api/relay/typed-data?{bad}")
        assert (response.status, answer["error"]) == (status, code)


def high_s(signature: str) -> str:
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    raw = bytes.fromhex(signature[2:])
    s = order - int.from_bytes(raw[32:64])
    return "0x" + (raw[:32] + s.to_bytes(32) + bytes([55 - raw[64]])).hex()
