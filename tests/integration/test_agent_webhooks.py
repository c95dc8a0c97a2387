"""Webhooks and callbacks over HTTP: ownership, the handshake, signed deliveries in order, removal."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from eth_account import Account
from eth_account.messages import encode_defunct

from api.agent.notices.webhooks import registration_message
from core.db.engine import make_pool
from scripts._stack import wallets
from tests.support.agent_payments import PLAIN_CODE
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet
from tests.support.webhook_receiver import active, receiver, registered, registration

DEV = wallets.DEV


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("hooked")
    base_service.configure(VPM_ALLOW_PRIVATE_WEBHOOKS="1")
    base_service.start("indexer", "relayer", "api")
    return base_service


async def _register(buyer: Buyer, body: Any, ip: str = "10.9.0.1") -> tuple[int, Any]:
    async with buyer.session.post(
        f"{buyer.service.api}/webhooks", json=body, headers={"X-Forwarded-For": ip}
    ) as response:
        return response.status, json.loads(await response.read())


async def test_the_life_of_a_webhook(buyer: Buyer) -> None:
    who = DEV[1]
    async with receiver() as there:
        status, body = await _register(buyer, registration(who, there.url, service=buyer.service.url))
        assert status == 201, body
        assert body["meta"]["version"] == "service-agent-api-v1"
        hook = body["webhook"]
        assert (hook["wallet"], hook["url"], hook["status"]) == (who.address.lower(), there.url, "pending_verification")
        assert datetime.fromisoformat(hook["createdAt"]).tzinfo is not None
        assert len(bytes.fromhex(hook["id"].removeprefix("wh_"))) == 16
        assert isinstance(hook["secret"], str)
        assert len(hook["secret"]) >= 32
        later = await active(buyer, hook["id"])
        assert later["secret"] is None
        handshake = there.deliveries[0]
        assert (handshake.event["type"], handshake.event["seq"]) == ("webhook.verify", 0)
        assert len(handshake.event["payload"]["challenge"]) >= 16
        assert handshake.signed_by(hook["secret"])

        async with buyer.session.post(f"{buyer.service.api}/webhooks/{hook['id']}/test") as response:
            tested = await response.json()
            assert response.status == 200, tested
        assert tested["meta"]["version"] == "service-agent-api-v1"
        assert (tested["event"]["type"], tested["event"]["seq"]) == ("test", 0)
        assert (tested["webhook"]["status"], tested["webhook"]["secret"], tested["note"]) == ("active", None, None)
        await there.until(lambda: len(there.events()) == 1)
        delivery = there.deliveries[-1]
        assert delivery.event == tested["event"]
        assert delivery.headers["Service-Event-Id"] == tested["event"]["eventId"]
        assert abs(int(delivery.headers["Service-Timestamp"]) - delivery.at) < 10
        assert delivery.signed_by(hook["secret"])
        assert not delivery.signed_by("another secret")
        assert hook["id"] not in delivery.raw.decode()  # the id allows to delete it
        _, replay = await buyer.get("/events/replay", wallet=who.address)
        assert (replay["events"], replay["lastSeq"]) == ([], None)  # for one endpoint alone

        async with buyer.session.delete(f"{buyer.service.api}/webhooks/{hook['id']}") as response:
            gone = await response.json()
            assert (response.status, gone["id"], gone["deleted"]) == (200, hook["id"], True)
            assert gone["meta"]["version"] == "service-agent-api-v1"
        for method, path in (("DELETE", ""), ("GET", ""), ("POST", "/test")):
            for webhook_id in (hook["id"], "wh_" + "0" * 32, "nonsense"):
                async with buyer.session.request(
                    method, f"{buyer.service.api}/webhooks/{webhook_id}{path}"
                ) as response:
                    assert (response.status, (await response.json())["error"]) == (404, "not_found")


async def test_a_test_before_the_handshake_is_not_sent_and_says_so(buyer: Buyer) -> None:
    async with receiver() as there:
        there.echo = False
        _, made = await _register(buyer, registration(DEV[6], there.url, service=buyer.service.url))
        hook = made["webhook"]["id"]
        async with buyer.session.post(f"{buyer.service.api}/webhooks/{hook}/test") as response:
            tested = await response.json()
            assert response.status == 200
        assert (tested["webhook"]["id"], tested["webhook"]["status"]) == (hook, "pending_verification")
        assert "webhook.verify" in tested["note"]
        assert not there.events()
        there.echo = True
        await active(buyer, hook)
        assert not there.events()


async def test_registrations_without_proof_of_ownership_are_refused(buyer: Buyer) -> None:
    who, url = DEV[2], "http://127.0.0.1:9/hook"
    good = registration(who, url, service=buyer.service.url)
    bodies = [
        ({**good, "extra": 1}, 400, "invalid_request"),
        *(({name: value for name, value in good.items() if name != left}, 400, "invalid_request") for left in good),
        *(({**good, name: ""}, 400, "invalid_request") for name in ("url", "message", "signature")),
        ({**good, "url": "ftp://example.org/"}, 400, "invalid_request"),
        ({**good, "url": "not a url"}, 400, "invalid_request"),
        ({**good, "url": 5}, 400, "invalid_request"),
        ({**good, "wallet": "0x12"}, 422, "invalid_wallet"),
        ({**good, "wallet": DEV[3].address}, 422, "invalid_wallet"),
        ({**good, "url": url + "2"}, 422, "invalid_wallet"),
        ({**good, "message": good["message"] + "\n"}, 422, "invalid_wallet"),
        (
            {**good, "signature": registration(DEV[3], url, service=buyer.service.url)["signature"]},
            422,
            "invalid_wallet",
        ),
        ({**good, "signature": good["signature"][:-2]}, 422, "invalid_wallet"),
        ({**good, "signature": "hello"}, 422, "invalid_wallet"),
        (
            registration(who, url, service=buyer.service.url, issued=datetime.now(UTC) - timedelta(minutes=11)),
            422,
            "invalid_wallet",
        ),
        (
            registration(who, url, service=buyer.service.url, issued=datetime.now(UTC) + timedelta(minutes=11)),
            422,
            "invalid_wallet",
        ),
    ]
    for number, (body, status, code) in enumerate(bodies):
        got, answer = await _register(buyer, body, f"10.9.1.{number}")
        assert (got, answer["error"]) == (status, code), (body, answer)
        assert (status != 400) or answer["issues"], answer
    status, _ = await _register(buyer, [good], "10.9.2.1")
    assert status == 400


async def test_a_message_registers_once_and_a_refusal_shows_what_would_be_accepted(buyer: Buyer) -> None:
    who, url = DEV[2], "http://127.0.0.1:9/hook"
    good = registration(who, url, service=buyer.service.url)
    elsewhere = registration(who, url, service="https://elsewhere.example")
    status, answer = await _register(buyer, elsewhere, "10.9.3.1")
    assert (status, answer["error"]) == (422, "invalid_wallet"), answer
    text = answer["details"]["message"]
    assert text in answer["hint"]
    signature = Account.sign_message(encode_defunct(text=text), who.private_key).signature
    shown = {**good, "message": text, "signature": "0x" + bytes(signature).hex()}
    assert (await _register(buyer, shown, "10.9.3.2"))[0] == 201
    status, answer = await _register(buyer, good, "10.9.3.3")
    assert status == 201, answer
    removed = await buyer.session.delete(f"{buyer.service.api}/webhooks/{answer['webhook']['id']}")
    assert removed.status == 200
    # The recorded request does not bring the webhook back, nor does the other form of the same signature.
    raw = bytes.fromhex(good["signature"][2:])
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    mirrored = raw[:32] + (order - int.from_bytes(raw[32:64])).to_bytes(32) + bytes([55 - raw[64]])
    for again in (good, {**good, "signature": "0x" + mirrored.hex()}):
        status, answer = await _register(buyer, again, "10.9.3.4")
        assert (status, answer["error"]) == (422, "invalid_wallet"), answer


async def test_a_contract_wallet_registers_with_a_signature_it_accepts(buyer: Buyer) -> None:
    chain, url = buyer.service.chain, "http://127.0.0.1:9/hook"
    account = wallets.wallet("a contract wallet with a webhook").address.lower()
    message = registration_message(buyer.service.url, account, url, datetime.now(UTC).isoformat())
    body = {"wallet": account, "url": url, "message": message, "signature": "0x" + "12" * 65}
    chain.ask("anvil_setCode", account, PLAIN_CODE)
    status, answer = await _register(buyer, {**body, "signature": "0x" + "12" * 97}, "10.9.4.1")
    assert (status, answer["error"]) == (422, "invalid_wallet"), answer
    status, answer = await _register(buyer, body, "10.9.4.2")
    assert status == 201, answer


async def test_registering_again_rotates_the_secret(buyer: Buyer) -> None:
    who = DEV[4]
    async with receiver() as there:
        first = await registered(buyer, who, there.url)
        await active(buyer, first["id"])
        second = await registered(buyer, who, there.url)
        assert (second["id"] != first["id"], second["secret"] != first["secret"]) == (True, True)
        assert (await buyer.get(f"/webhooks/{first['id']}"))[0].status == 404
        await active(buyer, second["id"])
        async with buyer.session.post(f"{buyer.service.api}/webhooks/{second['id']}/test") as response:
            assert response.status == 200
        await there.until(lambda: len(there.events()) == 1)
        assert there.deliveries[-1].signed_by(second["secret"])


async def test_an_address_may_request_a_limited_number_of_tests_over_all_webhooks(buyer: Buyer) -> None:
    headers = {"X-Forwarded-For": "203.0.113.77"}
    statuses = []
    for number in range(32):
        url = f"{buyer.service.api}/webhooks/wh_{number:032x}/test"
        async with buyer.session.post(url, headers=headers) as response:
            statuses.append(response.status)
    assert statuses == [404] * 30 + [429] * 2
    assert int(response.headers["Retry-After"]) > 0


async def test_a_test_is_sent_once_and_retries_waiting_events(buyer: Buyer, database_url: str) -> None:
    """The owner of a repaired endpoint need not wait for hours until the next retry."""
    async with receiver() as there, make_pool(database_url, size=1) as pool:
        hook = await registered(buyer, DEV[4], there.url)
        await active(buyer, hook["id"])
        async with pool.connection() as connection:  # as many failures leave it
            await connection.execute(
                "UPDATE agent_webhook SET attempts = 8, attempt_at = now() + interval '7 hours' WHERE id = %s",
                (hook["id"],),
            )
        there.answers = [503]
        url = f"{buyer.service.api}/webhooks/{hook['id']}/test"
        async with buyer.session.post(url) as response:
            assert (await response.json())["note"] == "The endpoint returned status 503."
        async with pool.connection() as connection:
            later = await connection.execute(
                "SELECT attempt_at BETWEEN now() + interval '1 h' AND now() + interval '1 d' FROM agent_webhook"
                " WHERE id = %s",
                (hook["id"],),
            )
            assert await later.fetchone() == (False,)
        async with buyer.session.post(url) as response:
            tested = await response.json()
        assert tested["note"] is None
        assert there.events()[-1] == tested["event"]
        assert len(there.events()) == 2


async def test_the_handshake_is_retried_until_the_challenge_comes_back(buyer: Buyer) -> None:
    who = DEV[5]
    async with receiver() as there:
        there.echo = False
        hook = await registered(buyer, who, there.url)
        await there.until(lambda: len(there.deliveries) >= 2)
        _, body = await buyer.get(f"/webhooks/{hook['id']}")
        assert body["webhook"]["status"] == "pending_verification"
        assert body["webhook"]["failedAttempts"] >= 1
        assert "challenge" in body["webhook"]["lastError"]
        ids = {each.headers["Service-Event-Id"] for each in there.deliveries}
        assert len(ids) == 1
        there.echo = True
        await active(buyer, hook["id"])


async def test_a_webhook_gets_the_events_of_replay_in_order(buyer: Buyer) -> None:
    who = DEV[6]
    async with receiver() as there:
        hook = await registered(buyer, who, there.url)
        await active(buyer, hook["id"])
        there.answers = [503]  # the first attempt of the first event; nothing overtakes it
        for side in ("yes", "no"):
            response, paid = await buyer.buy(bet("hooked", who, side), who)
            assert response.status == 200, paid
        async with buyer.session.post(f"{buyer.service.api}/webhooks/{hook['id']}/test") as response:
            assert response.status == 200  # and what waits is tried at once
            tested = (await response.json())["event"]
        _, replay = await buyer.get("/events/replay", wallet=who.address)
        await there.until(lambda: len(there.events()) == 2 + len(replay["events"]))
        logged = [each for each in there.events() if each["type"] != "test"]
        assert logged == [replay["events"][0], *replay["events"]]
        assert [each["seq"] for each in replay["events"]] == list(range(4))
        # An event without a number carries the newest event's.
        assert [each for each in there.events() if each["type"] == "test"] == [tested]
        assert tested["seq"] == replay["lastSeq"] == 3
    async with receiver() as later:
        await registered(buyer, who, later.url)
        await later.until(lambda: bool(later.deliveries))
        handshake = later.deliveries[0].event
        assert (handshake["type"], handshake["seq"]) == ("webhook.verify", 3)


async def test_a_callback_gets_its_trade_signed_by_the_attestation_key(buyer: Buyer) -> None:
    who = DEV[7]
    async with receiver() as there:
        response, paid = await buyer.buy(bet("hooked", who, callbackUrl=there.url), who)
        assert response.status == 200, paid
        response, other = await buyer.buy(bet("hooked", who, "no"), who)
        assert response.status == 200, other
        await there.until(lambda: len(there.events()) >= 2)
        assert {each["tradeId"] for each in there.events()} == {paid["receipt"]["tradeId"]}
        assert [each["type"] for each in there.events()] == ["bet.settlement_submitted", "bet.placed"]
        for each in there.deliveries:
            stamp = each.headers["Service-Event-Id"] + "." + each.headers["Service-Timestamp"] + "."
            signature = each.headers["Service-Signature"].removeprefix("eip191=")
            signer = Account.recover_message(encode_defunct(stamp.encode() + each.raw), signature=signature)
            assert signer == wallets.ATTESTATION.address
