"""Our client libraries against a running service: whole bets, refused challenges and receipts, wallets, events."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from eth_account import Account
from eth_keys.datatypes import PrivateKey
from eth_utils.crypto import keccak
from vpm_client import (
    ApiError,
    AsyncClient,
    Client,
    ContractWallet,
    OutcomeUnknown,
    Payment,
    PaymentRefused,
    ReceiptWrong,
    Ticket,
    Unreachable,
    Untrusted,
    VpmError,
    WebhookVerifier,
    handshake,
)

from api.agent.notices.sending import DeliverySigner
from core.chain import checksum
from core.db.engine import conninfo
from core.money import USD
from core.paths import REPOSITORY
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_payments import YES_CODE
from tests.support.agent_service import AgentService
from tests.support.client_bets import (
    Async,
    Attempt,
    Library,
    Sync,
    TypeScript,
    python_error,
)
from tests.support.client_libraries import async_strangers, built, environment, strangers
from tests.support.gateway import Change, Rule, gateway
from tests.support.webhook_receiver import receiver

DEV = wallets.DEV
POOR = wallets.wallet("without money")
CLIENTS = REPOSITORY / "api" / "clients"


@pytest.fixture(
    params=[Sync, *(pytest.param(each, marks=pytest.mark.thorough) for each in (Async, TypeScript))],
    ids=["sync", "async", "typescript"],
)
def library(request: pytest.FixtureRequest, quick_service: AgentService) -> Library:
    made: Library = request.param(quick_service)
    return made


# ---------------------------------------------------------------- whole bets


@pytest.mark.parametrize("size", [2.5, 25])
@pytest.mark.thorough
async def test_one_call_is_a_whole_bet(
    library: Library, quick_service: AgentService, quick_market: str, size: float
) -> None:
    who = DEV[0]
    before = quick_service.chain.balance(who.address)
    placed = await library.bet(who, quick_market, "yes", size, final=True)
    assert (placed["final"], placed["replay"]) == (True, False)
    assert placed["attester"].lower() == wallets.ATTESTATION.address.lower()
    ticket = placed["ticket"]
    assert ("quoteId" in ticket) is (size > 10)
    stake = quick_service.chain.stake(who.address, ticket["idemKey"])
    assert stake["amount"] == round(size * USD)
    assert before - quick_service.chain.balance(who.address) == stake["amount"]
    # Shown to its keeper before it was paid for, and again, signed, before that was sent.
    first, *_, last = placed["kept"]
    assert "payment" not in first
    assert last["payment"]
    assert {each["idemKey"] for each in placed["kept"]} == {ticket["idemKey"]}


@pytest.mark.thorough
async def test_a_ticket_placed_again_is_the_same_bet(
    library: Library, quick_service: AgentService, quick_market: str
) -> None:
    """This holds across libraries: a ticket is plain JSON with the same fields in both."""
    who = DEV[1]
    placed = await library.bet(who, quick_market, "no", 1.25)
    before = quick_service.chain.balance(who.address)
    for each in (library, Sync(quick_service), TypeScript(quick_service)):
        again = await each.place(who, placed["ticket"])
        assert (again["replay"], again["tradeId"]) == (True, placed["tradeId"])
    assert quick_service.chain.balance(who.address) == before


@pytest.mark.thorough
async def test_the_readmes_first_example_runs(quick_service: AgentService, quick_market: str) -> None:
    first = {}
    for name in ("python", "typescript"):
        text = (CLIENTS / name / "README.md").read_text()
        first[name] = re.findall(rf"```{name}\n(.*?)```", text, re.DOTALL)[0]
    place = _compiled(first["typescript"])
    for command in ([sys.executable, "-c", first["python"]], ["node", str(place)]):
        env = {**environment(), "VPM_URL": quick_service.url, "VPM_KEY": DEV[2].private_key}
        env["PYTHONPATH"] = str(CLIENTS / "python" / "src")
        done = await asyncio.to_thread(subprocess.run, command, env=env, capture_output=True, text=True, timeout=90)
        assert done.returncode == 0, done.stderr
        assert re.search(r"final: true receipt signed by: 0x", done.stdout, re.IGNORECASE), done.stdout


def _compiled(example: str) -> Path:
    source = built() / "example.mts"
    source.write_text(example)
    (built() / "process.d.ts").write_text("declare const process: { env: Record<string, string | undefined> };\n")
    strict = ["--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck"]
    compiler = [str(REPOSITORY / "node_modules" / ".bin" / "tsc"), *strict, "process.d.ts", "example.mts"]
    done = subprocess.run(compiler, cwd=built(), env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return source.with_suffix(".mjs")


@pytest.mark.thorough
def test_the_python_package_installs_and_stands_alone(tmp_path: Path) -> None:
    """It is built and installed without a network; its other requirements are declared."""
    place = tmp_path / "site"
    install = ["uv", "pip", "install", "--offline", "--no-deps", "--target", str(place), str(CLIENTS / "python")]
    subprocess.run(install, check=True, capture_output=True, cwd=tmp_path, env={**os.environ, "UV_LINK_MODE": "copy"})
    assert (place / "vpm_client" / "py.typed").exists()
    look = "import sys, vpm_client; print(vpm_client.__file__, *sorted(set(sys.modules) & {'core', 'api', 'scripts'}))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", look],
        env={**environment(), "PYTHONPATH": str(place)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(place / "vpm_client" / "__init__.py")


@pytest.mark.thorough
def test_threads_may_decode_their_first_answers_at_once() -> None:
    """It runs in a separate process, because the defect crashed the process."""
    met = subprocess.run(
        [sys.executable, "-P", str(REPOSITORY / "tests" / "clients" / "threads.py")],
        env={**environment(), "PYTHONPATH": str(CLIENTS / "python" / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert met.returncode == 0, met.stderr
    assert re.fullmatch(r"\d\d met\n", met.stdout), met.stdout


@pytest.mark.thorough
async def test_reads_are_typed_and_default_to_the_clients_wallet(
    quick_service: AgentService, quick_market: str
) -> None:
    def read() -> None:
        with strangers() as http:
            client = Client(quick_service.url, Account.from_key(DEV[3].private_key), http=http)
            assert client.market(quick_market).market.id == quick_market
            assert client.research(quick_market).research.market.id == quick_market
            assert client.positions().wallet == DEV[3].address.lower()
            assert client.readiness(DEV[3].address).readiness.can_bet_min
            assert client.replay().events == []
            assert client.health().health.ok
            assert client.stats().stats.markets.open >= 1
            assert client.getting_started().steps
            assert client.discover(q="bnkr").meta.freshness.block > 0
            assert client.sentiment("BNKR").token
            assert client.result(quick_market).result.status == "pending"
            assert client.resolved().events == []

    await asyncio.to_thread(read)
    said = await TypeScript(quick_service).ask(DEV[3], "reads")
    assert (said["markets"], said["positions"]) == (1, 0)


# ---------------------------------------------------------------- wallets


class Digests:
    """A key that signs a digest asynchronously, like a key service."""

    def __init__(self, who: Wallet) -> None:
        self.address = who.address
        self._key = PrivateKey(bytes.fromhex(who.private_key[2:]))

    async def sign_digest(self, digest: bytes) -> bytes:
        await asyncio.sleep(0)
        return bytes(self._key.sign_msg_hash(digest).to_bytes())


@pytest.mark.thorough
async def test_a_wallet_may_be_a_key_service(quick_service: AgentService, quick_market: str) -> None:
    async with async_strangers() as http:
        placed = await AsyncClient(quick_service.url, Digests(DEV[4]), http=http).bet(
            quick_market, "yes", 1, final=False
        )
    assert quick_service.chain.stake(DEV[4].address, placed.ticket.idem_key)["amount"] == USD
    with strangers() as http_sync, pytest.raises(TypeError, match="AsyncClient"):
        await asyncio.to_thread(Client(quick_service.url, Digests(DEV[4]), http=http_sync).bet, quick_market, "yes", 1)


@pytest.mark.thorough
@pytest.mark.parametrize("signer", ["viem", "digest", "der"])
async def test_a_typescript_wallet_is_any_of_three(quick_service: AgentService, quick_market: str, signer: str) -> None:
    request = {"market": quick_market, "side": "no", "sizeUsd": 1}
    said = await TypeScript(quick_service).ask(DEV[4], "bet", request=request, signer=signer)
    assert "placed" in said, said
    assert quick_service.chain.stake(DEV[4].address, said["placed"]["ticket"]["idemKey"])["amount"] == USD


async def test_a_wallet_may_be_a_contract(quick_service: AgentService, quick_market: str) -> None:
    address = checksum("0x" + keccak(text="a contract that accepts")[12:].hex())
    quick_service.chain.ask("anvil_setCode", address, YES_CODE)
    quick_service.chain.give(address, 5 * USD)
    wallet = ContractWallet(address, Account.from_key(DEV[5].private_key))
    with strangers() as http:
        client = Client(quick_service.url, wallet, http=http)
        placed = await asyncio.to_thread(client.bet, quick_market, "yes", 1, final=False)
    assert quick_service.chain.stake(address, placed.ticket.idem_key)["amount"] == USD


# ---------------------------------------------------------------- what is refused, and what is known of the payment


@pytest.mark.thorough
async def test_a_refusal_says_what_is_wrong_and_whether_it_was_paid(
    quick_service: AgentService, quick_market: str
) -> None:
    def refused(act: Callable[[], object]) -> ApiError:
        error = python_error(act)
        assert isinstance(error, ApiError)
        return error

    def refusals_of(client: Client) -> None:
        unknown = refused(lambda: client.bet("nowhere", "yes", 1))
        assert unknown.code == "market_not_found"
        side = refused(lambda: client.bet(quick_market, "perhaps", 1))
        assert side.code == "invalid_side"
        field = refused(lambda: client.markets(limit=500))
        assert field.code == "invalid_request"
        assert field.field == "limit"
        assert field.hint
        assert {each.payment for each in (unknown, side, field)} == {Payment.NONE}
        # Signed and sent, and the service says for good that it took nothing.
        poor = refused(lambda: client.bet(quick_market, "yes", 1))
        assert poor.code == "insufficient_balance"
        assert (poor.payment, poor.may_have_paid) == (Payment.REFUSED, False)
        assert poor.signed_until is not None
        assert poor.ticket.market_id == quick_market

    with strangers() as http:
        await asyncio.to_thread(refusals_of, Client(quick_service.url, Account.from_key(POOR.private_key), http=http))
    said = await TypeScript(quick_service).ask(
        POOR, "bet", request={"market": quick_market, "side": "yes", "sizeUsd": 1}
    )
    error = said["error"]
    assert (error["code"], error["payment"], error["mayHavePaid"]) == ("insufficient_balance", "refused", False)
    said = await TypeScript(quick_service).ask(POOR, "bet", request={"market": "nowhere", "side": "yes", "sizeUsd": 1})
    assert (said["error"]["code"], said["error"]["payment"]) == ("market_not_found", "none")


BOTH = [Sync, TypeScript]


def on_trades(status: int, change: Callable[[Any], object]) -> Rule:
    return lambda request: Change(status, change) if request.path.endswith("/trade") else None


OFFERS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a larger amount": ("maxAmountRequired", lambda offer: offer.update(maxAmountRequired="9000000")),
    "another payee": ("payTo", lambda offer: offer.update(payTo=POOR.address)),
    "another bet": ("receiveNonce", lambda offer: offer["extra"].update(receiveNonce="0x" + "07" * 32)),
    "another form": ("Type", lambda offer: offer["extra"].update(receivePrimaryType="TransferWithAuthorization")),
}


def cases(lies: Iterable[str], ordinary: str | None = None) -> list[Any]:
    """Return every lie for each library; for TypeScript all but the ordinary one are thorough tests."""
    return [
        pytest.param(kind, lie, marks=() if kind is Sync or lie == ordinary else pytest.mark.thorough)
        for kind in BOTH
        for lie in lies
    ]


@pytest.mark.parametrize(("kind", "lie"), cases(OFFERS, "another payee"))
async def test_a_challenge_for_anything_else_is_not_signed(
    quick_service: AgentService, quick_market: str, kind: type[Sync | TypeScript], lie: str
) -> None:
    named, change = OFFERS[lie]
    async with gateway(quick_service.url, on_trades(402, lambda body: change(body["accepts"][0]))) as liar:
        outcome = await kind(quick_service).try_bet(DEV[5], Attempt(liar.url, quick_market))
    assert (outcome.error, outcome.payment) == ("Untrusted", "none")
    assert named in outcome.message
    assert liar.paid == []


async def test_required_addresses_are_enforced(quick_service: AgentService, quick_market: str) -> None:
    account = Account.from_key(DEV[5].private_key)

    def refused(**insisted: str) -> VpmError:
        with strangers() as http:
            client = Client(quick_service.url, account, http=http, **insisted)  # type: ignore[arg-type]
            return python_error(lambda: client.bet(quick_market, "yes", 1, final=False))

    for insisted in ({"token": POOR.address}, {"contract": POOR.address}):
        error = await asyncio.to_thread(refused, **insisted)
        assert isinstance(error, Untrusted)
        assert error.payment is Payment.NONE
    error = await asyncio.to_thread(refused, attester=POOR.address)
    assert isinstance(error, ReceiptWrong)
    assert (error.payment, error.may_have_paid) == (Payment.MADE, True)


def signed(body: Any) -> Any:
    return body["extensions"]["offer-receipt"]["info"]["receipt"]


RECEIPTS: dict[str, Callable[[Any], None]] = {
    "fewer shares": lambda body: body["receipt"]["position"].update(shares=0.000001),
    "another side": lambda body: body["receipt"].update(side="no"),
    "another trade": lambda body: body["receipt"].update(tradeId="0x" + "05" * 32, intentHash="0x" + "05" * 32),
    "another transaction": lambda body: body["receipt"].update(txHash="0x" + "05" * 32),
    "another signature": lambda body: signed(body).update(signature="0x" + "05" * 64 + "1b"),
    "a signed statement of another": lambda body: signed(body)["payload"].update(payer=POOR.address),
    "no signature": lambda body: body.pop("extensions"),
}


@pytest.mark.parametrize(("kind", "lie"), cases(RECEIPTS))
async def test_a_receipt_for_another_bet_is_refused(
    quick_service: AgentService, quick_market: str, kind: type[Sync | TypeScript], lie: str
) -> None:
    who = DEV[list(RECEIPTS).index(lie)]  # each has its own rate limit
    async with gateway(quick_service.url, on_trades(200, RECEIPTS[lie])) as liar:
        outcome = await kind(quick_service).try_bet(who, Attempt(liar.url, quick_market))
    assert (outcome.error, outcome.payment) == ("ReceiptWrong", "made"), outcome
    # The bet was made: through the service itself, the same ticket has its receipt.
    placed = await kind(quick_service).place(who, outcome.ticket)
    assert placed["replay"]


@pytest.mark.thorough
async def test_an_unknown_outcome_is_resolved_later(quick_service: AgentService, quick_market: str) -> None:
    """While the relayer is down the service has the payment but no outcome. The same ticket makes one bet, whichever
    client places it."""
    who = DEV[6]
    before = quick_service.chain.balance(who.address)
    with strangers() as http:
        client = Client(quick_service.url, Account.from_key(who.private_key), http=http, patience_seconds=4)
        ticket = await asyncio.to_thread(client.prepare, quick_market, "yes", 3)
        signing = asyncio.Event()
        loop = asyncio.get_running_loop()

        def keep(each: Ticket) -> None:
            if each.payment is not None:
                quick_service.kill("relayer")
                loop.call_soon_threadsafe(signing.set)

        error = await asyncio.to_thread(python_error, lambda: client.place(ticket, final=False, keep=keep))
    assert signing.is_set()
    quick_service.start("relayer")
    assert isinstance(error, OutcomeUnknown)
    assert (error.payment, error.may_have_paid) == (Payment.UNKNOWN, True)
    kept = json.loads(error.ticket.to_json())
    assert kept["payment"]
    placed = [await each.place(who, kept) for each in (TypeScript(quick_service), Sync(quick_service))]
    assert placed[0]["tradeId"] == placed[1]["tradeId"] == ticket.trade_id
    assert before - quick_service.chain.balance(who.address) == 3 * USD


async def test_an_unreachable_api_means_nothing_was_paid(quick_service: AgentService) -> None:
    account = Account.from_key(DEV[6].private_key)
    with httpx.Client(trust_env=False) as http:
        client = Client("http://127.0.0.1:9", account, http=http, patience_seconds=1)
        error = await asyncio.to_thread(python_error, lambda: client.bet("any", "yes", 1))
    assert isinstance(error, Unreachable)
    assert error.payment is Payment.NONE


async def test_an_expired_payment_is_signed_again_with_the_same_nonce(
    quick_service: AgentService, quick_market: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client with a wrong clock is refused; then a client with the right time places its ticket."""
    who = DEV[6]
    before = quick_service.chain.balance(who.address)
    right = time.time
    with strangers() as http:
        client = Client(quick_service.url, Account.from_key(who.private_key), http=http)
        monkeypatch.setattr("vpm_client.betting.time.time", lambda: right() - 600)
        error = await asyncio.to_thread(python_error, lambda: client.bet(quick_market, "no", 2, final=False))
        monkeypatch.undo()
        assert isinstance(error, PaymentRefused)
        assert "validBefore" in str(error)
        first = error.ticket.payment
        placed = await asyncio.to_thread(client.place, error.ticket, final=False)
    assert placed.ticket.payment is not None
    assert placed.ticket.payment.valid_before > first.valid_before
    assert placed.receipt.trade_id == error.ticket.trade_id
    assert before - quick_service.chain.balance(who.address) == 2 * USD


@pytest.mark.parametrize(
    "kind", [Sync, pytest.param(TypeScript, marks=pytest.mark.thorough)], ids=["python", "typescript"]
)
async def test_an_expired_price_lock_is_renewed_for_the_same_bet(
    quick_service: AgentService, quick_market: str, kind: type[Library]
) -> None:
    """Its limits and hash stay the same, so the payment does as well."""
    who = DEV[6]
    with strangers() as http:
        client = Client(quick_service.url, Account.from_key(who.private_key), http=http)
        ticket = await asyncio.to_thread(client.prepare, quick_market, "yes", 12, min_shares=1)
    with psycopg.connect(conninfo(quick_service.env["DATABASE_URL"]), autocommit=True) as connection:
        query = "UPDATE agent_quote SET expires_at = now() - interval '1 minute' WHERE quote_id = %s"
        assert connection.execute(query, (ticket.quote_id,)).rowcount == 1
    placed = await kind(quick_service).place(who, json.loads(ticket.to_json()))
    assert placed["ticket"]["quoteId"] != ticket.quote_id
    assert placed["tradeId"] == ticket.trade_id
    assert quick_service.chain.stake(who.address, ticket.idem_key)["amount"] == 12 * USD


async def test_a_signature_is_valid_for_minutes_whatever_the_challenge_asks(
    quick_service: AgentService, quick_market: str
) -> None:
    longest = time.time() + 630
    lie = on_trades(402, lambda body: body["accepts"][0].update(maxTimeoutSeconds=315_360_000))
    async with gateway(quick_service.url, lie) as liar:
        with strangers() as http:
            client = Client(liar.url, Account.from_key(DEV[2].private_key), http=http)
            error = await asyncio.to_thread(python_error, lambda: client.bet(quick_market, "yes", 1, final=False))
    assert isinstance(error, PaymentRefused)  # by the service, which takes two minutes
    assert error.signed_until is not None
    assert error.signed_until < longest


# ---------------------------------------------------------------- events


@pytest.mark.thorough
async def test_a_stream_has_every_event_once_despite_breaks(
    library: Library, quick_service: AgentService, quick_market: str
) -> None:
    who = DEV[7]
    await Sync(quick_service).bet(who, quick_market, "yes", 1)
    with strangers() as http:
        client = Client(quick_service.url, http=http)
        start = (await asyncio.to_thread(client.replay, wallet=who.address)).last_seq or 0
    reading = asyncio.create_task(library.events(who, 5, start))
    for side in ("yes", "no"):
        await Sync(quick_service).bet(who, quick_market, side, 1)
        await asyncio.to_thread(quick_service.kill, "api")
        await asyncio.to_thread(quick_service.start, "api")
    # The newest before, and of each bet that it was sent and that it was placed.
    assert await asyncio.wait_for(reading, 60) == list(range(start, start + 5))


# ---------------------------------------------------------------- webhooks


@pytest.fixture
async def hook() -> AsyncIterator[Any]:
    async with receiver() as made:
        yield made


@pytest.mark.thorough
async def test_a_webhook_is_registered_and_its_deliveries_verify(
    quick_service: AgentService, quick_market: str, hook: Any
) -> None:
    who = DEV[3]
    async with async_strangers() as http:
        client = AsyncClient(quick_service.url, Account.from_key(who.private_key), http=http)
        webhook = (await client.register_webhook(hook.url)).webhook
        await hook.until(lambda: bool(hook.deliveries))
        assert webhook.secret is not None
        verifier = WebhookVerifier(webhook.secret)
        greeting = verifier.verify(hook.deliveries[0].headers, hook.deliveries[0].raw)
        answer = handshake(greeting)
        assert answer is not None
        await client.bet(quick_market, "yes", 1, final=False)
        await hook.until(lambda: any(each["type"] == "bet.placed" for each in hook.events()))
        for delivery in hook.deliveries[1:]:
            event = verifier.verify(delivery.headers, delivery.raw)
            assert handshake(event) is None
        assert (await client.delete_webhook(webhook.id)).deleted
    said = await TypeScript(quick_service).ask(who, "register", url=hook.url)
    assert said["webhook"]["secret"]


@pytest.mark.thorough
async def test_the_typescript_library_verifies_deliveries(quick_service: AgentService) -> None:
    now, secret, attester = int(time.time()), "whsec_of_a_test", wallets.ATTESTATION
    body = json.dumps({"eventId": "evt_1", "seq": 1, "type": "test", "payload": {}}).encode()
    webhook, callback = (
        DeliverySigner(None).headers("evt_1", body, secret, now),
        DeliverySigner(attester.private_key).headers("evt_1", body, None, now),
    )
    by_secret, by_key = {"secret": secret}, {"attester": attester.address}

    def case(given: Any, headers: Any, content: bytes = body, at: int = now) -> Any:
        return {"given": given, "headers": headers, "body": content.hex(), "now": at}

    good = [case(by_secret, webhook), case(by_key, callback)]
    bad = [
        case(by_secret, webhook, body.replace(b"test", b"tests")),
        case(by_secret, {**webhook, "Service-Event-Id": "evt_2"}),
        case(by_secret, {**webhook, "Service-Timestamp": str(now + 1)}),
        case(by_secret, {**webhook, "Service-Signature": "v1=" + "0" * 64}),
        case(by_secret, {name: value for name, value in webhook.items() if name != "Service-Signature"}),
        case({"secret": "another"}, webhook),
        case({"attester": POOR.address}, callback),
        case(by_secret, webhook, at=now + 301),
        case(by_secret, webhook, at=now - 301),
    ]
    said = await TypeScript(quick_service).ask(DEV[0], "webhooks", deliveries=[*good, *bad])
    for at in range(len(good)):
        assert said[2 * at] == "evt_1"
        assert "already received" in said[2 * at + 1]["message"]
    assert all(each["name"] == "WebhookRefused" for each in said[2 * len(good) :])
