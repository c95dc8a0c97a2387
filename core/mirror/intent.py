"""The hash of a trade intent: the trade's public id, and in bound mode the nonce of the payer's authorization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eth_abi.abi import encode
from eth_utils.crypto import keccak

INTENT_TYPEHASH: Final = keccak(
    text="Intent(bytes32 marketId,uint8 outcome,uint256 amount,uint256 minShares,address wallet,bytes32 idemHash,"
    "address builder,bytes32 ref)"
)
DOMAIN_TYPEHASH: Final = keccak(
    text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
BOUND_ONLY: Final = 3009
"""`validAfter` of an authorization that may serve no other intent than the one its nonce is the hash of."""

ZERO_ADDRESS: Final = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Intent:
    """Amounts and shares in token units; hashes and `ref` are 32 bytes."""

    market_id: bytes
    outcome: int
    amount: int
    min_shares: int
    wallet: str
    idem_hash: bytes
    builder: str = ZERO_ADDRESS
    ref: bytes = bytes(32)


def market_key(market_id: str) -> bytes:
    """The contract's id of a market: the hash of its readable id."""
    return keccak(text=market_id)


def idem_hash(idem_key: str) -> bytes:
    """The contract's form of an idempotency key."""
    return keccak(text=idem_key)


def domain_separator(chain_id: int, contract: str) -> bytes:
    return keccak(
        encode(
            ["bytes32", "bytes32", "bytes32", "uint256", "address"],
            [DOMAIN_TYPEHASH, keccak(text="Service Settlement"), keccak(text="1"), chain_id, contract],
        )
    )


def intent_hash(intent: Intent, chain_id: int, contract: str) -> bytes:
    """EIP-712 typed hash, domain "Service Settlement" version "1", as `SettlementWallet.intentHash` has it."""
    struct_hash = keccak(
        encode(
            ["bytes32", "bytes32", "uint8", "uint256", "uint256", "address", "bytes32", "address", "bytes32"],
            [
                INTENT_TYPEHASH,
                intent.market_id,
                intent.outcome,
                intent.amount,
                intent.min_shares,
                intent.wallet,
                intent.idem_hash,
                intent.builder,
                intent.ref,
            ],
        )
    )
    return keccak(b"\x19\x01" + domain_separator(chain_id, contract) + struct_hash)
