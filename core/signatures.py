"""ECDSA signatures of wallets: what they are over, and who made one."""

from __future__ import annotations

from coincurve import PublicKey
from eth_account.messages import SignableMessage
from eth_utils.crypto import keccak

from core.chain import checksum

# Signatures with the higher of the two valid s are refused by the token, as they can be made from another's.
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def message_hash(signable: SignableMessage) -> bytes:
    """Return the digest of a message that a wallet signs."""
    return keccak(b"\x19" + signable.version + signable.header + signable.body)


def struct_fields(form: str) -> list[dict[str, str]]:
    """Return the fields of an EIP-712 struct, written as its type string has them: `address from,uint256 value`."""
    return [{"name": name, "type": kind} for kind, name in (each.split() for each in form.split(","))]


def with_usual_v(signature: bytes) -> bytes:
    """r, s, v with v as 27 or 28: wallets that write 0 or 1 mean the same, but the token takes only this form.

    What a contract wallet accepts is for it to say, byte for byte: not for those, but where 65 bytes are r, s, v.
    """
    if len(signature) == 65 and signature[64] in (0, 1):
        return signature[:64] + bytes([signature[64] + 27])
    return signature


def recover(digest: bytes, r_s: bytes, parity: int) -> bytes | None:
    """Return the address whose key signed this digest, or None when these are no r and s of a signature.

    Calls the curve's library directly, which lets other threads run: eth-account takes more than twice as long for the
    same answer.
    """
    try:
        key = PublicKey.from_signature_and_message(r_s + bytes([parity]), digest, hasher=None)
    except ValueError:
        return None
    return keccak(key.format(compressed=False)[1:])[-20:]


def signer_of(signed: bytes, signature: bytes) -> str | None:
    """Return who signed this digest, checksummed, or None when it is no ECDSA signature the token would take."""
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if int.from_bytes(signature[32:64]) > _HALF_ORDER:
        return None
    signer = recover(signed, signature[:64], signature[64] - 27)
    return None if signer is None else checksum(signer)
