"""The payment header and the challenge, without a chain."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest
from eth_account import Account
from eth_account.messages import encode_typed_data
from hypothesis import given
from hypothesis import strategies as st

from api.agent import x402
from api.agent.x402 import Payment, PaymentRejected
from core.deployments import Token
from core.mirror.bet import bound_nonce
from core.mirror.settlement import Form

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


def decoded(**authorization: Any) -> Payment:
    return x402.decode(header(envelope(**authorization)))


def test_numbers_may_be_strings_or_integers() -> None:
    assert decoded() == decoded(value=5_000_000, validAfter=0, validBefore=NOW + 100)
    with pytest.raises(PaymentRejected, match="value"):
        decoded(value="-1")
    with pytest.raises(PaymentRejected, match="value"):
        decoded(value=True)
    with pytest.raises(PaymentRejected, match="value"):
        decoded(value="9" * 79)


@given(st.text(max_size=200))
def test_no_header_is_a_crash(text: str) -> None:
    with pytest.raises(PaymentRejected):
        x402.decode(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=8,
    )
)
def test_no_json_is_a_crash(content: object) -> None:
    with pytest.raises(PaymentRejected):
        x402.decode(header(content))
    with pytest.raises(PaymentRejected):
        x402.decode(header({**envelope(), "payload": content}))


CLOSES = NOW + 3_600


def checked(payment: Payment, *, now: int = NOW, closes_at: int = CLOSES) -> None:
    x402.check_parties(payment, wallet=WALLET, pay_to=PAY_TO)
    x402.check_amount(payment, 5_000_000)
    x402.check_window(payment, now=now, closes_at=closes_at)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"from": PAY_TO}, "from"),
        ({"to": WALLET}, "to"),
        ({"value": "5000001"}, "value"),
        ({"validAfter": NOW}, "validAfter"),
        ({"validBefore": NOW + 5}, "validBefore"),
        ({"validBefore": NOW + 181}, "validBefore"),
    ],
)
def test_what_does_not_pay_for_the_offer_is_named(change: dict[str, Any], name: str) -> None:
    checked(decoded())
    with pytest.raises(PaymentRejected, match=name):
        checked(decoded(**change))


def test_no_payment_is_good_for_longer_than_bets_are_taken() -> None:
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
def test_the_nonces_mark_alone_tells_the_form(nonce: bytes, form: Form) -> None:
    payment = decoded(nonce="0x" + nonce.hex())
    assert payment.form is form
    assert payment.is_bound_to(BET) is (nonce in (BET, MARKED))


def test_a_bound_authorization_pays_for_its_own_bet_only() -> None:
    x402.check_bound(decoded(validAfter=3009), BET)
    x402.check_bound(decoded(nonce="0x" + MARKED.hex()), BET)
    x402.check_bound(decoded(), b"\x34" * 32)  # a random nonce is bound to nothing
    with pytest.raises(PaymentRejected, match="validAfter 3009 binds it to another bet"):
        x402.check_bound(decoded(validAfter=3009), b"\x34" * 32)
    with pytest.raises(PaymentRejected, match="mark of bound payments and belongs to another bet"):
        x402.check_bound(decoded(nonce="0x" + MARKED.hex()), b"\x34" * 32)


def test_the_challenge_says_what_either_form_signs() -> None:
    body = x402.challenge(
        resource="r",
        amount=5_000_000,
        pay_to=PAY_TO,
        token=TOKEN,
        description="d",
        bet_hash=BET,
        seconds=30,
        error=None,
        extensions={},
    )
    (offer,) = body["accepts"]
    assert offer["maxTimeoutSeconds"] == 30
    assert offer["extra"] == {
        "name": "USD Coin",
        "version": "2",
        "intentNonce": "0x" + BET.hex(),
        "intentValidAfter": "3009",
        "receiveNonce": "0x" + MARKED.hex(),
        "receivePrimaryType": "ReceiveWithAuthorization",
    }


@pytest.mark.parametrize("form", list(Form))
def test_the_digest_is_what_wallets_sign(form: Form) -> None:
    account = Account.create()
    payment = decoded(**{"from": account.address})
    signable = encode_typed_data(
        domain_data={
            "name": TOKEN.domain_name,
            "version": TOKEN.domain_version,
            "chainId": 8453,
            "verifyingContract": TOKEN.address,
        },
        message_types={
            {Form.TRANSFER: "TransferWithAuthorization", Form.RECEIVE: "ReceiveWithAuthorization"}[form]: [
                {"name": "from", "type": "address"},
                {"name": "to", "type": "address"},
                {"name": "value", "type": "uint256"},
                {"name": "validAfter", "type": "uint256"},
                {"name": "validBefore", "type": "uint256"},
                {"name": "nonce", "type": "bytes32"},
            ]
        },
        message_data={
            "from": payment.payer,
            "to": payment.to,
            "value": payment.value,
            "validAfter": payment.valid_after,
            "validBefore": payment.valid_before,
            "nonce": payment.nonce,
        },
    )
    signature = bytes(account.sign_message(signable).signature)
    digest = x402.digest(payment, TOKEN, 8453, form)
    assert x402.signer_of(digest, signature) == account.address.lower()
    (other,) = set(Form) - {form}
    assert x402.signer_of(x402.digest(payment, TOKEN, 8453, other), signature) != account.address.lower()
    # The other valid s for the same signature is one the token refuses.
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    high = (order - int.from_bytes(signature[32:64])).to_bytes(32)
    assert x402.signer_of(digest, signature[:32] + high + bytes([55 - signature[64]])) is None
    assert x402.signer_of(digest, signature[:64]) is None
