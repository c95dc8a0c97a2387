"""The keys, and EIP-1559 transactions as bytes, hash and signature.

Signing is the relayer's hottest code. This module takes about a third of eth_account's time, and tests compare its
bytes with eth_account's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import rlp
from coincurve import PrivateKey
from eth_account import Account
from eth_utils.crypto import keccak as keccak256

from core.config import RelayerSecrets
from core.errors import EXIT_UNAVAILABLE, ConfigError, VpmError
from core.hexadecimal import bytes_of, hex_of

_TYPE = b"\x02"
Fields = list[bytes | list[bytes]]


@dataclass(frozen=True, slots=True)
class Fees:
    """The fees that a transaction offers, in wei per unit of gas."""

    max_fee_wei: int
    max_priority_fee_wei: int


class Signature(NamedTuple):
    """An ECDSA signature: r and s, of 32 bytes each, with s in the lower half, and the parity of R."""

    r: bytes
    s: bytes
    parity: int


@dataclass(frozen=True, slots=True)
class Unsigned:
    """A transaction before its signature. `to` is 20 bytes."""

    chain_id: int
    nonce: int
    fees: Fees
    gas_limit: int
    to: bytes
    value_wei: int
    data: bytes

    def fields(self) -> Fields:
        return [
            _bytes(self.chain_id),
            _bytes(self.nonce),
            _bytes(self.fees.max_priority_fee_wei),
            _bytes(self.fees.max_fee_wei),
            _bytes(self.gas_limit),
            self.to,
            _bytes(self.value_wei),
            self.data,
            [],  # no access list
        ]

    def signed(self, signature: Signature) -> Signed:
        r, s, parity = signature
        raw = _encoded([*self.fields(), _bytes(parity), r.lstrip(b"\0"), s.lstrip(b"\0")])
        return Signed(self.nonce, raw, keccak256(raw), self.fees, self.gas_limit)

    @property
    def digest(self) -> bytes:
        return keccak256(_encoded(self.fields()))


@dataclass(frozen=True, slots=True)
class Signed:
    """A signed transaction. `is_cancel` says whether the transaction is a no-op that takes the nonce of a call."""

    nonce: int
    raw: bytes = field(repr=False)
    hash: bytes
    fees: Fees
    gas_limit: int
    is_cancel: bool = False


class SignerUnavailable(VpmError):
    """The signer cannot sign now, so the intents wait. If this is not retriable, a person must act first."""

    code = "signer_unavailable"
    exit_code = EXIT_UNAVAILABLE
    default_retriable = True


class Signer(ABC):
    """A key that signs a lane's transactions.

    address: the 20 bytes of the key's address.
    at_once: how many transactions the key signs concurrently; None for a key in memory, which signs without waiting.
    problem: a sentence that says why the key cannot sign now.
    """

    address: bytes
    at_once: int | None = None
    problem: str | None = None

    @abstractmethod
    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        """Sign in order, up to the first transaction that cannot be signed. Raise SignerUnavailable if no transaction
        could be signed."""

    @property
    def label(self) -> str:
        """Return the address as text, which names the signer's lanes in metrics and logs."""
        return hex_of(self.address)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label})"


class LocalSigner(Signer):
    """A private key in memory, which is never printed, compared or logged."""

    def __init__(self, secret: bytes) -> None:
        self._key = PrivateKey(secret)
        self.address: bytes = keccak256(self._key.public_key.format(compressed=False)[1:])[12:]

    def sign(self, transaction: Unsigned) -> Signed:
        made = self._key.sign_recoverable(transaction.digest, hasher=None)
        return transaction.signed(Signature(made[:32], made[32:64], made[64]))

    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        return [self.sign(each) for each in transactions]


def _bytes(number: int) -> bytes:
    """Return a number as RLP encodes it: without leading zeros, and empty for 0."""
    return number.to_bytes((number.bit_length() + 7) // 8)


def _encoded(fields: Fields) -> bytes:
    encoded: bytes = rlp.encode(fields, infer_serializer=False)
    return _TYPE + encoded


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key with its chain and groups. The chain is None for a key of every chain."""

    chain: str | None
    groups: tuple[str, ...]
    signer: Signer


def read_keys(secrets: RelayerSecrets) -> list[NamedKey]:
    """Read plain keys and keystore files; `relayer.kms` opens the others. This call blocks: decrypting one file takes
    about a second."""
    keys = [
        NamedKey(each.chain, each.groups, LocalSigner(bytes_of(each.secret.get_secret_value())))
        for each in secrets.lane_keys
    ]
    files = [(each, each.place) for each in secrets.keystore_files if isinstance(each.place, Path)]
    if files:
        assert secrets.keystore_password_file is not None
        try:
            password = secrets.keystore_password_file.read_text().rstrip("\r\n")
        except OSError as error:
            raise ConfigError(
                f"VPM_RELAYER_KEYSTORE_PASSWORD_FILE ({secrets.keystore_password_file}) cannot be read: "
                f"{error.strerror}."
            ) from None
        for keystore, path in files:
            try:
                secret = bytes(Account.decrypt(path.read_text(), password))
            except OSError as error:
                raise ConfigError(f"The keystore {path} cannot be read: {error.strerror}.") from None
            except (ValueError, KeyError, TypeError):
                raise ConfigError(
                    f"The keystore {path} cannot be decrypted: it is not a keystore, or the password is wrong."
                ) from None
            keys.append(NamedKey(keystore.chain, keystore.groups, LocalSigner(secret)))
    if not keys and not secrets.keystore_files:
        raise ConfigError(
            "No lane key is configured.", hint="Set VPM_RELAYER_KEYS or VPM_RELAYER_KEYSTORES (see core.config.lanes)."
        )
    return keys
