"""What a key service answers becomes the signature of a transaction, or nothing; and how such a key is named."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from coincurve import PrivateKey
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from eth_account import Account
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from core.config import RelayerSecrets, load
from core.config.lanes import KeyName
from core.errors import ConfigError
from relayer.kms import ORDER, PROBE, address_of, signature_of
from relayer.signing import Fees, LocalSigner, Unsigned
from tests.support.kms_clouds import Key

NAME = "aws-kms://eu-central-1/alias/vpm-relay-0"
SIGNER = "0x00000000219ab540356cBB839Cbe05303d7705Fa"


@given(secret=st.integers(min_value=1, max_value=ORDER - 1), digest=st.binary(min_size=32, max_size=32))
def test_a_signature_is_normalised_to_low_s(secret: int, digest: bytes) -> None:
    key = PrivateKey(secret.to_bytes(32))
    address = LocalSigner(secret.to_bytes(32)).address
    recoverable = key.sign_recoverable(digest, hasher=None)
    r, s = decode_dss_signature(key.sign(digest, hasher=None))
    assert s <= ORDER // 2
    for each in (s, ORDER - s):
        found = signature_of(encode_dss_signature(r, each), digest, address)
        assert found.r + found.s + bytes((found.parity,)) == recoverable


def test_signing_by_digest_equals_signing_in_memory() -> None:
    key, unsigned = Key(high=True), Unsigned(8453, 7, Fees(50, 2), 21_000, b"\1" * 20, value_wei=5, data=b"\2" * 70)
    made = signature_of(key.sign(unsigned.digest), unsigned.digest, bytes.fromhex(key.address[2:]))
    assert Account.recover_transaction(unsigned.signed(made).raw).lower() == key.address


@pytest.mark.parametrize(
    ("der", "said"),
    [
        (b"", "not a DER"),
        (secrets.token_bytes(70), "not a DER"),
        (encode_dss_signature(0, 1), "out of range"),
        (encode_dss_signature(1, ORDER), "out of range"),
        (encode_dss_signature(ORDER, 1), "out of range"),
        (Key().sign(PROBE), "does not recover"),
        (encode_dss_signature(5, 1), "does not recover"),  # no point of the curve has this x
    ],
    ids=["empty", "garbage", "r is zero", "s is the order", "r is the order", "another key's", "no such point"],
)
def test_a_wrong_signature_is_refused(der: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        signature_of(der, PROBE, bytes.fromhex(Key().address[2:]))


def test_a_signature_over_another_digest_is_refused() -> None:
    key = Key()
    with pytest.raises(ValueError, match="does not recover"):
        signature_of(key.sign(keccak(b"another")), PROBE, bytes.fromhex(key.address[2:]))


def test_the_address_of_a_public_key() -> None:
    secret = secrets.token_bytes(32)
    private = ec.derive_private_key(int.from_bytes(secret), ec.SECP256K1())
    assert "0x" + address_of(Key(private).spki, "a key").hex() == Account.from_key(secret).address.lower()
    others = (ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(public_exponent=65537, key_size=2048))
    for other in others:
        der = other.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        with pytest.raises(ConfigError, match="not on the curve secp256k1"):
            address_of(der, "a key")
    with pytest.raises(ConfigError, match="not a public key"):
        address_of(b"\0" * 88, "a key")


# ---------------------------------------------------------------- names


def _named(text: str, **more: str) -> list[tuple[str | None, tuple[str, ...], object]]:
    found = load(RelayerSecrets, {"VPM_RELAYER_KEYSTORES": text, **more}).keystore_files
    return [(each.chain, each.groups, each.place) for each in found]


def test_a_keystore_setting_may_name_a_key_service() -> None:
    key_address = bytes.fromhex(SIGNER[2:])
    arn = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    assert _named(
        f"base:relay=aws-kms://eu-central-1/alias/vpm-relay-0#{SIGNER}, aws-kms://eu-central-1/{arn},"
        f"stock:keeper=/keys/stock.json",
        VPM_RELAYER_KEYSTORE_PASSWORD_FILE="/keys/password",
    ) == [
        ("base", ("relay",), KeyName("eu-central-1", "alias/vpm-relay-0", key_address)),
        (None, ("relay", "keeper"), KeyName("eu-central-1", arn)),
        ("stock", ("keeper",), Path("/keys/stock.json")),
    ]
    (key,) = _named(NAME)  # no file, so no password
    assert str(key[2]) == NAME


def test_a_keys_address_may_be_written_without_0x() -> None:
    assert _named(f"{NAME}#{SIGNER[2:].lower()}") == _named(f"{NAME}#{SIGNER}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("aws-kms://alias/vpm", "does not have the form aws-kms://REGION/alias/NAME"),
        ("aws-kms:eu-central-1", "does not have the form aws-kms://REGION/alias/NAME"),
        ("azure-kms://vault/key", "'azure-kms' is not a known key service; expected aws-kms"),
        (NAME + "#0x12", "'0x12' after # is not an address"),
        (NAME + "#" + SIGNER.replace("a", "A"), "wrong checksum"),
        (NAME + ",/keys/stock.json", "set VPM_RELAYER_KEYSTORE_PASSWORD_FILE too"),
    ],
)
def test_a_wrong_key_name_is_an_error(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match="VPM_RELAYER_KEYSTORES") as raised:
        _named(text)
    assert said in raised.value.message
