"""What a key service answers, as a transaction needs it: a DER signature, a public key as SubjectPublicKeyInfo. Pure.

A service says neither which of two points R is, nor keeps s in the lower half. Both follow from the address: of the
possible signatures only one recovers to it, and one that does not is never used.
"""

from __future__ import annotations

from coincurve import PublicKey
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from eth_utils.crypto import keccak

from core.hexadecimal import hex_of
from relayer.signing import Signature

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class BadSignature(ValueError):
    """A signature that is none, or not of the address it should be of."""


class BadPublicKey(ValueError):
    """A public key that is none, or not on secp256k1."""


def signature_of(der: bytes, digest: bytes, address: bytes) -> Signature:
    """The one signature over `digest` in this DER that recovers to `address`; BadSignature when there is none."""
    try:
        r, s = decode_dss_signature(der)
    except ValueError:
        raise BadSignature("the answer is no DER signature") from None
    if not (0 < r < ORDER and 0 < s < ORDER):
        raise BadSignature("the signature's numbers are out of range")
    # Of s and its negative both are valid; the chain takes the lower one alone (EIP-2). Exact: the order is odd.
    s = min(s, ORDER - s)
    both = r.to_bytes(32) + s.to_bytes(32)
    # R's x is r itself; that it was r plus the order has a chance of 2^-128 and no place in a transaction.
    for parity in (0, 1):
        try:
            public_key = PublicKey.from_signature_and_message(both + bytes((parity,)), digest, hasher=None)
        except ValueError:
            continue  # no point has this x
        if address_of_point(public_key.format(compressed=False)) == address:
            return Signature(both[:32], both[32:], parity)
    raise BadSignature(f"the signature does not recover to {hex_of(address)}")


def address_of(public_key: bytes) -> bytes:
    """The address of a DER SubjectPublicKeyInfo; BadPublicKey when it is not one of secp256k1."""
    try:
        key = load_der_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise BadPublicKey("the answer is no public key") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256K1):
        raise BadPublicKey("the key is not on the curve secp256k1")
    return address_of_point(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def address_of_point(point: bytes) -> bytes:
    """The address of an uncompressed point."""
    return keccak(point[1:])[12:]
