"""ECDSA signatures of wallets: digests and recovery of the signer."""

from __future__ import annotations

from coincurve import PublicKey
from eth_account.messages import SignableMessage
from eth_utils.crypto import keccak

from core.chain import checksum

# The token refuses signatures with the higher of the two valid s values, because anyone can derive them (malleability).
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def message_hash(signable: SignableMessage) -> bytes:
    return keccak(b"\x19" + signable.version + signable.header + signable.body)


def struct_fields(form: str) -> list[dict[str, str]]:
    """Parse the fields of an EIP-712 struct such as `address from,uint256 value`."""
    return [{"name": name, "type": kind} for kind, name in (each.split() for each in form.split(","))]


def with_usual_v(signature: bytes) -> bytes:
    """Return the signature (r, s, v) with v as 27 or 28. Some wallets use 0 or 1, which the token does not accept.

    Do not use this for contract wallets, which may interpret the bytes in any way.
    """
    if len(signature) == 65 and signature[64] in (0, 1):
        return signature[:64] + bytes([signature[64] + 27])
    return signature


def recover(digest: bytes, r_s: bytes, parity: int) -> bytes | None:
    """Return the signer's address, or None if r and s are invalid. This uses libsecp256k1, which releases the
    GIL and takes less than half as long as eth-account."""
    try:
        key = PublicKey.from_signature_and_message(r_s + bytes([parity]), digest, hasher=None)
    except ValueError:
        return None
    return keccak(key.format(compressed=False)[1:])[-20:]


def signer_of(signed: bytes, signature: bytes) -> str | None:
    """Return the checksummed signer, or None if the token would not accept the signature."""
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if int.from_bytes(signature[32:64]) > _HALF_ORDER:
        return None
    signer = recover(signed, signature[:64], signature[64] - 27)
    return None if signer is None else checksum(signer)
