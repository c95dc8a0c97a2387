"""Real trades through the API: challenge, payment, receipt, replay; checked on chain."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data

from core.agent.bet import NONCE_MARK
from core.contracts.statuses import Form
from scripts._stack import wallets
from tests.support import questions
from tests.support.agent_payments import OWNER_CODE, PLAIN_CODE, YES_CODE
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet, header, sign
from tests.waiting import PATIENCE

DEV = wallets.DEV
BEYOND_FINALITY = 80


@pytest.fixture
async def market(buyer: Buyer, service: AgentService, request: pytest.FixtureRequest) -> str:
    name = service.chain.list(f"t-{request.node.name[:60]}".lower().replace("[", "-").replace("]", ""))
    await buyer.shows(name)
    return name


async def test_a_bet_is_paid_settled_and_replayed(buyer: Buyer, service: AgentService, market: str) -> None:
    body = bet(market, DEV[0], ref="mention:17")
    _, quoted = await buyer.get("/quote", marketId=market, side="yes", sizeUsd=5)
    response, paid = await buyer.buy(body, DEV[0])
    assert response.status == 200, paid
    receipt = paid["receipt"]
    assert paid["replay"] is False
    assert receipt["position"]["shares"] == quoted["quote"]["estimatedShares"]
    assert "X-Payment-Response" in response.headers
    assert service.chain.stake(DEV[0].address, body["idemKey"])
    again, replayed = await buyer.post(body)
    assert again.status == 200
    assert replayed["replay"] is True
    assert replayed["receipt"] == receipt
    _, proof = await buyer.get(f"/proof/{receipt['tradeId']}")
    assert proof["settlement"]["txHash"] == receipt["txHash"]
    assert proof["attribution"]["mentionId"] == "17"


def recovered(name: str, fields: list[tuple[str, str]], signed: dict[str, Any]) -> str:
    """Return the signer, by the schema the extension fixes: written out here, not taken from the code under test."""
    assert list(signed["payload"]) == [field for field, _ in fields]
    assert signed["format"] == "eip712"
    message = encode_typed_data(
        domain_data={"name": f"x402 {name.lower()}", "version": "1", "chainId": 1},
        message_types={name: [{"name": field, "type": kind} for field, kind in fields]},
        message_data=signed["payload"],
    )
    return str(Account.recover_message(message, signature=signed["signature"]))


OFFER_FIELDS = [
    ("version", "uint256"),
    ("resourceUrl", "string"),
    ("scheme", "string"),
    ("network", "string"),
    ("asset", "string"),
    ("payTo", "string"),
    ("amount", "string"),
    ("validUntil", "uint256"),
]
RECEIPT_FIELDS = [
    ("version", "uint256"),
    ("network", "string"),
    ("resourceUrl", "string"),
    ("payer", "string"),
    ("issuedAt", "uint256"),
    ("transaction", "string"),
]


async def test_offer_and_receipt_are_signed(buyer: Buyer, service: AgentService, market: str) -> None:
    contracts = service.chain.contracts
    body = bet(market, DEV[0], size=1.234567)
    response, challenge = await buyer.post(body)
    assert response.status == 402
    (offer,) = challenge["accepts"]
    trade_id = offer["extra"]["intentNonce"]
    assert challenge["x402Version"] == 1
    assert challenge["error"] is None
    assert isinstance(offer.pop("description"), str)
    assert offer == {
        "scheme": "exact",
        "network": "base",
        "maxAmountRequired": "1234567",
        "resource": f"{service.api}/trade#{trade_id}",
        "mimeType": "application/json",
        "payTo": contracts.settlement.address,
        "maxTimeoutSeconds": 120,
        "asset": contracts.token_facts.address,
        "extra": {
            "name": "USD Coin",
            "version": "2",
            "intentNonce": trade_id,
            "intentValidAfter": "3009",
            "receiveNonce": "0x" + NONCE_MARK.hex() + trade_id[18:],
            "receivePrimaryType": "ReceiveWithAuthorization",
        },
    }
    (signed,) = challenge["extensions"]["offer-receipt"]["info"]["offers"]
    assert recovered("Offer", OFFER_FIELDS, signed) == wallets.ATTESTATION.address
    assert signed["acceptIndex"] == 0
    assert (signed["payload"]["amount"], signed["payload"]["network"]) == ("1234567", "eip155:8453")
    assert 0 < signed["payload"]["validUntil"] - time.time() <= 120
    _, paid = await buyer.buy(body, DEV[0])
    info = paid["extensions"]["offer-receipt"]["info"]
    assert recovered("Receipt", RECEIPT_FIELDS, info["receipt"]) == wallets.ATTESTATION.address
    assert info["receipt"]["payload"]["payer"] == DEV[0].address.lower()
    assert info["receipt"]["payload"]["transaction"] == paid["receipt"]["txHash"]
    assert paid["receipt"]["tradeId"] == trade_id


@pytest.mark.parametrize("form", list(Form))
async def test_a_bound_payment_can_be_settled_by_anyone(
    buyer: Buyer, service: AgentService, market: str, form: Form
) -> None:
    """While the relayer is down, a third party sends the call, and then the key returns the receipt."""
    body = bet(market, DEV[2])
    _, challenge = await buyer.post(body)
    offer = challenge["accepts"][0]
    if form is Form.TRANSFER:
        nonce = bytes.fromhex(offer["extra"]["intentNonce"][2:])
        bound = {"nonce": nonce, "validAfter": offer["extra"]["intentValidAfter"]}
        envelope = sign(offer, DEV[2], now=service.chain.now, **bound)
    else:
        envelope = sign(offer, DEV[2], now=service.chain.now, form=form)
    response, refused = await buyer.post({**body, "side": "no"}, headers=header(envelope))
    assert (response.status, "another bet" in refused["error"]) == (402, True), refused
    service.stop("relayer")
    try:
        for _ in range(11):  # nothing is traded, so none of them counts as a trade of the wallet's
            response, refused = await buyer.post(body, headers=header(envelope))
            assert (response.status, refused["error"]) == (503, "platform_paused"), refused
        _, health = await buyer.get("/health")
    finally:
        service.start("relayer")
    assert refused["retriable"] is True, refused
    assert health["health"]["ok"] is False
    assert "escapeKit" in refused, refused
    kit = refused["escapeKit"]
    assert kit["chainId"] == 8453
    service.chain.ask("anvil_impersonateAccount", DEV[7].address)
    sent = service.chain.ask(
        "eth_sendTransaction", {"from": DEV[7].address, "to": kit["to"], "data": kit["data"], "gas": hex(2_000_000)}
    )
    for _ in range(100):
        response, paid = await buyer.post(body)
        if response.status == 200:
            break
        await asyncio.sleep(0.1)
    assert paid["receipt"]["txHash"] == sent
    assert paid["receipt"]["tradeId"] == offer["extra"]["intentNonce"]
    assert service.chain.stake(DEV[2].address, body["idemKey"])
    # The API makes no new offer before the relayer's lanes work again.
    for _ in range(600):
        _, health = await buyer.get("/health")
        if health["health"]["ok"]:
            break
        await asyncio.sleep(0.1)
    assert health["health"]["ok"], health


async def test_a_used_key_replays_or_conflicts_after_its_market_closed(buyer: Buyer, service: AgentService) -> None:
    chain = service.chain
    name = chain.list("closes-soon", closes_at=chain.now + 400)
    other = chain.list("stays-open")
    await buyer.shows(name)
    await buyer.shows(other)
    body = bet(name, DEV[3], builderCode=DEV[6].address)
    _, first = await buyer.buy(body, DEV[3])
    assert first["receipt"]["builderCode"] == DEV[6].address.lower()
    changes: list[dict[str, object]] = [
        {"marketId": other},
        {"side": "no"},
        {"sizeUsd": 6},
        {"builderCode": DEV[5].address},
    ]
    for change in changes:
        response, refused = await buyer.post({**body, **change})
        assert (response.status, refused["error"]) == (409, "idem_conflict"), change
    elsewhere, _ = await buyer.post({**body, "walletAddress": DEV[4].address})
    assert elsewhere.status == 402  # the key belongs to its wallet
    chain.warp_to(chain.now + 500)
    for _ in range(200):
        _, shown = await buyer.get(f"/markets/{name}")
        if shown["market"]["status"] == "closed":
            break
        await asyncio.sleep(0.05)
    response, refused = await buyer.post({**body, "idemKey": "another-key"})
    assert (response.status, refused["error"]) == (409, "market_closed")
    response, replayed = await buyer.post(body)
    assert (response.status, replayed["receipt"]) == (200, first["receipt"])


async def test_the_same_key_at_once_settles_once(buyer: Buyer, service: AgentService, market: str) -> None:
    body = bet(market, DEV[5])
    _, challenge = await buyer.post(body)
    now = service.chain.now
    envelopes = [sign(challenge["accepts"][0], DEV[5], now=now) for _ in range(6)]
    balance = service.chain.balance(DEV[5].address)
    answers = await asyncio.gather(*(buyer.post(body, headers=header(each)) for each in envelopes))
    settled = [content for response, content in answers if response.status == 200]
    receipts = [content["receipt"] for content in settled]
    assert [content["replay"] for content in settled].count(False) == 1, (
        "one request settles; what another says is its receipt"
    )
    assert all(each == receipts[0] for each in receipts)
    for response, content in answers:
        if response.status != 200:
            assert (response.status, content["error"]) == (429, "rate_limited")
    settlement = service.chain.contracts.settlement
    ids = service.chain.read(settlement.call("stakesOf", service.chain.key(market), 0, 100))
    owners = [service.chain.read(settlement.call("stake", each))["wallet"] for each in ids]
    assert owners.count(DEV[5].address.lower()) == 1
    _, later = await buyer.post(body)
    assert later["receipt"] == receipts[0]
    assert balance - service.chain.balance(DEV[5].address) == 5_000_000


@pytest.mark.parametrize("has_code", [False, True])
async def test_a_signature_in_the_wrong_form_is_refused_with_a_reason(
    buyer: Buyer, service: AgentService, market: str, has_code: bool
) -> None:
    who, chain = DEV[5], service.chain
    if has_code:  # a wallet whose contract takes its owner's signature
        who = wallets.wallet("an owner's contract")
        chain.ask("anvil_setCode", who.address, OWNER_CODE)
        chain.give(who.address, 20_000_000)
    body = bet(market, who)
    _, challenge = await buyer.post(body)
    offer = challenge["accepts"][0]
    marked = bytes.fromhex(offer["extra"]["receiveNonce"][2:])
    for nonce, signed_as, words in (
        (marked, Form.TRANSFER, "sign ReceiveWithAuthorization, not TransferWithAuthorization"),
        (secrets.token_bytes(32), Form.RECEIVE, "needs extra.receiveNonce as nonce"),
    ):
        envelope = sign(offer, who, now=chain.now, nonce=nonce, form=signed_as)
        response, refused = await buyer.post(body, headers=header(envelope))
        assert response.status == 402, refused
        assert words in refused["error"], refused
    assert service.chain.stake(who.address, body["idemKey"]) is None


async def reverted(buyer: Buyer, service: AgentService, body: dict[str, Any], envelope: dict[str, Any]) -> None:
    """Have a payment fail when it is mined: stakes are paused in the same block, just before it."""
    chain = service.chain
    guardian, pause = chain.deployment.operator_wallets["guardian"], chain.pauser.call("pause")
    chain.ask("anvil_setBalance", guardian, hex(10**22))
    chain.ask("anvil_impersonateAccount", guardian)
    tip = hex(5_000 * 10**9)
    try:
        with chain.held():
            paying = asyncio.create_task(buyer.post(body, headers=header(envelope)))
            await asyncio.to_thread(chain.until_sent)
            fees = {"gas": hex(500_000), "maxFeePerGas": tip, "maxPriorityFeePerGas": tip}
            chain.ask("eth_sendTransaction", {**pause.parameters(), "from": guardian, **fees})
            chain.ask("evm_mine")
            response, refused = await paying
    finally:
        chain.resume()
    assert (response.status, refused["error"]) == (503, "platform_paused"), refused
    assert chain.ask("eth_getTransactionReceipt", refused["txHash"])["status"] == "0x0"
    # It is signed and public: if that block is undone, another may take it.
    assert refused["final"] is False, refused
    assert "not final" in refused["message"], refused


async def test_a_bet_that_a_stranger_settles_first_gets_its_receipt(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """A stranger copies the call in flight and pays more, and the relayer learns of the refusal before the index."""
    chain, who = service.chain, DEV[6]
    body = bet(market, who)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], who, now=chain.now, form=Form.RECEIVE)
    newest = "SELECT encode(to_address, 'hex'), encode(data, 'hex') FROM outbox_intent ORDER BY id DESC LIMIT 1"
    try:
        with chain.held():
            service.stop("indexer")
            paying = asyncio.create_task(buyer.post(body, headers=header(envelope)))
            await asyncio.to_thread(chain.until_sent)
            ((to, data),) = questions.rows(service.env["DATABASE_URL"], newest)
            chain.ask("anvil_impersonateAccount", DEV[7].address)
            tip = hex(5_000 * 10**9)
            copied = {"from": DEV[7].address, "to": "0x" + to, "data": "0x" + data, "gas": hex(2_000_000)}
            chain.ask("eth_sendTransaction", {**copied, "maxFeePerGas": tip, "maxPriorityFeePerGas": tip})
            chain.ask("evm_mine")
            response, answer = await paying
    finally:
        chain.resume()
        service.start("indexer")
    assert service.chain.stake(who.address, body["idemKey"])
    assert (response.status, answer["error"], answer["retriable"]) == (429, "rate_limited", True), answer
    assert "moneyMoved" not in answer, answer
    for _ in range(300):
        response, answer = await buyer.post(body)
        if response.status == 200:
            break
        await asyncio.sleep(0.1)
    assert answer["replay"] is True, answer


async def test_a_refusal_after_a_revert_says_whether_it_is_final(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """The payer spent the money; if the chain undoes both transactions, it is there again, and the bet is still
    signed."""
    who, chain = wallets.wallet("spends it elsewhere"), service.chain
    transfer = chain.contracts.token.call
    chain.send(transfer("transfer", who.address, 6_000_000), DEV[0].address)
    body = bet(market, who, size=6)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    await reverted(buyer, service, body, envelope)
    await buyer.shows(chain.list("after-the-pause"))
    chain.send(transfer("transfer", DEV[0].address, 6_000_000), who.address)
    response, refused = await buyer.post(body, headers=header(envelope))
    assert (response.status, refused["error"], refused.get("final")) == (422, "insufficient_balance", False), refused
    assert refused["retriable"] is True, refused  # a client that changed the bet would make two
    assert "it may still be taken" in refused["message"]
    chain.mine(BEYOND_FINALITY)
    deadline = time.monotonic() + PATIENCE
    while "final" in refused:
        assert time.monotonic() < deadline, refused
        await asyncio.sleep(4)  # ten a minute
        response, refused = await buyer.post(body, headers=header(envelope))
    assert (response.status, refused["error"]) == (422, "insufficient_balance"), refused


async def test_the_authorization_of_a_failed_payment_pays_for_no_other_bet(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """Anyone can read it in the failed transaction, and it stays valid for two minutes."""
    who, chain = DEV[1], service.chain
    body = bet(market, who, size=6, minSharesOut=1)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], who, now=chain.now)
    await reverted(buyer, service, body, envelope)
    other = chain.list("a-strangers-choice")
    await buyer.shows(other)  # and with it that stakes are taken again
    # A stranger who holds it tries many other bets of hers, by other keys and by her own with easier limits.
    for change in (
        {"marketId": other, "side": "no"},
        {"side": "no"},
        *({"marketId": other, "idemKey": f"stranger-{number}"} for number in range(10)),
    ):
        theirs = {**body, "idemKey": "a-strangers-key", **change}
        response, refused = await buyer.post(theirs, headers=header(envelope))
        assert (response.status, refused["error"]) == (422, "payment_invalid"), refused
        assert service.chain.stake(who.address, theirs["idemKey"]) is None
    response, refused = await buyer.post({**body, "minSharesOut": 0.5}, headers=header(envelope))
    assert (response.status, refused["error"]) == (422, "payment_invalid"), refused
    # Her key keeps its bet, too, although nothing of it is on the chain.
    response, refused = await buyer.post({**body, "side": "no"})
    assert (response.status, refused["error"]) == (409, "idem_conflict"), refused
    # Her own call again still works: her minute is not used up.
    response, paid = await buyer.post(body, headers=header(envelope))
    assert (response.status, paid["receipt"]["side"]) == (200, "yes"), paid


async def test_a_contract_wallet_pays_by_erc1271(buyer: Buyer, service: AgentService, market: str) -> None:
    """A contract wallet that accepts every signature: the token and the service both ask it."""
    chain = service.chain
    account = wallets.wallet("a contract wallet")
    chain.ask("anvil_setCode", account.address, YES_CODE)
    chain.give(account.address, 20_000_000)
    body = bet(market, account)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], account, now=chain.now)
    envelope["payload"]["signature"] = "0x" + "12" * 4096  # the longest taken; many owners' signatures in one
    response, paid = await buyer.post(body, headers=header(envelope))
    assert response.status == 200, paid
    assert service.chain.stake(account.address, body["idemKey"])


async def test_a_signature_that_the_token_refuses_is_a_fresh_challenge(
    buyer: Buyer, service: AgentService, market: str
) -> None:
    """An ERC-6492 signature of a wallet that is not deployed yet: the token passes it on without unwrapping."""
    chain, account = service.chain, wallets.wallet("a wallet that wraps")
    chain.ask("anvil_setCode", account.address, PLAIN_CODE)
    chain.give(account.address, 20_000_000)
    body = bet(market, account)
    _, challenge = await buyer.post(body)
    envelope = sign(challenge["accepts"][0], account, now=chain.now)
    plain = b"\x12" * 65
    wrapped = encode(["address", "bytes", "bytes"], [DEV[5].address, b"", plain]) + bytes.fromhex("6492" * 16)
    envelope["payload"]["signature"] = "0x" + wrapped.hex()
    response, refused = await buyer.post(body, headers=header(envelope))
    assert response.status == 402, refused
    assert "signature" in refused["error"], refused
    envelope["payload"]["signature"] = "0x" + plain.hex()
    response, paid = await buyer.post(body, headers=header(envelope))
    assert response.status == 200, paid
