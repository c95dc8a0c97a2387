"""The bet's hash against EIP-712 written out, and the nonces made from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from core.agent.bet import NONCE_MARK, Bet, bet_hash, bound_nonce, idem_hash, is_marked, market_key

CONTRACT = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
addresses = st.binary(min_size=20, max_size=20).map(lambda raw: "0x" + raw.hex())
words = st.binary(min_size=32, max_size=32)
numbers = st.integers(0, 2**256 - 1)

FIELDS = {
    "marketId": "bytes32",
    "outcome": "uint8",
    "amount": "uint256",
    "minShares": "uint256",
    "wallet": "address",
    "idemHash": "bytes32",
    "builder": "address",
    "ref": "bytes32",
}


def struct(name: str, fields: dict[str, str], values: Sequence[Any]) -> bytes:
    """The hash of a struct without nested or dynamic fields, as EIP-712 has it."""
    declaration = f"{name}({','.join(f'{kind} {field}' for field, kind in fields.items())})"
    return keccak(keccak(text=declaration) + encode(list(fields.values()), values))


def domain(chain_id: int) -> bytes:
    declaration = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    name, version = keccak(text="Service Settlement"), keccak(text="2")
    kinds = ["bytes32", "bytes32", "uint256", "address"]
    return keccak(keccak(text=declaration) + encode(kinds, [name, version, chain_id, CONTRACT]))


@given(words, st.integers(0, 255), numbers, numbers, addresses, words, addresses, words, st.integers(1, 2**53))
def test_bet_hash_is_the_eip712_hash(
    market: bytes,
    outcome: int,
    amount: int,
    min_shares: int,
    wallet: str,
    idem: bytes,
    builder: str,
    ref: bytes,
    chain_id: int,
) -> None:
    values = (market, outcome, amount, min_shares, wallet, idem, builder, ref)
    expected = keccak(b"\x19\x01" + domain(chain_id) + struct("Bet", FIELDS, values))
    assert bet_hash(Bet(*values), chain_id, CONTRACT) == expected


@given(words)
def test_a_bound_nonce_is_the_hash_behind_the_mark(hashed: bytes) -> None:
    nonce = bound_nonce(hashed)
    assert len(nonce) == 32
    assert nonce[:8] == keccak(text="service-settlement-bound-payment")[:8]
    assert nonce[8:] == hashed[8:]
    assert is_marked(nonce)
    assert is_marked(hashed) is (hashed[:8] == NONCE_MARK)


def test_keys_are_hashes_of_their_text() -> None:
    assert market_key("bnkr-100m-mcap-2026-12-31") == keccak(b"bnkr-100m-mcap-2026-12-31")
    assert idem_hash("key-12345") == keccak(b"key-12345")
