"""Which direct payments are booked, and how: never more than arrived, never for another payer or nonce."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.contracts.abi import abi
from core.contracts.statuses import Form
from keeper.agent.credit import (
    WITH_BYTES,
    WITH_PARTS,
    ArrivedPayment,
    Credit,
    TokenCall,
    credit_call,
    decode_signed_bet,
    used_authorization,
)

PAYER, OTHER = "0x" + "11" * 20, "0x" + "22" * 20
SETTLEMENT, TOKEN = bytes.fromhex("5e" * 20), bytes.fromhex("70" * 20)
NONCE, KEY = b"\xaa" * 32, b"\xbb" * 32
SIGNATURE = b"\x01" * 64 + b"\x1b"
PAID = 4_000_000
PAYMENT = ArrivedPayment(bytes.fromhex(PAYER[2:]), NONCE, PAID, 1_000, b"\xdd" * 32)
CREDIT = abi("SettlementWallet").function("credit")

BET = {
    "marketId": b"\x01" * 32,
    "outcome": 0,
    "amount": PAID,
    "minShares": 0,
    "wallet": PAYER,
    "idemHash": KEY,
    "builder": "0x" + "00" * 20,
    "ref": bytes(32),
}
AUTHORIZATION = {
    "form": int(Form.TRANSFER),
    "value": PAID,
    "validAfter": 0,
    "validBefore": 9_999,
    "nonce": NONCE,
    "signature": SIGNATURE,
}


def arguments(bet: dict[str, Any] | None = None, authorization: dict[str, Any] | None = None) -> bytes:
    return CREDIT.encode(BET | (bet or {}), AUTHORIZATION | (authorization or {}))[4:]


def token_call(form: str = WITH_BYTES, *, value: int = 1, sender: str = PAYER, **changes: Any) -> TokenCall:
    fields = {"from": sender, "to": "0x" + SETTLEMENT.hex(), "value": value, "after": 7, "before": 8, "nonce": NONCE}
    parts = (SIGNATURE,) if form == WITH_BYTES else (27, b"\x02" * 32, b"\x03" * 32)
    data = abi("IERC3009").function(form).encode(*(fields | changes).values(), *parts)
    return TokenCall(TOKEN, data)


def booked(
    payment: ArrivedPayment = PAYMENT, brought: bytes | None = None, used: TokenCall | None = None
) -> Credit | str:
    read = decode_signed_bet(arguments() if brought is None else brought)
    assert read is not None
    return credit_call(payment, read, SETTLEMENT, TOKEN, used)


def test_a_matching_payment_is_credited_as_signed() -> None:
    assert booked() == Credit(CREDIT.selector + arguments(), is_refund=False)


def test_four_dollars_are_not_credited_for_one_unit() -> None:
    """The payer brought 4 USDC to the API and spent the same nonce on the token for one unit: one unit goes back."""
    one = replace(PAYMENT, value=1)
    assert booked(one) == "it brought 1 units instead of 4000000, and its transaction is unknown"
    made = booked(one, used=token_call())
    assert isinstance(made, Credit)
    assert made.is_refund
    given = CREDIT.decode_inputs(made.data)
    assert given["a"]["value"] == 1
    assert (given["a"]["validAfter"], given["a"]["validBefore"], given["a"]["signature"]) == (7, 8, SIGNATURE)
    assert given["b"]["amount"] == PAID, "the bet stays what its payer signed; the contract sees that they differ"


def test_an_overpayment_is_refunded_whole() -> None:
    made = booked(replace(PAYMENT, value=PAID + 1), used=token_call(value=PAID + 1))
    assert isinstance(made, Credit)
    assert made.is_refund
    assert CREDIT.decode_inputs(made.data)["a"]["value"] == PAID + 1


def test_both_forms_of_the_token_call_are_read() -> None:
    made = booked(replace(PAYMENT, value=1), used=token_call(WITH_PARTS))
    assert isinstance(made, Credit)
    assert CREDIT.decode_inputs(made.data)["a"]["signature"] == b"\x02" * 32 + b"\x03" * 32 + b"\x1b"


@pytest.mark.parametrize(
    "used",
    [
        pytest.param(replace(token_call(), to=bytes(20)), id="a contract in between"),
        pytest.param(replace(token_call(), to=None), id="a contract made by it"),
        pytest.param(token_call(value=2), id="another amount"),
        pytest.param(token_call(sender=OTHER), id="another payer"),
        pytest.param(token_call(to=OTHER), id="another recipient"),
        pytest.param(token_call(nonce=KEY), id="another nonce"),
        pytest.param(TokenCall(TOKEN, b"\x00" * 4 + token_call().data[4:]), id="another function"),
        pytest.param(TokenCall(TOKEN, token_call().data[:-64]), id="cut short"),
        pytest.param(TokenCall(TOKEN, b""), id="nothing"),
    ],
)
def test_other_transactions_do_not_prove_a_payment(used: TokenCall) -> None:
    assert used_authorization(used, replace(PAYMENT, value=1), SETTLEMENT, TOKEN) is None
    assert isinstance(booked(replace(PAYMENT, value=1), used=used), str)


def test_bytes_after_the_arguments_are_ignored() -> None:
    longer = TokenCall(TOKEN, token_call().data + b"\x00\x01")
    assert used_authorization(longer, replace(PAYMENT, value=1), SETTLEMENT, TOKEN) is not None


@pytest.mark.parametrize(
    "brought",
    [
        pytest.param(arguments({"wallet": OTHER}), id="another payer"),
        pytest.param(arguments(None, {"nonce": KEY}), id="another nonce"),
        pytest.param(arguments(None, {"form": int(Form.RECEIVE)}), id="the form that cannot arrive without its call"),
        pytest.param(
            arguments({"idemHash": NONCE}, {"nonce": KEY, "signature": NONCE * 3}), id="the nonce in other words only"
        ),
    ],
)
def test_bets_of_others_or_for_other_payments_are_not_credited(brought: bytes) -> None:
    """An ERC-1271 signature may hold any bytes, another payer's nonce too: the nonce is a field, not any word."""
    assert booked(brought=brought) == "the bet on record is for another payer or another payment"


@pytest.mark.parametrize("data", [b"", b"\x00" * 31, arguments()[:-32], b"\xff" * 700])
def test_invalid_arguments_are_rejected(data: bytes) -> None:
    assert decode_signed_bet(data) is None
