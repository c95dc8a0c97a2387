"""The payment header and the challenge, without a chain."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import orjson
import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict
from x402.extensions.bazaar.facilitator import validate_discovery_extension_spec
from x402.http.utils import decode_payment_required_header, decode_payment_response_header

from api.agent.chain import AgentContracts
from api.agent.trade import x402
from api.agent.trade.answers import Attester, TradeAnswers
from api.agent.trade.x402 import Offer, PaymentRejected
from api.payments.authorization import Authorization
from api.problems import Problem
from core.agent.bet import bound_nonce
from core.chain import Contract
from core.contracts.deployments import Token
from core.contracts.statuses import Form

WALLET = "0x" + "11" * 20
PAY_TO = "0x" + "22" * 20
NOW = 1_800_000_000
TOKEN = Token(
    symbol="USDC",
    address="0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
    decimals=6,
    domain_name="USD Coin",
    domain_version="2",
)
ADDRESS = Contract(PAY_TO, ())
SELLER = AgentContracts(8453, ADDRESS, ADDRESS, ADDRESS, ADDRESS, TOKEN)


def envelope(**authorization: Any) -> dict[str, Any]:
    given_authorization = {
        "from": WALLET,
        "to": PAY_TO,
        "value": "5000000",
        "validAfter": "0",
        "validBefore": str(NOW + 100),
        "nonce": "0x" + "33" * 32,
        **authorization,
    }
    return {
        "x402Version": 1,
        "scheme": "exact",
        "network": "base",
        "payload": {"signature": "0x" + "44" * 65, "authorization": given_authorization},
    }


def header(content: object) -> str:
    return base64.b64encode(orjson.dumps(content)).decode()


def decoded(**authorization: Any) -> Authorization:
    return x402.decode(header(envelope(**authorization)), SELLER)


def test_numbers_may_be_strings_or_integers() -> None:
    assert decoded() == decoded(value=5_000_000, validAfter=0, validBefore=NOW + 100)
    with pytest.raises(PaymentRejected, match="value"):
        decoded(value="-1")
    with pytest.raises(PaymentRejected, match="value"):
        decoded(value=True)
    with pytest.raises(PaymentRejected, match="value"):
        decoded(value="9" * 79)
    with pytest.raises(PaymentRejected, match="nonce"):
        decoded(nonce="0x12")


@given(st.text(max_size=200))
def test_a_malformed_header_is_refused(text: str) -> None:
    with pytest.raises(PaymentRejected):
        x402.decode(text, SELLER)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
)
def test_malformed_json_is_refused(content: object) -> None:
    with pytest.raises(PaymentRejected):
        x402.decode(header(content), SELLER)
    with pytest.raises(PaymentRejected):
        x402.decode(header({**envelope(), "payload": content}), SELLER)
    with pytest.raises(PaymentRejected):
        x402.decode(header({**envelope_v2(), "payload": content}), SELLER)
    if content is not None:  # an optional part, of the x402 package's own form or not: it is not read
        assert x402.decode(header({**envelope_v2(), "extensions": content, "resource": content}), SELLER) == decoded()
    with pytest.raises(PaymentRejected):
        x402.decode(header({**envelope_v2(), "accepted": content}), SELLER)


CLOSES = NOW + 3_600


def checked(payment: Authorization, *, closes_at: int = CLOSES) -> None:
    x402.check_parties(payment, wallet=WALLET, pay_to=PAY_TO)
    why = x402.mismatch(payment, 5_000_000, BET) or x402.window_fault(
        payment, head_time=NOW - 20, now=NOW, closes_at=closes_at
    )
    if why is not None:
        raise PaymentRejected(why)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"from": PAY_TO}, "from"),
        ({"to": WALLET}, "to"),
        ({"value": "5000001"}, "value"),
        ({"validAfter": NOW}, "validAfter"),
        ({"validAfter": NOW - 20}, "validAfter"),  # the newest block is of that second, and takes what is valid after
        ({"validBefore": NOW + 5}, "validBefore"),
        ({"validBefore": NOW + 181}, "validBefore"),
    ],
)
def test_a_payment_that_does_not_match_the_offer_is_refused_by_field(change: dict[str, Any], name: str) -> None:
    checked(decoded())
    with pytest.raises(PaymentRejected, match=name):
        checked(decoded(**change))


def test_a_payment_is_valid_no_longer_than_bets_are_taken() -> None:
    """But for what payers' clocks differ by; and the last seconds can still be used."""
    assert [x402.seconds_to_pay(NOW, NOW + left) for left in (3_600, 120, 30, 0, -5)] == [120, 120, 30, 0, 0]
    checked(decoded(validBefore=NOW + 30 + 60), closes_at=NOW + 30)
    with pytest.raises(PaymentRejected, match="more than 30 seconds ahead"):
        checked(decoded(validBefore=NOW + 30 + 61), closes_at=NOW + 30)
    checked(decoded(validBefore=NOW + 3), closes_at=NOW + 3)


BET = b"\x33" * 32
MARKED = bound_nonce(BET)


@pytest.mark.parametrize(
    ("nonce", "form"),
    [
        (BET, Form.TRANSFER),
        (b"\x34" * 32, Form.TRANSFER),
        (MARKED, Form.RECEIVE),
        (bound_nonce(bytes(32)), Form.RECEIVE),
    ],
)
def test_the_nonces_mark_alone_decides_the_form(nonce: bytes, form: Form) -> None:
    payment = decoded(nonce="0x" + nonce.hex())
    assert x402.form_of(payment) is form
    assert x402.is_bound_to(payment, BET) is (nonce in (BET, MARKED))


def test_a_bound_authorization_pays_for_its_own_bet_only() -> None:
    bound, marked, random = decoded(validAfter=3009), decoded(nonce="0x" + MARKED.hex()), decoded()
    assert [x402.mismatch(each, each.value, BET) for each in (bound, marked)] == [None, None]
    assert x402.mismatch(random, random.value, b"\x34" * 32) is None  # it is bound to nothing
    why = [x402.mismatch(each, each.value, b"\x34" * 32) or "" for each in (bound, marked)]
    assert "validAfter 3009 binds it to another bet" in why[0]
    assert "mark of bound payments and belongs to another bet" in why[1]


def offer(description: str = "Bet 5 USDC on yes: Will it?", market: str = "m") -> Offer:
    body = {"marketId": market, "side": "yes", "sizeUsd": 5.0, "walletAddress": WALLET, "idemKey": "key-00000001"}
    return Offer(SELLER, "https://vpm.test/api/agent/v1/trade#0xab", description, 5_000_000, 30, BET, body)


SIGNED = {
    "offer-receipt": {"info": {"signer": WALLET, "offers": [{"format": "eip712", "signature": "0x" + "55" * 65}]}}
}
EXTRA = {
    "name": "USD Coin",
    "version": "2",
    "intentNonce": "0x" + BET.hex(),
    "intentValidAfter": "3009",
    "receiveNonce": "0x" + MARKED.hex(),
    "receivePrimaryType": "ReceiveWithAuthorization",
}


def test_the_challenge_has_what_either_form_signs() -> None:
    body = offer().challenge(None, {})
    assert list(body) == ["x402Version", "error", "accepts"]
    assert (body["x402Version"], body["error"]) == (1, None)
    (accepted,) = body["accepts"]
    assert accepted == {
        "scheme": "exact",
        "network": "base",
        "maxAmountRequired": "5000000",
        "resource": "https://vpm.test/api/agent/v1/trade#0xab",
        "description": "Bet 5 USDC on yes: Will it?",
        "mimeType": "application/json",
        "payTo": PAY_TO,
        "maxTimeoutSeconds": 30,
        "asset": TOKEN.address,
        "extra": EXTRA,
    }
    assert offer().challenge("Too late.", SIGNED)["extensions"] == SIGNED


def test_version_2_asks_for_the_same_payment() -> None:
    header = offer().required(None, SIGNED)
    decoded_header = orjson.loads(base64.b64decode(header))
    assert decode_payment_required_header(header).accepts[0].get_amount() == "5000000"
    assert (decoded_header["x402Version"], decoded_header["error"]) == (2, "Payment required.")
    assert decoded_header["accepts"] == [
        {
            "scheme": "exact",
            "network": "eip155:8453",
            "asset": TOKEN.address,
            "amount": "5000000",
            "payTo": PAY_TO,
            "maxTimeoutSeconds": 30,
            "extra": EXTRA,
        }
    ]
    assert set(decoded_header["resource"]) == {"url", "description", "mimeType", "serviceName", "tags"}
    assert set(decoded_header["extensions"]) == {"bazaar", "offer-receipt"}
    assert validate_discovery_extension_spec(decoded_header["extensions"]["bazaar"]).valid
    for each in decoded_header["extensions"].values():
        assert set(each) == {"info", "schema"}
        jsonschema.validate(each["info"], each["schema"])


def test_the_challenge_header_stays_within_what_proxies_accept() -> None:
    """The example call is dropped first; the terms and the signed offer stay."""
    long = offer("d" * 3_000, "\x01" * 200).required("e" * 300, SIGNED)
    assert len(long) <= 4_096
    assert set(orjson.loads(base64.b64decode(long))["extensions"]) == {"offer-receipt"}


def envelope_v2(terms: dict[str, Any] | None = None, **authorization: Any) -> dict[str, Any]:
    (accepted,) = orjson.loads(base64.b64decode(offer().required(None, {})))["accepts"]
    payload = envelope(**authorization)["payload"]
    return {"x402Version": 2, "payload": payload, "accepted": {**accepted, **(terms or {})}}


def test_a_payment_is_the_same_in_both_versions() -> None:
    assert x402.decode(header(envelope_v2()), SELLER) == decoded()
    assert read_payment(envelope(), envelope_v2()) == decoded()
    assert read_payment() is None
    with pytest.raises(Problem, match="send only one") as refused:
        read_payment(envelope(), envelope_v2(nonce="0x" + "35" * 32))
    assert (refused.value.status, refused.value.code) == (400, "invalid_request")
    assert [each["field"] for each in refused.value.extra["issues"]] == list(x402.PAYMENT_HEADERS)


def read_payment(*envelopes: Any) -> Authorization | None:
    headers = list(zip(x402.PAYMENT_HEADERS, map(header, envelopes), strict=False))
    request = make_mocked_request("POST", "/", headers=CIMultiDict(headers))
    trade: Any = SimpleNamespace(simulate=False, wallet=WALLET)
    links: Any = None
    return TradeAnswers(SELLER, Attester(None), links).read_payment(request, trade)[0]


def test_only_the_terms_that_matter_are_compared() -> None:
    shouted = {"asset": TOKEN.address.upper().replace("0X", "0x"), "payTo": PAY_TO.upper().replace("0X", "0x")}
    for terms in (shouted, {"maxTimeoutSeconds": 9}, {"extra": {"name": "?"}}):
        assert x402.decode(header(envelope_v2(terms)), SELLER) == decoded()


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"scheme": "upto"}, "accepted.scheme must be exact."),
        ({"network": "eip155:84532"}, "accepted.network must be eip155:8453."),
        ({"network": "base"}, "accepted.network must be eip155:8453."),
        ({"asset": PAY_TO}, f"accepted.asset must be {TOKEN.address.lower()}."),
        ({"payTo": WALLET}, f"accepted.payTo must be {PAY_TO}."),
        ({"amount": "4000000"}, "authorization.value is not accepted.amount."),
        ({"amount": 5_000_000}, "accepted.amount is missing or malformed."),
    ],
)
def test_different_terms_are_refused_by_name(terms: dict[str, Any], said: str) -> None:
    with pytest.raises(PaymentRejected) as why:
        x402.decode(header(envelope_v2(terms)), SELLER)
    assert str(why.value) == said


@pytest.mark.parametrize(
    ("change", "name"),
    [({"scheme": "upto"}, "scheme"), ({"network": "base-sepolia"}, "network"), ({"payload": {}}, "payload")],
)
def test_version_1_checks_scheme_and_network(change: dict[str, Any], name: str) -> None:
    with pytest.raises(PaymentRejected, match=name):
        x402.decode(header({**envelope(), **change}), SELLER)


@pytest.mark.parametrize("version", [None, 0, 3, "2.0", True])
def test_other_versions_are_refused(version: object) -> None:
    with pytest.raises(PaymentRejected, match="x402Version must be 1 or 2"):
        x402.decode(header({**envelope(), "x402Version": version}), SELLER)


def test_a_settlement_is_reported_in_both_versions() -> None:
    receipt: dict[str, Any] = {"offer-receipt": {"info": {"receipt": {}}}}
    decoded_header = x402.settled_headers("0x" + "66" * 32, WALLET, "eip155:8453", receipt)
    assert list(decoded_header) == ["X-Payment-Response", "PAYMENT-RESPONSE"]
    first, second = (decode_payment_response_header(each) for each in decoded_header.values())
    assert (first.network, second.network) == ("base", "eip155:8453")
    assert first.model_copy(update={"network": second.network}) == second
    assert (second.success, second.transaction, second.payer) == (True, "0x" + "66" * 32, WALLET)
    assert second.extensions == receipt
