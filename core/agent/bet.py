"""The bet hash, which is a trade's public id, and the payment nonce that is derived from it."""

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
# The `validAfter` of a transfer that may only pay for the bet whose hash is its nonce.
BOUND_ONLY: Final = 3009

# The first bytes of every nonce of the receive form; the contract accepts no other nonce that begins with them.
NONCE_MARK: Final = keccak(text="service-settlement-bound-payment")[:8]

ZERO_ADDRESS: Final = "0x" + "00" * 20


@dataclass(frozen=True, slots=True)
class Bet:
    """The bet that a payment pays for. Amounts and shares are in token units; hashes and `ref` are 32 bytes."""

    market_id: bytes
    outcome: int
    amount: int
    min_shares: int
    wallet: str
    idem_hash: bytes
    builder: str = ZERO_ADDRESS
    ref: bytes = bytes(32)


def market_key(market_id: str) -> bytes:
    """Return a market's key in the contract: the hash of its id."""
    return keccak(text=market_id)


def idem_hash(idem_key: str) -> bytes:
    """Return the hash of an idempotency key, which the contract stores instead of the key."""
    return keccak(text=idem_key)


def bet_hash(bet: Bet, chain_id: int, contract: str) -> bytes:
    """Compute the EIP-712 hash of a bet as `SettlementWallet.betHash` does."""
    domain = {"name": "Service Settlement", "version": "2", "chainId": chain_id, "verifyingContract": contract}
    message = dict(zip((part["name"] for part in _BET), astuple(bet), strict=True))
    return message_hash(encode_typed_data(domain, {"Bet": list(_BET)}, message))


def ref_text(ref: bytes) -> str | None:
    """Return a bet's `ref` as text, or None if it is empty or not printable ASCII."""
    text = ref.rstrip(b"\0")
    return text.decode() if text and text.isascii() and text.decode().isprintable() else None


def bound_nonce(hashed: bytes) -> bytes:
    """Derive the nonce of a receive-form payment from its bet's hash, as `SettlementWallet.boundNonce` does."""
    return NONCE_MARK + hashed[len(NONCE_MARK) :]


def is_marked(nonce: bytes) -> bool:
    return nonce.startswith(NONCE_MARK)
