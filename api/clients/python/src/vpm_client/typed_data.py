"""The bet hash that a payment is bound to and the typed data to sign, computed here rather than taken from the API.

With EIP-3009's `ReceiveWithAuthorization`, only the settlement contract can collect the payment, and the nonce is the
hash of one bet. The token accepts a wallet's nonce once, so a bet is paid for at most once, however often it is signed
or sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

CHAIN_ID: Final = 8453
RECEIVE: Final = "ReceiveWithAuthorization"
NONCE_MARK: Final = keccak(text="service-settlement-bound-payment")[:8]
ZERO_ADDRESS: Final = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class TypedData:
    """An EIP-712 message."""

    domain: dict[str, Any]
    types: dict[str, list[dict[str, str]]]
    primary: str
    message: dict[str, Any]


def digest_of(message: TypedData | str) -> bytes:
    """Return the digest to sign, for typed data or for a text that is signed with `personal_sign` (EIP-191)."""
    if isinstance(message, str):
        made = encode_defunct(text=message)
    else:
        made = encode_typed_data(domain_data=message.domain, message_types=message.types, message_data=message.message)
    return keccak(b"\x19" + made.version + made.header + made.body)


def signer_of(digest: bytes, signature: bytes) -> str | None:
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    try:
        made = Signature(signature[:64] + bytes([signature[64] - 27]))
        return to_checksum_address(made.recover_public_key_from_msg_hash(digest).to_canonical_address())
    except (BadSignature, ValidationError):
        return None


def text_signer(text: bytes, signature: str) -> str | None:
    try:
        return str(Account.recover_message(encode_defunct(text), signature=signature))
    except (ValueError, BadSignature, ValidationError):
        return None


def market_key(market_id: str) -> bytes:
    return keccak(text=market_id)


def bet_hash(
    *,
    contract: str,
    market_key: bytes,
    outcome: int,
    amount: int,
    min_shares: int,
    wallet: str,
    idem_key: str,
    builder: str | None,
    ref: str | None,
) -> bytes:
    """Return the trade id: the bet's hash as the settlement contract computes it. Amounts are in millionths."""
    kinds = {
        "marketId": "bytes32",
        "outcome": "uint8",
        "amount": "uint256",
        "minShares": "uint256",
        "wallet": "address",
        "idemHash": "bytes32",
        "builder": "address",
        "ref": "bytes32",
    }
    domain = {"name": "Service Settlement", "version": "2", "chainId": CHAIN_ID, "verifyingContract": contract}
    parts = (
        market_key,
        outcome,
        amount,
        min_shares,
        wallet,
        keccak(text=idem_key),
        builder or ZERO_ADDRESS,
        (ref or "").encode().ljust(32, b"\0"),
    )
    return digest_of(_typed(domain, "Bet", kinds, dict(zip(kinds, parts, strict=True))))


def bound_nonce(hashed: bytes) -> bytes:
    return NONCE_MARK + hashed[len(NONCE_MARK) :]


def authorization(
    *, token: str, name: str, version: str, payer: str, to: str, value: int, until: int, nonce: bytes
) -> TypedData:
    kinds = {"from": "address", "to": "address", "value": "uint256", "validAfter": "uint256", "validBefore": "uint256"}
    return _typed(
        {"name": name, "version": version, "chainId": CHAIN_ID, "verifyingContract": token},
        RECEIVE,
        {**kinds, "nonce": "bytes32"},
        {"from": payer, "to": to, "value": value, "validAfter": 0, "validBefore": until, "nonce": nonce},
    )


def signed_receipt(payload: dict[str, Any]) -> TypedData:
    """Return the typed data of a receipt that the service signs (x402 offer-and-receipt extension)."""
    kinds = {
        "version": "uint256",
        "network": "string",
        "resourceUrl": "string",
        "payer": "string",
        "issuedAt": "uint256",
        "transaction": "string",
    }
    domain = {"name": "x402 receipt", "version": "1", "chainId": 1}  # for payments on any chain
    return _typed(domain, "Receipt", kinds, payload)


def _typed(domain: dict[str, Any], primary: str, kinds: dict[str, str], message: dict[str, Any]) -> TypedData:
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    return TypedData(domain, {primary: fields}, primary, message)
