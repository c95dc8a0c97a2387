"""EIP-1559 transactions as bytes, hash and signature.

Signing is the relayer's hottest code: about a third of the time it takes through eth_account, whose output the tests
compare byte for byte. A signer whose key lies elsewhere gets the digest and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import rlp
from coincurve import PrivateKey
from eth_utils.crypto import keccak as keccak256

from core.errors import VpmError
from core.hexadecimal import hex_of

_TYPE = b"\x02"
Fields = list[bytes | list[bytes]]


@dataclass(frozen=True, slots=True)
class Fees:
    """What a transaction offers, in wei per gas: the most it pays in all, and the most of that to the block's maker."""

    max_fee_wei: int
    max_priority_fee_wei: int


class Signature(NamedTuple):
    """An ECDSA signature as a transaction carries it: r and s of 32 bytes, s in the lower half, and the parity of R."""

    r: bytes
    s: bytes
    parity: int


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A transaction before its signature. `to` is 20 bytes, `value_wei` in wei, `gas_limit` in gas units."""

    chain_id: int
    nonce: int
    fees: Fees
    gas_limit: int
    to: bytes
    value_wei: int
    data: bytes

    def fields(self) -> Fields:
        """Return the list that is signed; its last field is the access list, which is empty."""
        return [
            _bytes(self.chain_id),
            _bytes(self.nonce),
            _bytes(self.fees.max_priority_fee_wei),
            _bytes(self.fees.max_fee_wei),
            _bytes(self.gas_limit),
            self.to,
            _bytes(self.value_wei),
            self.data,
            [],
        ]

    def signed(self, signature: Signature) -> Signed:
        """Return the whole transaction."""
        r, s, parity = signature
        raw = _encoded([*self.fields(), _bytes(parity), r.lstrip(b"\0"), s.lstrip(b"\0")])
        return Signed(self.nonce, raw, keccak256(raw), self.fees, self.gas_limit)

    @property
    def digest(self) -> bytes:
        """The 32 bytes that are signed."""
        return keccak256(_encoded(self.fields()))


@dataclass(frozen=True, slots=True)
class Signed:
    """The bytes to send and the hash the chain will know them by. is_cancel: a no-op that takes another's nonce."""

    nonce: int
    raw: bytes = field(repr=False)
    hash: bytes
    fees: Fees
    gas_limit: int
    is_cancel: bool = False


class SignerUnavailable(VpmError):
    """The signer cannot sign at the moment. No signed transaction exists that could be sent, so everything may wait."""

    code = "signer_unavailable"
    default_retriable = True


class Signer(ABC):
    """A key that signs a lane's transactions, wherever it lies.

    address: 20 bytes. at_once: how many transactions it takes at a time; None for a key in memory, which signs without
    waiting. trouble: why it signs nothing now, as a sentence.
    """

    address: bytes
    at_once: int | None = None
    trouble: str | None = None

    @abstractmethod
    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        """Sign in the order given, up to the first that could not be signed; SignerUnavailable when that is the
        first."""

    @property
    def label(self) -> str:
        """Its address as text, as metrics, logs and nodes name its lanes."""
        return hex_of(self.address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label})"


class LocalSigner(Signer):
    """A private key in memory; it is never shown, compared or logged."""

    def __init__(self, secret: bytes) -> None:
        self._key = PrivateKey(secret)
        self.address: bytes = keccak256(self._key.public_key.format(compressed=False)[1:])[12:]

    def sign(self, transaction: Unsigned) -> Signed:
        made = self._key.sign_recoverable(transaction.digest, hasher=None)
        return transaction.signed(Signature(made[:32], made[32:64], made[64]))

    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        return [self.sign(each) for each in transactions]


def _bytes(number: int) -> bytes:
    """Return a number without leading zeros, as RLP has it: nothing at all for 0."""
    return number.to_bytes((number.bit_length() + 7) // 8)


def _encoded(fields: Fields) -> bytes:
    encoded: bytes = rlp.encode(fields, infer_serializer=False)
    return _TYPE + encoded
