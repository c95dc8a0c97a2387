"""ECDSA signatures of wallets: what they are over, and who made one."""

from __future__ import annotations

from eth_account.messages import SignableMessage
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from core.chain import checksum

# Signatures with the higher of the two valid s are refused by the token, as they can be made from another's.
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def message_hash(signable: SignableMessage) -> bytes:
    """What a wallet signs of it."""
    return keccak(b"\x19" + signable.version + signable.header + signable.body)


def with_usual_v(signature: bytes) -> bytes:
    """r, s, v with v as 27 or 28: wallets that write 0 or 1 mean the same, but the token takes only this form.

    What a contract wallet accepts is for it to say, byte for byte: not for those, but where 65 bytes are r, s, v.
    """
    if len(signature) == 65 and signature[64] in (0, 1):
        return signature[:64] + bytes([signature[64] + 27])
    return signature


def signer_of(signed: bytes, signature: bytes) -> str | None:
    """Who signed this digest, checksummed, or None when it is no ECDSA signature the token would take."""
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if not 0 < int.from_bytes(signature[32:64]) <= _HALF_ORDER:
        return None
    try:
        key = Signature(signature[:64] + bytes([signature[64] - 27])).recover_public_key_from_msg_hash(signed)
    except (BadSignature, ValidationError):
        return None
    return checksum(key.to_canonical_address())
