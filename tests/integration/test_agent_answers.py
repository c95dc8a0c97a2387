"""A trade's request and receipt, field by field; the order of its checks; its position and proof."""

from __future__ import annotations

import asyncio
import base64
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pytest

from api.agent.bodies.trades import TradeBody
from api.agent.trade import x402
from api.agent.trade.x402 import settle_call
from core.agent.bet import Bet, bet_hash, idem_hash
from core.chain import checksum
from core.db.engine import conninfo
from core.money import USD, loads
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet, header, sign
from tests.waiting import PATIENCE

DEV = wallets.DEV
POOR = wallets.wallet("a wallet without money")
FINAL_AFTER = 5


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("shut", closes_at=chain.now + 120)
    chain.list("main")
    chain.list("deep", virtual=2_000 * USD)
    base_service.configure(VPM_BASE_FINALITY_BLOCKS=str(FINAL_AFTER))
    base_service.start("indexer", "relayer", "api")
    return base_service


async def test_the_whole_receipt(buyer: Buyer, service: AgentService) -> None:
    chain, who = service.chain, DEV[0]
    body = bet(chain.ids["main"], who, "no", 7.123456, ref="campaign-1", builderCode=DEV[7].address)
    held = chain.balance(chain.contracts.settlement.address)
    _, challenge = await buyer.post(body)
    trade_id = challenge["accepts"][0]["extra"]["intentNonce"]
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    async with buyer.session.post(f"{service.api}/trade", json=body, headers=header(envelope)) as response:
        raw = await response.read()
        assert response.status == 200, raw
        settlement = json.loads(base64.b64decode(response.headers["X-Payment-Response"]))
    msgspec.json.decode(raw, type=TradeBody)
    paid = loads(raw)
    stake = chain.stake(who.address, body["idemKey"])
    mined = chain.ask("eth_getTransactionReceipt", paid["receipt"]["txHash"])
    block = chain.ask("eth_getBlockByNumber", mined["blockNumber"], False)
    assert mined["status"] == "0x1"
    assert paid["replay"] is False
    market = (await buyer.get(f"/markets/{chain.ids['main']}"))[1]["market"]
    assert paid["receipt"] == {
        **{each: market[each] for each in ("deadlineAt", "startAt", "endsAt", "settlesAfter")},
        "tradeId": trade_id,
        "marketId": chain.ids["main"],
        "side": "no",
        "sizeUsd": Decimal("7.123456"),
        "simulated": False,
        "txHash": mined["transactionHash"],
        "explorerUrl": None,  # a local chain has none
        "intentHash": trade_id,
        "builderCode": DEV[7].address.lower(),
        "position": {
            "shares": Decimal(stake["shares"]) / USD,
            "avgPriceCents": paid["receipt"]["position"]["avgPriceCents"],
        },
        # Alone in its market it would be given back whole.
        "projectedPayoutUsd": Decimal("7.123456"),
        "projectedPayoutPerShareUsd": Decimal(7_123_456 * 10**6 // stake["shares"]) / 10**6,
        "warnings": paid["receipt"]["warnings"],
        "proofUrl": f"{service.api}/proof/{trade_id}",
        "recordedAt": datetime.fromtimestamp(int(block["timestamp"], 16), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    assert [each["code"] for each in paid["receipt"]["warnings"]] == ["first_on_its_side"]
    fee = 7_123_456 * 200 // 10_000
    average = Decimal(7_123_456 - fee) * 100 / stake["shares"]
    assert 0 <= average - Decimal(paid["receipt"]["position"]["avgPriceCents"]) < Decimal("0.0001")
    assert settlement == {
        "success": True,
        "transaction": mined["transactionHash"],
        "network": "base",
        "payer": who.address.lower(),
        "extensions": paid["extensions"],
    }
    assert chain.balance(chain.contracts.settlement.address) - held == stake["amount"]
    assert stake["amount"] == 7_123_456

    async with buyer.session.post(f"{service.api}/trade", json={**body, "simulate": True, "idemKey": "x" * 8}) as tried:
        raw = await tried.read()
    msgspec.json.decode(raw, type=TradeBody)
    simulated = loads(raw)["receipt"]
    assert set(simulated) == set(paid["receipt"])
    # A threshold has no start, and a simulation nothing on a chain.
    unknown = {name for name, value in simulated.items() if value is None}
    assert unknown == {"startAt", "txHash", "explorerUrl", "proofUrl"}


FIELDS: list[tuple[str, list[Any], Any]] = [
    ("marketId", [None, "", 5], "main"),
    ("side", [None, "", 5], "yes"),
    ("sizeUsd", [None, "5", True, -1, 0, 1e-7], 1.5),
    ("idemKey", [None, "short", "k" * 129, 5, "k" * 8 + "\0"], "k" * 128),
    ("walletAddress", [None, 5], DEV[0].address.lower()),
    ("quoteId", ["", 5, "q_\0"], "q_anything"),
    ("minSharesOut", [0, -1, "1"], 0.5),
    ("maxPriceCents", [0, 100, 1.5, "50", True], 99),
    ("simulate", ["true", 1], True),
    ("builderCode", ["0x12", "", 5, "0x" + "g" * 40], DEV[1].address),
    (
        "callbackUrl",
        [
            "nowhere",
            "",
            5,
            "ftp://example.org/",
            "http://example.org/hook",
            "https://127.0.0.1/",
            "https://localhost/hook",
            "https://example.org:99999999/",
            "https://example.org/\n",
            "https://example.org/\0",
            "https://user@example.org/",
        ],
        "https://example.org/hook",
    ),
    ("ref", ["", "a b", "r" * 33, "ü", 5], "A:b_c-9" + "r" * 25),
]


async def test_every_field_of_a_request_is_checked(buyer: Buyer) -> None:
    whole: dict[str, Any] = {name: good for name, _, good in FIELDS}
    response, body = await buyer.post(whole)
    assert response.status == 200, body
    for name, wrong, _ in FIELDS:
        for value in wrong:
            response, body = await buyer.post({**whole, name: value})
            assert (response.status, body["error"]) == (400, "invalid_request"), (name, value, body)
            assert [each["field"] for each in body["issues"]] == [name], (name, value)
            assert body["issues"][0]["problem"]
        without = {key: value for key, value in whole.items() if key != name}
        response, body = await buyer.post(without)
        required = name in ("marketId", "side", "sizeUsd", "idemKey", "walletAddress")
        assert response.status == (400 if required else 402 if name == "simulate" else 200), (name, body)
    response, body = await buyer.post({**whole, "sizeUsd": "5", "ref": "a b", "more": 1})
    assert {each["field"] for each in body["issues"]} == {"sizeUsd", "ref", "more"}
    problems = {each["field"]: each["problem"] for each in body["issues"]}
    assert problems["ref"] == "must be 1 to 32 letters, digits, colons, underscores and hyphens"
    url, kind = f"{buyer.service.api}/trade", {"Content-Type": "application/json"}
    for raw, field in ((b'{"sizeUsd": 1, "sizeUsd": 2}', "sizeUsd"), (b"{", "body"), (b"[]", "body")):
        async with buyer.session.post(url, data=raw, headers=kind) as refused:
            body = await refused.json()
            assert (refused.status, [each["field"] for each in body["issues"]]) == (400, [field])


async def test_no_size_is_too_large_for_its_own_sake(buyer: Buyer) -> None:
    """Thousands of dollars settle like five, as long as they do not move the price too far."""
    whole = bet("deep", DEV[5], size=5_000)
    _, body = await buyer.get("/quote", marketId="deep", sizeUsd=5_000)
    limits = {"quoteId": body["quote"]["quoteId"], "minSharesOut": body["quote"]["suggestedMinSharesOut"]}
    response, paid = await buyer.buy({**whole, **limits}, DEV[5])
    assert response.status == 200, paid
    assert paid["receipt"]["sizeUsd"] == 5_000
    for size in (1_000_000_001, 10**18):
        response, refused = await buyer.post(bet("deep", DEV[5], size=size))
        assert (response.status, refused["error"]) == (422, "quote_required")
    response, refused = await buyer.post(bet("deep", DEV[5], size=5e30))
    assert (response.status, refused["error"]) == (400, "invalid_request")


async def quoted_bet(buyer: Buyer, who: Wallet, size: int) -> dict[str, Any]:
    _, body = await buyer.get("/quote", marketId="main", side="yes", sizeUsd=size)
    suggested = body["quote"]["suggestedMinSharesOut"]
    return bet("main", who, "yes", size, quoteId=body["quote"]["quoteId"], minSharesOut=suggested)


@pytest.mark.parametrize(("between", "status"), [(1, 200), (150, 422)])
async def test_a_lock_gives_what_was_suggested_or_nothing(
    buyer: Buyer, service: AgentService, between: int, status: int
) -> None:
    """The book moves between quote and settlement. A dollar in between is within the suggested hundredth; after a large
    bet the contract refuses the trade and the money stays."""
    chain, who, other = service.chain, DEV[2], DEV[3]
    wanted = await quoted_bet(buyer, who, 20)
    ahead = await quoted_bet(buyer, other, between)
    _, challenge = await buyer.post(wanted)
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    held = chain.balance(who.address)
    with chain.held():
        first = asyncio.create_task(buyer.buy(ahead, other))
        await asyncio.sleep(1)  # the other one is in the pool ahead of ours
        second = asyncio.create_task(buyer.post(wanted, headers=header(envelope)))
        await asyncio.sleep(1.5)
    response, paid = await first
    assert response.status == 200, paid
    response, answer = await second
    stake = chain.read(chain.contracts.settlement.call("stakeOf", who.address, idem_hash(wanted["idemKey"])))
    assert response.status == status, answer
    if status == 200:
        assert stake != 0
        assert answer["receipt"]["position"]["shares"] >= wanted["minSharesOut"]
    else:
        assert (answer["error"], stake) == ("slippage_exceeded", 0)
        assert chain.balance(who.address) == held


async def test_the_order_of_the_checks(buyer: Buyer, service: AgentService) -> None:
    used = bet("shut", DEV[4], "yes", 2)
    response, paid = await buyer.buy(used, DEV[4])
    assert response.status == 200, paid
    service.chain.warp_to(service.chain.now + 150)
    async with asyncio.timeout(PATIENCE):
        while (await buyer.get("/markets/shut"))[1]["market"]["status"] == "open":
            await asyncio.sleep(0.05)
    _, quoted = await buyer.get("/quote", marketId="main", side="yes", sizeUsd=30)
    lock = {"quoteId": quoted["quote"]["quoteId"]}
    body: dict[str, Any] = {
        "marketId": "none",
        "side": "sideways",
        "sizeUsd": 0.5,
        "idemKey": used["idemKey"],
        "walletAddress": "0x12",
        "more": 1,
    }
    fixes: list[tuple[dict[str, Any], int, str | None]] = [
        ({}, 400, "invalid_request"),
        ({"more": None}, 422, "invalid_wallet"),
        ({"walletAddress": DEV[4].address}, 422, "size_below_min"),
        ({"sizeUsd": 30}, 404, "market_not_found"),
        ({"marketId": "shut"}, 409, "idem_conflict"),
        ({"idemKey": "a-fresh-key-0001"}, 409, "market_closed"),
        ({"marketId": "main"}, 422, "invalid_side"),
        ({"side": "no"}, 422, "quote_required"),
        ({**lock, "minSharesOut": 10_000}, 422, "quote_mismatch"),
        ({"side": "yes"}, 422, "slippage_exceeded"),
        ({"minSharesOut": 1, "walletAddress": POOR.address}, 402, None),
    ]
    bad_payment = {"X-PAYMENT": "%%%"}
    for fix, status, code in fixes:
        body = {name: value for name, value in {**body, **fix}.items() if value is not None}
        response, answer = await buyer.post(body, headers=bad_payment)
        assert (response.status, answer.get("error") if status != 402 else None) == (status, code), (body, answer)
    assert "base64-encoded JSON envelope" in answer["error"]  # the payment is looked at then, and the balance last
    envelope = sign(answer["accepts"][0], POOR, now=service.chain.now)
    response, answer = await buyer.post(body, headers=header(envelope))
    assert (response.status, answer["error"]) == (422, "insufficient_balance"), answer


async def test_a_wallet_has_one_book_for_all_its_stakes(buyer: Buyer, service: AgentService) -> None:
    """A stake of this API and one a partner sends to the contract itself stand side by side; a stranger who names the
    wallet as builder puts nothing into its book."""
    chain, who, partner = service.chain, DEV[1], DEV[6]
    mine = bet("main", who, "yes", 2)
    response, paid = await buyer.buy(mine, who)
    assert response.status == 200, paid
    response, _ = await buyer.buy(bet("main", partner, "no", 3, builderCode=who.address), partner)
    assert response.status == 200

    brought = Bet(
        market_id=chain.key("main"),
        outcome=1,
        amount=4 * USD,
        min_shares=0,
        wallet=who.address.lower(),
        idem_hash=idem_hash("a partner's own key"),
        builder=partner.address.lower(),
        ref=b"mention:partner".ljust(32, b"\0"),
    )
    contracts = chain.contracts
    bound = bet_hash(brought, contracts.chain_id, contracts.settlement.address)
    _, challenge = await buyer.post(bet("main", who, "no", 4))
    envelope = sign(challenge["accepts"][0], who, now=chain.now, nonce=bound)
    payment = x402.decode(header(envelope)["X-PAYMENT"], contracts)
    chain.send(settle_call(contracts, brought, payment).call, partner.address)
    async with asyncio.timeout(PATIENCE):
        while True:
            _, body = await buyer.get("/positions", wallet=who.address)
            if body["count"] == 2:
                break
            await asyncio.sleep(0.05)
    assert [(each["side"], each["stakedUsd"]) for each in body["positions"]] == [("no", 4), ("yes", 2)]
    assert body["wallet"] == who.address.lower()
    _, proof = await buyer.get(f"/proof/0x{bound.hex()}")
    assert proof["attribution"] == {
        "source": "mention:partner",
        "mentionId": "partner",
        "ref": "mention:partner",
        "builderCode": partner.address.lower(),
    }
    _, plain = await buyer.get(f"/proof/{paid['receipt']['tradeId']}")
    assert set(plain["attribution"].values()) == {None}


async def test_a_proof_is_confirmed_and_then_final(buyer: Buyer, service: AgentService) -> None:
    _, paid = await buyer.buy(bet("main", DEV[3], size=1), DEV[3])
    path = f"/proof/{paid['receipt']['tradeId']}"
    _, proof = await buyer.get(path)
    assert proof["settlement"]["status"] == "confirmed"
    service.chain.ask("anvil_mine", hex(100))
    async with asyncio.timeout(PATIENCE):
        while (await buyer.get(path))[1]["settlement"]["status"] != "final":
            await asyncio.sleep(0.05)
    _, final = await buyer.get(path)
    assert {**final, "meta": 0, "settlement": {**final["settlement"], "status": "confirmed"}} == {**proof, "meta": 0}


async def test_a_challenge_is_named_in_the_log_and_sent_as_no_error_body(buyer: Buyer, service: AgentService) -> None:
    response, challenge = await buyer.post(bet("main", DEV[0]))
    assert (response.status, challenge["error"]) == (402, None)
    trade_id = challenge["accepts"][0]["extra"]["intentNonce"]
    (line,) = [line for line in service.log("api").splitlines() if trade_id in line]
    assert "payment_required" in line


async def test_nothing_is_kept_of_a_trade_that_was_only_asked_about(
    buyer: Buyer, service: AgentService, database_url: str
) -> None:
    asked = bet("main", DEV[2], size=1)
    await buyer.post(asked)
    await buyer.post({**asked, "simulate": True})
    with psycopg.connect(conninfo(database_url)) as connection:
        row = connection.execute(
            "SELECT count(*) FROM agent_trade WHERE idem_hash = %s", (idem_hash(asked["idemKey"]),)
        ).fetchone()
    assert row == (0,)
    assert (
        service.chain.read(
            service.chain.contracts.settlement.call("stakeOf", checksum(DEV[2].address), idem_hash(asked["idemKey"]))
        )
        == 0
    )
