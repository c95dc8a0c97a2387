"""The hash of a bet: the trade's public id, and the nonce of a payment that is bound to it."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Final

from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from core.signatures import message_hash, struct_fields

_BET: Final = struct_fields(
    "bytes32 marketId,uint8 outcome,uint256 amount,uint256 minShares,address wallet,bytes32 idemHash,address builder,"
    "bytes32 ref"
)
# `validAfter` of a transfer that may serve no other bet than the one its nonce is the hash of.
BOUND_ONLY: Final = 3009

# The first bytes of every nonce of the receive form, and of no other nonce that the contract takes.
NONCE_MARK: Final = keccak(text="service-settlement-bound-payment")[:8]

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
    """Return the contract's id of a market: the hash of its readable id."""
    return keccak(text=market_id)


def idem_hash(idem_key: str) -> bytes:
    """Return the contract's form of an idempotency key."""
    return keccak(text=idem_key)


def bet_hash(bet: Bet, chain_id: int, contract: str) -> bytes:
    """EIP-712 typed hash, domain "Service Settlement" version "2", as `SettlementWallet.betHash` has it."""
    domain = {"name": "Service Settlement", "version": "2", "chainId": chain_id, "verifyingContract": contract}
    message = dict(zip((part["name"] for part in _BET), astuple(bet), strict=True))
    return message_hash(encode_typed_data(domain, {"Bet": list(_BET)}, message))


def ref_text(ref: bytes) -> str | None:
    """Return a bet's mark as text; None where it has none, or none that can be read."""
    text = ref.rstrip(b"\0")
    return text.decode() if text and text.isascii() and text.decode().isprintable() else None


def bound_nonce(hashed: bytes) -> bytes:
    """The nonce of a payment in the receive form, from the hash of its bet, as `SettlementWallet.boundNonce` has it."""
    return NONCE_MARK + hashed[len(NONCE_MARK) :]


def is_marked(nonce: bytes) -> bool:
    """Return whether a nonce belongs to the receive form alone."""
    return nonce.startswith(NONCE_MARK)
