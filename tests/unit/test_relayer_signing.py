"""Our transactions equal those of eth_account byte for byte, for any fields."""

from __future__ import annotations

from eth_account import Account
from eth_utils.address import to_checksum_address
from hypothesis import given
from hypothesis import strategies as st

from relayer.signing import Fees, LocalSigner, Unsigned

wei = st.integers(min_value=0, max_value=2**96)


@given(
    secret=st.integers(min_value=1, max_value=2**255).map(lambda number: number.to_bytes(32)),
    chain_id=st.integers(min_value=1, max_value=2**53),
    nonce=st.integers(min_value=0, max_value=2**64 - 2),
    max_fee=wei,
    priority=wei,
    gas_limit=st.integers(min_value=21_000, max_value=2**63),
    to=st.binary(min_size=20, max_size=20),
    value=wei,
    data=st.one_of(
        st.binary(max_size=3), st.binary(min_size=50, max_size=60), st.binary(min_size=250, max_size=70_000)
    ),
)
def test_signed_bytes_and_hash_equal_eth_account(
    secret: bytes,
    chain_id: int,
    nonce: int,
    max_fee: int,
    priority: int,
    gas_limit: int,
    to: bytes,
    value: int,
    data: bytes,
) -> None:
    signer = LocalSigner(secret)
    ours = signer.sign(Unsigned(chain_id, nonce, Fees(max_fee, priority), gas_limit, to, value, data))
    theirs = Account.sign_transaction(
        {
            "type": 2,
            "chainId": chain_id,
            "nonce": nonce,
            "maxFeePerGas": max_fee,
            "maxPriorityFeePerGas": priority,
            "gas": gas_limit,
            "to": to_checksum_address(to),
            "value": value,
            "data": data,
        },
        secret,
    )
    assert ours.raw == bytes(theirs.raw_transaction)
    assert ours.hash == bytes(theirs.hash)
    assert "0x" + signer.address.hex() == Account.from_key(secret).address.lower()


def test_a_signer_never_shows_its_key() -> None:
    secret = bytes(range(1, 33))
    assert secret.hex() not in repr(LocalSigner(secret))
