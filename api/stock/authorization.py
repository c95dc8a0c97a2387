"""A stock bet as its payer signs it: the settler's entry nonce and the token's EIP-712 ReceiveWithAuthorization.

nonce = keccak256(abi.encode(ENTER_TYPEHASH, chainId, settler, marketId, outcome, amount, salt))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from api.payments.authorization import Authorization
from core.chain import Call, Contract
from core.contracts.deployments import Token
from core.eip3009 import RECEIVE

ENTER_TYPEHASH = keccak(text="Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)")

NONCE_FORMULA = (
    "keccak256(abi.encode(keccak256('Enter(uint256 marketId,uint8 outcome,uint256 amount,bytes32 salt)'), chainId, "
    "settler, marketId, outcome, amount, salt))"
)


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
        """Return the nonce that binds the authorization to this market, side and amount in this contract on this
        chain."""
        return keccak(
            encode(
                ["bytes32", "uint256", "address", "uint256", "uint8", "uint256", "bytes32"],
                [ENTER_TYPEHASH, self.chain_id, self.settler, self.market_id, self.outcome, self.amount, self.salt],
            )
        )

    @property
    def authorization(self) -> Authorization:
        """Return the unsigned authorization."""
        return Authorization(self.signer, self.settler, self.amount, self.valid_after, self.valid_before, self.nonce)

    def digest(self, token: Token) -> bytes:
        """Return the digest to sign."""
        return self.authorization.digest(RECEIVE, token, self.chain_id)

    def typed_data(self, token: Token) -> dict[str, Any]:
        """Return the typed data for `eth_signTypedData_v4`."""
        return self.authorization.typed_data(RECEIVE, token, self.chain_id)

    def call(self, settler: Contract, signature: bytes, *, sender: str | None = None) -> Call:
        """Return the call that enters the bet, which anyone may send."""
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
