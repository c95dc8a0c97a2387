"""x402 version 1: the challenge, the payment header, and what makes an authorization acceptable. Pure.

A payment comes in one of two forms. Stock clients sign `TransferWithAuthorization`, which anybody may send to the
token. Ours sign `ReceiveWithAuthorization`, which only the settlement wallet can take, and only for the one bet that
its nonce names. The envelope is the same; the first eight bytes of the nonce, a fixed mark, tell the two apart.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

import orjson
from eth_abi.abi import encode
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from core.chain import checksum
from core.deployments import Token
from core.mirror.bet import BOUND_ONLY, bound_nonce, is_marked
from core.mirror.settlement import Form

VERSION = 1
SCHEME = "exact"
NETWORK = "base"
TIMEOUT_SECONDS = 120
# Payers' clocks differ from ours; beyond this much more the window was not made for this challenge.
CLOCK_SLACK_SECONDS = 60
# An authorization that ends sooner could run out while its transaction waits for a block.
MIN_LEFT_SECONDS = 6
MAX_HEADER_CHARACTERS = 16 * 1024

PRIMARY_TYPES = {Form.TRANSFER: "TransferWithAuthorization", Form.RECEIVE: "ReceiveWithAuthorization"}
TYPEHASHES = {
    form: keccak(
        text=f"{name}(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    )
    for form, name in PRIMARY_TYPES.items()
}
_DOMAIN_TYPEHASH = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_HASH = re.compile(r"0x[0-9a-fA-F]{64}")
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2}){64,4096}")
_DIGITS = re.compile(r"[0-9]{1,78}")


class PaymentRejected(Exception):
    """The header does not pay for this trade; the sentence goes into the next challenge's `error`."""


@dataclass(frozen=True, slots=True)
class Payment:
    """A signed EIP-3009 authorization. Addresses lower-case; `value` in token units; times in Unix seconds."""

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes
    signature: bytes

    @property
    def form(self) -> Form:
        return Form.RECEIVE if is_marked(self.nonce) else Form.TRANSFER

    def is_bound_to(self, bet_hash: bytes) -> bool:
        """Whether the contract takes it for this bet from anybody."""
        return self.nonce == (bound_nonce(bet_hash) if self.form is Form.RECEIVE else bet_hash)


def seconds_to_pay(now: int, closes_at: int) -> int:
    """How long a payment signed now may be good for: not past the end of stakes."""
    return max(0, min(TIMEOUT_SECONDS, closes_at - now))


def challenge(
    *,
    resource: str,
    amount: int,
    pay_to: str,
    token: Token,
    description: str,
    bet_hash: bytes,
    seconds: int,
    error: str | None,
    extensions: dict[str, Any],
) -> dict[str, Any]:
    """The body of a 402. `amount` in token units; `seconds`: how long the payment may be good for."""
    body: dict[str, Any] = {
        "x402Version": VERSION,
        "error": error,
        "accepts": [
            {
                "scheme": SCHEME,
                "network": NETWORK,
                "maxAmountRequired": str(amount),
                "resource": resource,
                "description": description,
                "mimeType": "application/json",
                "payTo": pay_to,
                "maxTimeoutSeconds": seconds,
                "asset": token.address,
                "extra": {
                    "name": token.domain_name,
                    "version": token.domain_version,
                    "intentNonce": "0x" + bet_hash.hex(),
                    "intentValidAfter": str(BOUND_ONLY),
                    "receiveNonce": "0x" + bound_nonce(bet_hash).hex(),
                    "receivePrimaryType": PRIMARY_TYPES[Form.RECEIVE],
                },
            }
        ],
    }
    if extensions:
        body["extensions"] = extensions
    return body


def decode(header: str) -> Payment:
    """The payment header's content; PaymentRejected with what is wrong in it."""
    if len(header) > MAX_HEADER_CHARACTERS:
        raise PaymentRejected("X-PAYMENT is too long.")
    try:
        envelope = orjson.loads(base64.b64decode(header.strip(), validate=True))
    except (binascii.Error, ValueError):
        raise PaymentRejected("X-PAYMENT is not the base64 of a JSON envelope.") from None
    if not isinstance(envelope, dict):
        raise PaymentRejected("X-PAYMENT is not a JSON object.")
    if str(envelope.get("x402Version")) != str(VERSION):
        raise PaymentRejected("x402Version must be 1.")
    if envelope.get("scheme") != SCHEME:
        raise PaymentRejected("scheme must be exact.")
    if envelope.get("network") != NETWORK:
        raise PaymentRejected("network must be base.")
    payload = envelope.get("payload")
    authorization = payload.get("authorization") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or not isinstance(authorization, dict):
        raise PaymentRejected("payload must hold signature and authorization.")
    return Payment(
        payer=_text(authorization, "from", _ADDRESS).lower(),
        to=_text(authorization, "to", _ADDRESS).lower(),
        value=_number(authorization, "value"),
        valid_after=_number(authorization, "validAfter"),
        valid_before=_number(authorization, "validBefore"),
        nonce=bytes.fromhex(_text(authorization, "nonce", _HASH)[2:]),
        signature=_normalized(bytes.fromhex(_text(payload, "signature", _HEX)[2:])),
    )


def check_parties(payment: Payment, *, wallet: str, pay_to: str) -> None:
    """Whether it is from this wallet to us; PaymentRejected names what is wrong."""
    if payment.payer != wallet.lower():
        raise PaymentRejected("authorization.from is not walletAddress.")
    if payment.to != pay_to.lower():
        raise PaymentRejected("authorization.to is not accepts[0].payTo.")


def check_amount(payment: Payment, amount: int) -> None:
    if payment.value != amount:
        raise PaymentRejected("authorization.value is not accepts[0].maxAmountRequired.")


def check_window(payment: Payment, *, now: int, closes_at: int) -> None:
    """Whether it can still be sent; PaymentRejected says why not. `now`: the chain's clock.

    One that was used already has no window any more: what it brought is booked whenever its payer comes.
    """
    seconds = seconds_to_pay(now, closes_at)
    if payment.valid_after >= now:
        raise PaymentRejected("authorization.validAfter lies in the future.")
    if payment.valid_before < now + min(MIN_LEFT_SECONDS, seconds):
        raise PaymentRejected("authorization.validBefore has passed or is about to.")
    if payment.valid_before > now + seconds + CLOCK_SLACK_SECONDS:
        raise PaymentRejected(f"authorization.validBefore is more than {seconds} seconds ahead.")


def check_bound(payment: Payment, bet_hash: bytes) -> None:
    """PaymentRejected when the payer bound the authorization to another bet; the contract would refuse it, too."""
    if payment.is_bound_to(bet_hash):
        return
    if payment.form is Form.RECEIVE:
        raise PaymentRejected(
            "authorization.nonce has the mark of bound payments and belongs to another bet; it is not this "
            "extra.receiveNonce."
        )
    if payment.valid_after == BOUND_ONLY:
        raise PaymentRejected(
            f"authorization.validAfter {BOUND_ONLY} binds it to another bet; its nonce is not this extra.intentNonce."
        )


def wrong_form(form: Form) -> str:
    """The sentence for a signature of the other form than the nonce says. `form`: what the nonce says."""
    if form is Form.RECEIVE:
        return (
            "The nonce has the mark of bound payments, which take a signature over ReceiveWithAuthorization; this one "
            "is over TransferWithAuthorization."
        )
    return (
        "The signature is over ReceiveWithAuthorization, whose nonce must be extra.receiveNonce; with any other nonce "
        "sign TransferWithAuthorization."
    )


def digest(payment: Payment, token: Token, chain_id: int, form: Form) -> bytes:
    """What a payer signs in this form, in the token's domain."""
    domain = keccak(
        encode(
            ["bytes32", "bytes32", "bytes32", "uint256", "address"],
            [
                _DOMAIN_TYPEHASH,
                keccak(text=token.domain_name),
                keccak(text=token.domain_version),
                chain_id,
                token.address,
            ],
        )
    )
    message = keccak(
        encode(
            ["bytes32", "address", "address", "uint256", "uint256", "uint256", "bytes32"],
            [
                TYPEHASHES[form],
                payment.payer,
                payment.to,
                payment.value,
                payment.valid_after,
                payment.valid_before,
                payment.nonce,
            ],
        )
    )
    return keccak(b"\x19\x01" + domain + message)


def signer_of(signed: bytes, signature: bytes) -> str | None:
    """Who signed, lower-case, or None when it is no ECDSA signature the token would take."""
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if not 0 < int.from_bytes(signature[32:64]) <= _HALF_ORDER:
        return None
    try:
        key = Signature(signature[:64] + bytes([signature[64] - 27])).recover_public_key_from_msg_hash(signed)
    except (BadSignature, ValidationError):
        return None
    return checksum(key.to_canonical_address()).lower()


def settled_header(transaction: str, payer: str) -> str:
    """X-Payment-Response: base64 of the settlement summary."""
    summary = {"success": True, "transaction": transaction, "network": NETWORK, "payer": payer}
    return base64.b64encode(orjson.dumps(summary)).decode()


def _normalized(signature: bytes) -> bytes:
    """v as 27 or 28; signers that write 0 or 1 mean the same, but the token takes only this form."""
    if len(signature) == 65 and signature[64] in (0, 1):
        return signature[:64] + bytes([signature[64] + 27])
    return signature


def _text(holder: dict[str, Any], name: str, form: re.Pattern[str]) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or not form.fullmatch(value):
        raise PaymentRejected(f"{name} is missing or not in the right form.")
    return value


def _number(holder: dict[str, Any], name: str) -> int:
    value = holder.get(name)
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**256:
        raise PaymentRejected(f"{name} is not a whole number.")
    return value
