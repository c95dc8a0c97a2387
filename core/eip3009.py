"""The EIP-712 encoding with which EIP-3009 authorizations are signed."""

from __future__ import annotations

from typing import Any, Final

from eth_account.messages import encode_typed_data

from core.contracts.deployments import Token
from core.signatures import message_hash, struct_fields

RECEIVE: Final = "ReceiveWithAuthorization"
TRANSFER: Final = "TransferWithAuthorization"
FIELDS: Final = struct_fields(
    "address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce"
)
DOMAIN_FIELDS: Final = struct_fields("string name,string version,uint256 chainId,address verifyingContract")


def domain(token: Token, chain_id: int) -> dict[str, Any]:
    return {
        "name": token.domain_name,
        "version": token.domain_version,
        "chainId": chain_id,
        "verifyingContract": token.address,
    }


def digest(form: str, message: dict[str, Any], token: Token, chain_id: int) -> bytes:
    """Return the EIP-712 digest. `form` is RECEIVE or TRANSFER; `message` has a value for each field in FIELDS."""
    signable = encode_typed_data(
        domain_data=domain(token, chain_id), message_types={form: list(FIELDS)}, message_data=message
    )
    return message_hash(signable)
