"""The bet as its signer signs it: the settler's entry nonce and the token's EIP-712 ReceiveWithAuthorization.

nonce = keccak256(abi.encode(ENTER_TYPEHASH, chainId, settler, marketId, outcome, amount, salt))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from core import eip3009
from core.chain import Call, Contract
from core.contracts.deployments import Token
from core.eip3009 import FIELDS, RECEIVE
from core.hexadecimal import hex_of

ENTER_TYPEHASH = keccak(text="Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)")

NONCE_FORMULA = (
    "keccak256(abi.encode(keccak256('Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)'), chainId, "
    "settler, marketId, outcome, amount, salt))"
)

TYPES: dict[str, list[dict[str, str]]] = {
    "EIP712Domain": [
        {"name": "name", "type": "string"},
        {"name": "version", "type": "string"},
        {"name": "chainId", "type": "uint256"},
        {"name": "verifyingContract", "type": "address"},
    ],
    RECEIVE: list(FIELDS),
}


@dataclass(frozen=True, slots=True)
class StockBet:
    """A bet as its payer signed it. `amount` in token units, times in Unix seconds; `signer` and `settler`
    checksummed."""

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
        message = {
            "from": self.signer,
            "to": self.settler,
            "value": self.amount,
            "validAfter": self.valid_after,
            "validBefore": self.valid_before,
            "nonce": self.nonce,
        }
        return eip3009.digest(RECEIVE, message, token, self.chain_id)

    def typed_data(self, token: Token) -> dict[str, Any]:
        """For `eth_signTypedData_v4`. Numbers are text, so that no wallet rounds them."""
        return {
            "domain": eip3009.domain(token, self.chain_id),
            "types": TYPES,
            "primaryType": RECEIVE,
            "message": {
                "from": self.signer,
                "to": self.settler,
                "value": str(self.amount),
                "validAfter": str(self.valid_after),
                "validBefore": str(self.valid_before),
                "nonce": hex_of(self.nonce),
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
