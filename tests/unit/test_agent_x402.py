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
    x402.check(decoded(), wallet=WALLET, pay_to=PAY_TO, amount=5_000_000, now=NOW)
    with pytest.raises(PaymentRejected, match=name):
        x402.check(decoded(**change), wallet=WALLET, pay_to=PAY_TO, amount=5_000_000, now=NOW)


def test_a_bound_authorization_pays_for_its_own_intent_only() -> None:
    bound = decoded(validAfter=3009)
    x402.check(bound, wallet=WALLET, pay_to=PAY_TO, amount=5_000_000, now=NOW)
    x402.check_bound(bound, b"\x33" * 32)
    with pytest.raises(PaymentRejected, match="another bet"):
        x402.check_bound(bound, b"\x34" * 32)
    x402.check_bound(decoded(), b"\x34" * 32)


def test_the_digest_is_what_wallets_sign() -> None:
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
            "TransferWithAuthorization": [
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
    digest = x402.digest(payment, TOKEN, 8453)
    assert x402.signer_of(digest, signature) == account.address.lower()
    # The other valid s for the same signature is one the token refuses.
    order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
    high = (order - int.from_bytes(signature[32:64])).to_bytes(32)
    assert x402.signer_of(digest, signature[:32] + high + bytes([55 - signature[64]])) is None
    assert x402.signer_of(digest, signature[:64]) is None
