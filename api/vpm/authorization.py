"""The bet as its signer signs it: the settler's entry nonce and the token's EIP-712 ReceiveWithAuthorization.

nonce = keccak256(abi.encode(ENTER_TYPEHASH, chainId, settler, marketId, outcome, amount, salt))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_keys.datatypes import Signature
from eth_keys.exceptions import BadSignature
from eth_utils.crypto import keccak
from eth_utils.exceptions import ValidationError

from core.chain import Call, Contract, checksum
from core.deployments import Token

ENTER_TYPEHASH = keccak(text="Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)")
RECEIVE_TYPEHASH = keccak(
    text="ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,"
    "bytes32 nonce)"
)
DOMAIN_TYPEHASH = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")

NONCE_FORMULA = (
    "keccak256(abi.encode(keccak256('Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)'), chainId, "
    "settler, marketId, outcome, amount, salt))"
)

# Signatures with the higher of the two valid s are refused by the token, as they can be made from another's.
_HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0

TYPES: dict[str, list[dict[str, str]]] = {
    "EIP712Domain": [
        {"name": "name", "type": "string"},
        {"name": "version", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ],
    "ReceiveWithAuthorization": [
        {"name": "from", "type": "address"},
        {"name": "to", "type": "address"},
        {"name": "value", "type": "uint256"},
        {"name": "validAfter", "type": "uint256"},
        {"name": "validBefore", "type": "uint256"},
        {"name": "nonce", "type": "bytes32"},
    ],
}


@dataclass(frozen=True, slots=True)
class Bet:
    """What was signed. `amount` in token units, times in Unix seconds; `signer` and `settler` checksummed."""

    chain_id: int
    settler: str
    signer: str
    market_id: int
    outcome: int
    amount: int
    valid_after: int
    valid_before: int
    salt: bytes

    @property
    def nonce(self) -> bytes:
        """Binds the authorization to this market, side and amount, in this contract on this chain."""
        return keccak(
            encode(
                ["bytes32", "uint256", "address", "uint256", "uint8", "uint256", "bytes32"],
                [ENTER_TYPEHASH, self.chain_id, self.settler, self.market_id, self.outcome, self.amount, self.salt],
            )
        )

    def digest(self, token: Token) -> bytes:
        """What the signature is over, in the token's domain."""
        domain = keccak(
            encode(
                ["bytes32", "bytes32", "bytes32", "uint256", "address"],
                [
                    DOMAIN_TYPEHASH,
                    keccak(text=token.domain_name),
                    keccak(text=token.domain_version),
                    self.chain_id,
                    token.address,
                ],
            )
        )
        message = keccak(
            encode(
                ["bytes32", "address", "address", "uint256", "uint256", "uint256", "bytes32"],
                [
                    RECEIVE_TYPEHASH,
                    self.signer,
                    self.settler,
                    self.amount,
                    self.valid_after,
                    self.valid_before,
                    self.nonce,
                ],
            )
        )
        return keccak(b"\x19\x01" + domain + message)

    def typed_data(self, token: Token) -> dict[str, Any]:
        """For `eth_signTypedData_v4`. Numbers are text, so that no wallet rounds them."""
        return {
            "domain": {
                "name": token.domain_name,
                "version": token.domain_version,
                "chainId": self.chain_id,
                "verifyingContract": token.address,
            },
            "types": TYPES,
            "primaryType": "ReceiveWithAuthorization",
            "message": {
                "from": self.signer,
                "to": self.settler,
                "value": str(self.amount),
                "validAfter": str(self.valid_after),
                "validBefore": str(self.valid_before),
                "nonce": "0x" + self.nonce.hex(),
            },
        }

    def call(self, settler: Contract, signature: bytes, *, sender: str | None = None) -> Call:
        """The entry itself, which anybody may send."""
        return settler.call(
            "enterWithAuthorization",
            self.signer,
            self.market_id,
            self.outcome,
            self.amount,
            self.valid_after,
            self.valid_before,
            self.salt,
            signature,
            sender=sender,
        )


def with_usual_v(signature: bytes) -> bytes:
    """r, s, v with v as 27 or 28: wallets that write 0 or 1 mean the same, but the token takes only this form.

    Only for regular wallets: what a contract wallet accepts is for it to say, byte for byte.
    """
    if len(signature) == 65 and signature[64] in (0, 1):
        return signature[:64] + bytes([signature[64] + 27])
    return signature


def recovered(digest: bytes, signature: bytes) -> str | None:
    """Who signed, or None when it is no signature the token would take."""
    if len(signature) != 65 or signature[64] not in (27, 28):
        return None
    if not 0 < int.from_bytes(signature[32:64]) <= _HALF_ORDER:
        return None
    try:
        signed = Signature(signature[:64] + bytes([signature[64] - 27]))
        return checksum(signed.recover_public_key_from_msg_hash(digest).to_canonical_address())
    except (BadSignature, ValidationError):
        return None
