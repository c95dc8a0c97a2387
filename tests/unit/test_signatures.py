"""Who made a signature that the token would take."""

from __future__ import annotations

from eth_keys.constants import SECPK1_N
from eth_keys.datatypes import PrivateKey, Signature
from eth_keys.exceptions import BadSignature
from eth_utils.exceptions import ValidationError
from hypothesis import given
from hypothesis import strategies as st

from core import signatures

KEY = PrivateKey(b"\x07" * 32)
_HALF = SECPK1_N // 2
_EDGES = [number.to_bytes(32) for number in (0, 1, _HALF, _HALF + 1, SECPK1_N - 1, SECPK1_N, 2**256 - 1)]
_WORDS = st.binary(min_size=32, max_size=32) | st.sampled_from(_EDGES)
_V = st.sampled_from([0, 1, 26, 27, 28, 29, 35, 36]) | st.integers(0, 255)


def as_the_token_says(digest: bytes, signature: bytes) -> str | None:
    """The same of another library: v is 27 or 28, and s the lower of the two."""
    v, s = signature[64], int.from_bytes(signature[32:64])
    if v not in (27, 28) or s > _HALF:
        return None
    try:
        key = Signature(signature[:64] + bytes([v - 27])).recover_public_key_from_msg_hash(digest)
    except (BadSignature, ValidationError):
        return None
    return str(key.to_checksum_address())


@given(st.binary(min_size=32, max_size=32), _WORDS, _WORDS, _V)
def test_signers_are_the_same_as_in_another_library(digest: bytes, r: bytes, s: bytes, v: int) -> None:
    signature = r + s + bytes([v])
    assert signatures.signer_of(digest, signature) == as_the_token_says(digest, signature)


@given(st.binary(min_size=32, max_size=32), _V, st.booleans())
def test_a_right_signature_counts_in_the_tokens_spelling_alone(digest: bytes, v: int, high: bool) -> None:
    made = KEY.sign_msg_hash(digest)
    s, usual = (SECPK1_N - made.s, 28 - made.v) if high else (made.s, 27 + made.v)
    signature = made.r.to_bytes(32) + s.to_bytes(32) + bytes([v])
    signer = signatures.signer_of(digest, signature)
    assert signer == as_the_token_says(digest, signature)
    assert (signer == KEY.public_key.to_checksum_address()) is (v == usual and not high)


@given(st.binary(max_size=130).filter(lambda signature: len(signature) != 65))
def test_other_bytes_have_no_signer(signature: bytes) -> None:
    assert signatures.signer_of(b"\x01" * 32, signature) is None
