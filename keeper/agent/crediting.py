"""Decides whether a payment that came without a stake may be booked, and by which call. Pure.

The token keeps one bit for each nonce, so the settlement wallet believes its creditor about what an authorization
brought. Nothing here is believed: the payment is a pair of logs in a final block, the bet is what its payer signed for
exactly that payer and nonce, decoded by the ABI, and amounts are compared.
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
"""Chain time. What arrived since is looked at in every run, what is older only as long as it is due."""
WHOLE_EVERY_SECONDS = 3600.0

REFUSED_FOR_GOOD = ("NotSignedBy", "UnknownMarket", "AmountOutOfBounds")
"""The contract's words for a payment that none of us can book: its payer's contract says no, a reorganization undid
its market's listing, or it brought less than the least stake. Strangers can make such."""

WITH_BYTES = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)"
WITH_PARTS = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)"
_FROM, _TO, _VALUE, _AFTER, _BEFORE, _NONCE = range(6)


@dataclass(frozen=True, slots=True)
class ArrivedPayment:
    """What an authorization brought to the settlement wallet: its AuthorizationUsed and the Transfer right after it, in
    a final block. `value` in token units, `at` in Unix seconds."""

    wallet: bytes
    nonce: bytes
    value: int
    at: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class BroughtBet:
    """A bet and the authorization its payer brought for it, by the names of their ABI components."""

    bet: Mapping[str, Any]
    authorization: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenCall:
    """A transaction: whom it called, and with what."""

    to: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Credit:
    """The call data that books a payment; `is_refund`: it brought another amount than the bet says."""

    data: bytes
    is_refund: bool


@dataclass
class Backlog:
    """What the runs of one leadership have left due. With every look at all that ever arrived it begins anew: almost
    all of that is booked, so most runs look at the last days and at what was due in the run before."""

    due: set[tuple[bytes, bytes]] = field(default_factory=set)  # payer and nonce
    refused: set[tuple[bytes, bytes]] = field(default_factory=set)
    _whole_at: float | None = None  # by the monotonic clock

    def begins_anew(self, now: float) -> bool:
        return self._whole_at is None or now - self._whole_at >= WHOLE_EVERY_SECONDS

    def is_refused(self, key: tuple[bytes, bytes], latest: Intent | None) -> bool:
        """Return what the latest ended attempt says: while another one is under way, what was said before it counts."""
        if latest is not None and (latest.state.ended or latest.outcome is not None):
            (self.refused.add if latest.reason_code in REFUSED_FOR_GOOD else self.refused.discard)(key)
        return key in self.refused

    def leave(self, due: Iterable[tuple[bytes, bytes]], whole_at: float | None) -> None:
        """Record a run that reached its end; `whole_at`: when it began, if it looked at everything."""
        self.due = set(due)
        self._whole_at = self._whole_at if whole_at is None else whole_at

    def forget(self) -> None:
        self.leave((), None)
        self.refused.clear()
        self._whole_at = None


def brought_of(arguments: bytes) -> BroughtBet | None:
    """Decode ABI-encoded arguments of `credit`; None when they are none."""
    try:
        decoded = credit_function().decode_inputs(bytes(4) + arguments)
    except (DecodingError, OverflowError, ValueError):
        return None
    return BroughtBet(decoded["b"], decoded["a"])


def is_for(brought: BroughtBet, payment: ArrivedPayment) -> bool:
    """Return whether it is by this payer, under this nonce, in the form that others can send without us."""
    return (
        brought.authorization["form"] == Form.TRANSFER
        and _address(brought.bet["wallet"]) == payment.wallet
        and brought.authorization["nonce"] == payment.nonce
    )


def credit_of(
    payment: ArrivedPayment, brought: BroughtBet, settlement: bytes, token: bytes, used: TokenCall | None
) -> Credit | str:
    """Return the call that books a payment, or why there is none.

    used: the transaction that moved it, if that is known; needed where it brought another amount than the bet says.
    Then it is credited with the authorization that was really used, and the contract gives it back.
    """
    if not is_for(brought, payment):
        return "what was brought for it is by another payer, or for another payment"
    amounts = (brought.bet["amount"], brought.authorization["value"])
    if amounts == (payment.value, payment.value):
        return Credit(credit_function().encode(brought.bet, brought.authorization), is_refund=False)
    if used is None:
        return f"it brought {payment.value} units instead of {amounts[0]}, and its transaction is not known"
    really = used_authorization(used, payment, settlement, token)
    if really is None:
        return (
            f"it brought {payment.value} units instead of {amounts[0]}, and its transaction is no plain call of the "
            "token, so what was signed is not known"
        )
    return Credit(credit_function().encode(brought.bet, really), is_refund=True)


def used_authorization(
    used: TokenCall, payment: ArrivedPayment, settlement: bytes, token: bytes
) -> dict[str, Any] | None:
    """Return the authorization in a direct call of the token, if it is the one that made this payment: the payer, the
    recipient, the amount and the nonce are the pair's."""
    if used.to != token:
        return None
    for signature in (WITH_BYTES, WITH_PARTS):
        function = abi("IERC3009").function(signature)
        if used.data[:4] == function.selector:
            break
    else:
        return None
    try:
        # The token reads no further than its arguments, and accepts any bytes after them.
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
