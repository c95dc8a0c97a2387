"""Decisions whether a payment without a stake may be booked, and by which call. Pure.

The token keeps one bit for each nonce, so the settlement wallet trusts its creditor about an authorization's amount.
This module trusts nothing: the payment is a pair of logs in a final block, the bet is the one on record for exactly
that payer and nonce, decoded by the ABI, and the amounts are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eth_abi.exceptions import DecodingError

from core.chain import checksum
from core.chain.contract import Function
from core.contracts.abi import abi
from core.contracts.statuses import Form
from core.hexadecimal import bytes_of
from core.outbox import Intent

LOOK_BACK_SECONDS = 7 * 86_400
"""In chain time. Younger payments are checked in every run, older ones only while they are due."""
WHOLE_EVERY_SECONDS = 3600.0

PERMANENT_REFUSALS = ("NotSignedBy", "UnknownMarket", "AmountOutOfBounds")
"""Contract errors for payments that can never be booked: the payer's contract rejects the signature, a reorganization
removed the market's listing, or the amount is under the minimum stake. Strangers can make such payments."""

WITH_BYTES = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
WITH_PARTS = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
_FROM, _TO, _VALUE, _AFTER, _BEFORE, _NONCE = range(6)


@dataclass(frozen=True, slots=True)
class ArrivedPayment:
    """A payment to the settlement wallet by authorization: AuthorizationUsed and the Transfer right after it, in a
    final block. `value` is in token units, `at` in Unix seconds."""

    wallet: bytes
    nonce: bytes
    value: int
    at: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class SignedBet:
    """A bet and its payer's authorization, each with its values by ABI component name."""

    bet: Mapping[str, Any]
    authorization: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenCall:
    to: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Credit:
    """The call data that books a payment. `is_refund`: whether the contract refunds it because its amount differs from
    the bet's."""

    data: bytes
    is_refund: bool


@dataclass
class Backlog:
    """The payments that the previous run left due. Most runs check only these and the last days; a full scan every hour
    collects them again."""

    due: set[tuple[bytes, bytes]] = field(default_factory=set)  # payer and nonce
    refused: set[tuple[bytes, bytes]] = field(default_factory=set)
    _whole_at: float | None = None  # by the monotonic clock

    def needs_full_scan(self, now: float) -> bool:
        return self._whole_at is None or now - self._whole_at >= WHOLE_EVERY_SECONDS

    def is_refused(self, key: tuple[bytes, bytes], latest: Intent | None) -> bool:
        """Return whether the latest finished attempt to credit a payment was refused for good."""
        if latest is not None and (latest.state.ended or latest.outcome is not None):
            (self.refused.add if latest.reason_code in PERMANENT_REFUSALS else self.refused.discard)(key)
        return key in self.refused

    def record_run(self, due: Iterable[tuple[bytes, bytes]], whole_at: float | None) -> None:
        """Record the payments that a run left due. `whole_at` is when the run began if it was a full scan."""
        self.due = set(due)
        self._whole_at = self._whole_at if whole_at is None else whole_at

    def clear(self) -> None:
        self.record_run((), None)
        self.refused.clear()
        self._whole_at = None


def decode_signed_bet(arguments: bytes) -> SignedBet | None:
    """Decode the arguments of `credit`. Return None if they are invalid."""
    try:
        decoded = credit_function().decode_inputs(bytes(4) + arguments)
    except (DecodingError, OverflowError, ValueError):
        return None
    return SignedBet(decoded["b"], decoded["a"])


def _is_bet_for(brought: SignedBet, payment: ArrivedPayment) -> bool:
    """Return whether a bet and a payment have the same payer and nonce, and the authorization has the form that anyone
    can submit."""
    return (
        brought.authorization["form"] == Form.TRANSFER
        and _address(brought.bet["wallet"]) == payment.wallet
        and brought.authorization["nonce"] == payment.nonce
    )


def credit_call(
    payment: ArrivedPayment, brought: SignedBet, settlement: bytes, token: bytes, used: TokenCall | None
) -> Credit | str:
    """Return the call that books a payment, or why the payment cannot be booked.

    If the payment's amount differs from the bet's, `used` must be the transaction that moved the money: the payment is
    credited with the authorization that was actually used, and the contract refunds it.
    """
    if not _is_bet_for(brought, payment):
        return "the bet on record is for another payer or another payment"
    amounts = (brought.bet["amount"], brought.authorization["value"])
    if amounts == (payment.value, payment.value):
        return Credit(credit_function().encode(brought.bet, brought.authorization), is_refund=False)
    if used is None:
        return f"it brought {payment.value} units instead of {amounts[0]}, and its transaction is unknown"
    actual = used_authorization(used, payment, settlement, token)
    if actual is None:
        return (
            f"it brought {payment.value} units instead of {amounts[0]}, and its transaction does not call the token "
            "directly, so the signed authorization is unknown"
        )
    return Credit(credit_function().encode(brought.bet, actual), is_refund=True)


def used_authorization(
    used: TokenCall, payment: ArrivedPayment, settlement: bytes, token: bytes
) -> dict[str, Any] | None:
    """Return the authorization in a direct call of the token, or None unless its payer, recipient, amount and nonce are
    the payment's."""
    if used.to != token:
        return None
    for signature in (WITH_BYTES, WITH_PARTS):
        function = abi("IERC3009").function(signature)
        if used.data[:4] == function.selector:
            break
    else:
        return None
    try:
        # The token ignores any bytes after its arguments.
        values = list(function.decode_inputs(used.data + bytes(-len(used.data[4:]) % 32)).values())
    except (DecodingError, OverflowError, ValueError):
        return None
    pair = (payment.wallet, settlement, payment.value, payment.nonce)
    if (_address(values[_FROM]), _address(values[_TO]), values[_VALUE], values[_NONCE]) != pair:
        return None
    if signature == WITH_BYTES:
        signed = values[6]
    else:
        v, r, s = values[6:]
        signed = r + s + bytes([v])
    return {
        "form": int(Form.TRANSFER),
        "value": payment.value,
        "validAfter": values[_AFTER],
        "validBefore": values[_BEFORE],
        "nonce": payment.nonce,
        "signature": signed,
    }


def credit_function() -> Function:
    return abi("SettlementWallet").function("credit")


def _address(text: str) -> bytes:
    return bytes_of(checksum(text))
