"""The hash of a bet: the trade's public id, and the nonce of a payment that is bound to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eth_abi.abi import encode
from eth_utils.crypto import keccak

BET_TYPEHASH: Final = keccak(
    text="Bet(bytes32 marketId,uint8 outcome,uint256 amount,uint256 minShares,address wallet,bytes32 idemHash,"
    "address builder,bytes32 ref)"
)
DOMAIN_TYPEHASH: Final = keccak(
    text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
BOUND_ONLY: Final = 3009
"""`validAfter` of a transfer that may serve no other bet than the one its nonce is the hash of."""

NONCE_MARK: Final = keccak(text="service-settlement-bound-payment")[:8]
"""The first bytes of every nonce of the receive form, and of no other nonce that the contract takes."""

ZERO_ADDRESS: Final = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Bet:
    """What a payer wants done with a payment. Amounts and shares in token units; hashes and `ref` are 32 bytes."""

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
            [DOMAIN_TYPEHASH, keccak(text="Service Settlement"), keccak(text="2"), chain_id, contract],
        )
    )


def bet_hash(bet: Bet, chain_id: int, contract: str) -> bytes:
    """EIP-712 typed hash, domain "Service Settlement" version "2", as `SettlementWallet.betHash` has it."""
    struct_hash = keccak(
        encode(
            ["bytes32", "bytes32", "uint8", "uint256", "uint256", "address", "bytes32", "address", "bytes32"],
            [
                BET_TYPEHASH,
                bet.market_id,
                bet.outcome,
                bet.amount,
                bet.min_shares,
                bet.wallet,
                bet.idem_hash,
                bet.builder,
                bet.ref,
            ],
        )
    )
    return keccak(b"\x19\x01" + domain_separator(chain_id, contract) + struct_hash)


def bound_nonce(hashed: bytes) -> bytes:
    """The nonce of a payment in the receive form, from the hash of its bet, as `SettlementWallet.boundNonce` has it."""
    return NONCE_MARK + hashed[len(NONCE_MARK) :]


def is_marked(nonce: bytes) -> bool:
    """Whether a nonce belongs to the receive form alone."""
    return nonce.startswith(NONCE_MARK)
