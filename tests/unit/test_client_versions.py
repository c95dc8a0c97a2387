"""Our client libraries without a service: generated models, versions, signatures, streams, deliveries."""

from __future__ import annotations

import inspect
import json
import re
import time
import tomllib
from typing import Any

import httpx
import pytest
import vpm_client
from eth_account import Account
from eth_keys.datatypes import PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from vpm_client import (
    ApiError,
    AsyncClient,
    Client,
    ContractWallet,
    Cursor,
    DerSigner,
    Payment,
    UnexpectedAnswer,
    Unreachable,
    WebhookRefused,
    WebhookVerifier,
    WrongVersion,
    handshake,
    typed_data,
)
from vpm_client import (
    operations as client_operations,
)
from vpm_client.base import BaseClient
from vpm_client.call import PREFIX, decode, units
from vpm_client.events import EventParser
from vpm_client.models import AgentHealthAnswer
from vpm_client.wallets import ORDER, Wallet, check_signature, request_signature, require_sync

from api.agent.bodies.parts import VERSION as SPOKEN
from api.agent.notices.sending import DeliverySigner
from api.openapi import VERSION
from core import eip3009
from core.agent.attestation import RECEIPT, TYPES, domain_of
from core.agent.bet import Bet, bet_hash, bound_nonce, idem_hash, market_key
from core.contracts.deployments import Token
from scripts._stack import wallets
from tests.support.client_models import CLIENTS, description, files, is_current, operations

KEY = wallets.DEV[0].private_key
ACCOUNT = Account.from_key(KEY)
TOKEN = Token.model_validate(
    {"address": "0x" + "11" * 20, "symbol": "USDC", "decimals": 6, "domainName": "USD Coin", "domainVersion": "2"}
)


# ---------------------------------------------------------------- what is generated, and versions


@pytest.fixture(scope="module")
def described() -> Any:
    return description()


def test_the_generated_models_match_the_published_description(described: Any) -> None:
    stale = [str(path.relative_to(CLIENTS)) for path, text in files(described).items() if not is_current(path, text)]
    assert not stale, f"write it anew with `python -m tests.support.client_models`: {stale}"


def test_both_libraries_have_every_operation_with_all_its_parameters(described: Any) -> None:
    python = set()
    for name, ask in inspect.getmembers(client_operations, lambda each: inspect.getmodule(each) is client_operations):
        parameters = inspect.signature(ask).parameters
        made = ask(**dict.fromkeys(parameters, "x"))
        python.add((made.method, made.path.removeprefix(PREFIX), made.model.__name__, frozenset(made.query)))
        assert name in vars(BaseClient)
    source = (CLIENTS / "typescript" / "src" / "operations.ts").read_text()
    typescript = set()
    for takes, model, method, path, passed in re.findall(
        r"^  \w+\((.*)\): Promise<(\w+)> \{\n    return this\.call\(\"(\w+)\", `(.*?)`(.*)\);$", source, re.MULTILINE
    ):
        query = re.findall(r"(\w+)\??:", takes.partition("query: {")[2])
        assert bool(query) == ("query" in passed)
        typescript.add((method, re.sub(r"\$\{.*?\}", "x", path), model, frozenset(query)))
    assert (
        python
        == typescript
        == {(how, re.sub(r"\{\w+\}", "x", path), *rest) for how, path, *rest in operations(described)}
    )


def test_both_libraries_have_the_version_of_the_description_they_were_made_from() -> None:
    python, typescript = CLIENTS / "python", CLIENTS / "typescript"
    assert tomllib.loads((python / "pyproject.toml").read_text())["project"]["version"] == VERSION
    assert vpm_client.__version__ == VERSION
    assert json.loads((typescript / "package.json").read_text())["version"] == VERSION
    assert f'export const VERSION = "{VERSION}"' in (typescript / "src" / "index.ts").read_text()
    for library in (python, typescript):
        assert f"version {VERSION}, for version {VERSION} of" in (library / "README.md").read_text()


def test_both_libraries_support_the_version_of_the_api() -> None:
    assert vpm_client.API_VERSION == SPOKEN
    assert f'export const API_VERSION = "{SPOKEN}"' in (CLIENTS / "typescript" / "src" / "http.ts").read_text()
    health: dict[str, Any] = {"ok": True, "marketsOpen": 0, "version": "1"}
    nothing = ("lastResolveTickAt", "lastSnapshotTickAt", "lastCanaryAt", "payoutQueueDepth", "reason", "attester")
    health |= dict.fromkeys(nothing)
    meta = {"name": "x", "version": SPOKEN, "generatedAt": "x", "docsUrl": "x"}
    body = {"meta": meta, "health": health, "of a newer API": 1}
    assert decode(AgentHealthAnswer, json.dumps(body).encode()).health.ok
    with pytest.raises(WrongVersion):
        decode(AgentHealthAnswer, json.dumps({**body, "meta": {**meta, "version": "service-agent-api-v2"}}).encode())
    with pytest.raises(UnexpectedAnswer):
        decode(AgentHealthAnswer, b"<html>")


# ---------------------------------------------------------------- errors


def test_an_api_error_has_code_field_hint_and_payment_state() -> None:
    body = {
        "error": "invalid_request",
        "message": "A field is wrong.",
        "hint": "Correct it.",
        "retriable": False,
        "requestId": "r1",
        "issues": [{"field": "sizeUsd", "problem": "must be a number"}],
    }
    error = ApiError(400, {"retry-after": "7"}, json.dumps(body).encode())
    assert (error.code, error.field, error.hint, error.retry_after) == ("invalid_request", "sizeUsd", "Correct it.", 7)
    assert (error.payment, error.may_have_paid) == (Payment.NONE, False)


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"[]", b"\xff", b'{"error": "new_one"}'])
def test_an_answer_from_elsewhere_is_an_error_without_a_code(body: bytes) -> None:
    error = ApiError(502, {}, body)
    assert (error.code, error.retriable) == ("", True)


# ---------------------------------------------------------------- what is signed


@given(
    market=st.text(min_size=1, max_size=40),
    outcome=st.integers(0, 7),
    amount=st.integers(1, 10**15),
    least=st.integers(0, 10**15),
    key=st.text(min_size=8, max_size=40),
    builder=st.none() | st.just("0x" + "ab" * 20),
    ref=st.none() | st.from_regex(r"\A[A-Za-z0-9:_-]{1,32}\Z"),
)
def test_the_bet_hash_equals_the_services(
    market: str, outcome: int, amount: int, least: int, key: str, builder: str | None, ref: str | None
) -> None:
    contract = "0x" + "22" * 20
    more = {} if builder is None else {"builder": builder}
    bet = Bet(
        market_key(market),
        outcome,
        amount,
        least,
        ACCOUNT.address,
        idem_hash(key),
        ref=(ref or "").encode().ljust(32, b"\0"),
        **more,
    )
    ours = typed_data.bet_hash(
        contract=contract,
        market_key=typed_data.market_key(market),
        outcome=outcome,
        amount=amount,
        min_shares=least,
        wallet=ACCOUNT.address,
        idem_key=key,
        builder=builder,
        ref=ref,
    )
    assert ours == bet_hash(bet, typed_data.CHAIN_ID, contract)
    assert typed_data.bound_nonce(ours) == bound_nonce(ours)


def payment() -> typed_data.TypedData:
    return typed_data.authorization(
        token=TOKEN.address,
        name=TOKEN.domain_name,
        version=TOKEN.domain_version,
        payer=ACCOUNT.address,
        to="0x" + "33" * 20,
        value=5_000_000,
        until=1_800_000_000,
        nonce=b"\7" * 32,
    )


def test_an_authorization_has_the_digest_that_the_token_checks() -> None:
    typed = payment()
    assert typed_data.digest_of(typed) == eip3009.digest(eip3009.RECEIVE, typed.message, TOKEN, typed_data.CHAIN_ID)


def test_a_receipt_has_the_digest_that_the_service_signs() -> None:
    payload = {
        "version": 1, "network": "eip155:8453", "resourceUrl": "x#0x1", "payer": "0x2", "issuedAt": 3,
        "transaction": "0x4",
    }  # fmt: skip
    signed = Account.sign_typed_data(
        KEY, domain_data=domain_of(RECEIPT), message_types={RECEIPT: TYPES[RECEIPT]}, message_data=payload
    )
    assert (
        typed_data.signer_of(typed_data.digest_of(typed_data.signed_receipt(payload)), bytes(signed.signature))
        == ACCOUNT.address
    )


class Digests:
    """A key that signs a digest, with v counted from 0."""

    address = ACCOUNT.address

    def sign_digest(self, digest: bytes) -> bytes:
        return bytes(PrivateKey(bytes.fromhex(KEY[2:])).sign_msg_hash(digest).to_bytes())


def der(digest: bytes, *, high: bool) -> bytes:
    """Sign like a key service, which returns DER, every other time with the higher of the two valid s."""
    made = PrivateKey(bytes.fromhex(KEY[2:])).sign_msg_hash(digest)
    numbers = (made.r, ORDER - made.s if high else made.s)
    parts = b"".join(b"\2" + bytes([len(each)]) + each for each in (_minimal(number) for number in numbers))
    return b"\x30" + bytes([len(parts)]) + parts


def _minimal(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1)


def signature_of(wallet: Wallet) -> bytes:
    return check_signature(wallet, payment(), require_sync(request_signature(wallet, payment())))


@pytest.mark.parametrize(
    "wallet",
    [
        ACCOUNT,
        Digests(),
        DerSigner(ACCOUNT.address, lambda digest: der(digest, high=False)),
        DerSigner(ACCOUNT.address, lambda digest: der(digest, high=True)),
    ],
    ids=["eth-account", "digest", "der", "der, high s"],
)
def test_every_kind_of_wallet_makes_signatures_the_token_accepts(wallet: Any) -> None:
    signature = signature_of(wallet)
    assert int.from_bytes(signature[32:64]) <= ORDER // 2
    assert typed_data.signer_of(typed_data.digest_of(payment()), signature) == ACCOUNT.address


def test_a_signature_of_another_key_is_not_sent() -> None:
    class Stranger(Digests):
        address = wallets.DEV[1].address

    with pytest.raises(ValueError, match="not by"):
        signature_of(Stranger())
    with pytest.raises(ValueError, match="not by"):
        signature_of(DerSigner(wallets.DEV[1].address, lambda digest: der(digest, high=False)))
    # What a contract accepts is for it to say.
    assert signature_of(ContractWallet(wallets.DEV[1].address, ACCOUNT))


@pytest.mark.parametrize(("amount", "wanted"), [(1, 10**6), ("2.5", 2_500_000), (0.1, 100_000), ("0.000001", 1)])
def test_amounts_are_exact(amount: Any, wanted: int) -> None:
    assert units(amount) == wanted


@pytest.mark.parametrize("amount", ["0.0000001", float("nan"), float("inf")])
def test_invalid_amounts_are_refused(amount: Any) -> None:
    with pytest.raises(ValueError, match=r"amount|decimals"):
        units(amount)


# ---------------------------------------------------------------- events


def event(seq: int) -> dict[str, Any]:
    return {
        "eventId": f"evt_{seq}", "seq": seq, "type": "test", "createdAt": "x", "wallet": None, "marketId": None,
        "tradeId": None, "payload": {}, "proofUrl": None,
    }  # fmt: skip


def lines(*seqs: int) -> list[str]:
    frames = (f"id: {seq}\ndata: {json.dumps(event(seq))}\n\n" for seq in seqs)
    return ("retry: 1000\n: hello\n\n" + "".join(frames)).split("\n")


def read(frames: EventParser, *seqs: int) -> list[int]:
    found = [frames.line(line) for line in lines(*seqs)]
    return [each.seq for each in found if each is not None]


def test_each_event_comes_once_and_a_gap_ends_the_stream() -> None:
    cursor = Cursor(next_seq=1)
    frames = EventParser(cursor, contiguous=True)
    assert read(frames, 0, 1, 2, 2, 1) == [1, 2]
    with pytest.raises(Unreachable, match="before 5"):
        read(frames, 5)
    assert (cursor.next_seq, cursor.headers) == (3, {"Last-Event-ID": "2"})
    assert Cursor().headers == {}


@pytest.mark.parametrize(("whole", "seqs"), [(True, (5, 6)), (False, (5, 9))])
def test_a_new_stream_and_the_stream_of_one_trade_may_have_gaps(whole: bool, seqs: tuple[int, ...]) -> None:
    assert read(EventParser(Cursor(next_seq=3), contiguous=whole), *seqs) == [*seqs]


def test_an_event_cut_off_by_a_break_is_dropped() -> None:
    frames = EventParser(Cursor(), contiguous=True)
    assert [frames.line(line) for line in (f"data: {json.dumps(event(0))}", "id: 0")] == [None, None]


# ---------------------------------------------------------------- webhooks

SECRET = "whsec_of_a_test"
BODY = json.dumps({**event(3), "payload": {"challenge": "c1"}, "type": "webhook.verify"}).encode()


def delivery(signer: DeliverySigner, secret: str | None, *, at: int | None = None) -> dict[str, str]:
    return dict(signer.headers("evt_3", BODY, secret, int(time.time()) if at is None else at))


def test_a_delivery_is_accepted_once() -> None:
    verifier, headers = WebhookVerifier(SECRET), delivery(DeliverySigner(None), SECRET)
    found = verifier.verify(headers, BODY)
    assert (found.event_id, handshake(found)) == ("evt_3", {"challenge": "c1"})
    with pytest.raises(WebhookRefused, match="already received"):
        verifier.verify(headers, BODY)
    # A retry of the service has another time: it is the same event, and taken.
    assert verifier.verify(delivery(DeliverySigner(None), SECRET, at=int(time.time()) + 10), BODY).event_id == "evt_3"


@pytest.mark.parametrize("away", [-301, 301, None])
def test_a_delivery_too_old_or_from_the_future_is_refused(away: int | None) -> None:
    headers = delivery(DeliverySigner(None), SECRET, at=int(time.time()) + (away or 0))
    if away is None:
        headers["Service-Timestamp"] = "9" * 5_000  # too long for a number
    with pytest.raises(WebhookRefused, match="from now"):
        WebhookVerifier(SECRET).verify(headers, BODY)


@pytest.mark.parametrize("part", ["Service-Event-Id", "Service-Timestamp", "Service-Signature", "body"])
def test_a_changed_delivery_is_refused(part: str) -> None:
    headers, body = delivery(DeliverySigner(None), SECRET), BODY
    if part == "body":
        body = BODY.replace(b"c1", b"c2")
    else:
        last = headers[part][-1]
        headers[part] = headers[part][:-1] + ("1" if last != "1" else "2")
    with pytest.raises(WebhookRefused):
        WebhookVerifier(SECRET).verify(headers, body)
    with pytest.raises(WebhookRefused):
        WebhookVerifier(SECRET).verify({each: value for each, value in headers.items() if each != part}, body)


def test_a_callback_is_signed_by_the_attestation_key() -> None:
    attester = wallets.ATTESTATION
    headers = delivery(DeliverySigner(attester.private_key), None)
    assert WebhookVerifier(attester=attester.address).verify(headers, BODY).event_id == "evt_3"
    with pytest.raises(WebhookRefused, match="not the service's"):
        WebhookVerifier(attester=wallets.DEV[0].address).verify(headers, BODY)


# ---------------------------------------------------------------- a stream whose gap cannot be read at once


class Missing:
    """A service whose first stream skips an event, and that is too busy for the second request."""

    def __init__(self) -> None:
        self.asked: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.headers.get("Last-Event-ID"))
        if len(self.asked) == 2:
            busy = {"error": "rate_limited", "message": "Too many requests.", "retriable": True}
            return httpx.Response(429, headers={"Retry-After": "600"}, json=busy)
        seqs = (0, 2) if len(self.asked) == 1 else (1, 2)
        return httpx.Response(200, text="".join(f"id: {each}\ndata: {json.dumps(event(each))}\n\n" for each in seqs))


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_a_stream_that_skips_an_event_is_reopened(
    kind: type[Client] | type[AsyncClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("client", "aio"):
        monkeypatch.setattr(f"vpm_client.{module}.PAUSE_SECONDS", 0.0)
    service = Missing()
    seen: list[int | None] = []
    transport = httpx.MockTransport(service)
    if kind is AsyncClient:
        async with httpx.AsyncClient(transport=transport) as http:
            async for found in AsyncClient("http://127.0.0.1", http=http).events(ACCOUNT.address):
                seen.append(found.seq)
                if len(seen) == 3:
                    break
    else:
        with httpx.Client(transport=transport) as http:
            for found in Client("http://127.0.0.1", http=http).events(ACCOUNT.address):
                seen.append(found.seq)
                if len(seen) == 3:
                    break
    assert (seen, service.asked) == ([0, 1, 2], [None, "0", "0"])
