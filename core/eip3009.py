"""An EIP-3009 authorization as it is signed: its EIP-712 form in the token's domain, and who signed one."""

from __future__ import annotations

from typing import Any, Final

from eth_account.messages import encode_typed_data
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from core.chain import checksum
from core.deployments import Token

RECEIVE: Final = "ReceiveWithAuthorization"
TRANSFER: Final = "TransferWithAuthorization"
FIELDS: Final = (
    {"name": "from", "type": "address"},
    {"name": "to", "type": "address"},
    {"name": "value", "type": "uint256"},
    {"name": "validAfter", "type": "uint256"},
    {"name": "validBefore", "type": "uint256"},
    {"name": "nonce", "type": "bytes32"},
)
"""Of both forms."""

# Signatures with the higher of the two valid s are refused by the token, as they can be made from another's.
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0


def domain(token: Token, chain_id: int) -> dict[str, Any]:
    return {
        "name": token.domain_name,
        "version": token.domain_version,
        "chainId": chain_id,
        "verifyingContract": token.address,
    }


def digest(form: str, message: dict[str, Any], token: Token, chain_id: int) -> bytes:
    """What a signature is over. `form`: RECEIVE or TRANSFER; `message`: its FIELDS."""
    signed = encode_typed_data(
        domain_data=domain(token, chain_id), message_types={form: list(FIELDS)}, message_data=message
    )
    return keccak(b"\x19" + signed.version + signed.header + signed.body)


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
