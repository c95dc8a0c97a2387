"""Wallets: an eth-account account, a key service, or any object that signs typed data or a digest."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from eth_account.messages import encode_defunct
from eth_utils.address import to_checksum_address

from vpm_client.typed_data import TypedData, digest_of, signer_of

HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@runtime_checkable
class DigestSigner(Protocol):
    """A key that signs a 32-byte digest and returns r, s, v in 65 bytes; for AsyncClient, it may sign
    asynchronously."""

    @property
    def address(self) -> str: ...

    def sign_digest(self, digest: bytes) -> bytes | Awaitable[bytes]: ...


@runtime_checkable
class TypedDataSigner(Protocol):
    """An account like eth-account's; for AsyncClient, it may sign asynchronously."""

    @property
    def address(self) -> Any: ...

    def sign_typed_data(self, domain_data: Any, message_types: Any, message_data: Any) -> Any: ...

    def sign_message(self, signable_message: Any) -> Any: ...


Signer = DigestSigner | TypedDataSigner


@dataclass(frozen=True, slots=True)
class DerSigner:
    """A key in a key service that returns DER signatures without a recovery bit: `DerSigner(address, lambda digest:
    kms.sign(KeyId=..., Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")["Signature"])`."""

    address: str
    sign: Callable[[bytes], bytes | Awaitable[bytes]]

    def sign_digest(self, digest: bytes) -> bytes | Awaitable[bytes]:
        made = self.sign(digest)
        if isinstance(made, bytes):
            return _of_der(made, digest, self.address)
        return self._later(made, digest)

    async def _later(self, made: Awaitable[bytes], digest: bytes) -> bytes:
        return _of_der(await made, digest, self.address)


@dataclass(frozen=True, slots=True)
class ContractWallet:
    """A contract wallet (ERC-1271) and the signer whose signatures it accepts."""

    address: str
    signer: Signer


Wallet = Signer | ContractWallet


def address_of(wallet: Wallet) -> str:
    return to_checksum_address(str(wallet.address))


def request_signature(wallet: Wallet, message: TypedData | str) -> Any:
    """Ask the wallet to sign typed data, or a text by `personal_sign`. The result may be awaitable; `check_signature`
    turns the awaited result into a signature."""
    signer = wallet.signer if isinstance(wallet, ContractWallet) else wallet
    if isinstance(signer, DigestSigner):
        return signer.sign_digest(digest_of(message))
    if isinstance(message, str):
        return signer.sign_message(encode_defunct(text=message))
    return signer.sign_typed_data(message.domain, message.types, message.message)


def require_sync(made: Any) -> Any:
    if inspect.isawaitable(made):
        if inspect.iscoroutine(made):
            made.close()
        raise TypeError("This wallet signs asynchronously: use AsyncClient.")
    return made


def check_signature(wallet: Wallet, message: TypedData | str, made: Any) -> bytes:
    given = getattr(made, "signature", made)
    signature = bytes.fromhex(given.removeprefix("0x")) if isinstance(given, str) else bytes(given)
    if len(signature) == 65 and signature[64] in (0, 1):  # some signers count v from 0, but the token does not
        signature = signature[:64] + bytes([signature[64] + 27])
    if not isinstance(wallet, ContractWallet) and signer_of(digest_of(message), signature) != address_of(wallet):
        raise ValueError(f"The signature is not by {address_of(wallet)}.")
    return signature


def _of_der(der: bytes, digest: bytes, address: str) -> bytes:
    """Convert a DER signature, SEQUENCE {INTEGER r, INTEGER s}, to r, s, v. The token accepts only the lower of the two
    possible s."""
    r, rest = _integer(der[2:])
    s, _ = _integer(rest)
    if s > HALF_ORDER:
        s = ORDER - s
    both = r.to_bytes(32) + s.to_bytes(32)
    for v in (27, 28):
        signature = both + bytes([v])
        if signer_of(digest, signature) == to_checksum_address(address):
            return signature
    raise ValueError(f"The signature is not by {address}.")


def _integer(der: bytes) -> tuple[int, bytes]:
    if len(der) < 2 or der[0] != 2:
        raise ValueError("The signature is not DER-encoded.")
    return int.from_bytes(der[2 : 2 + der[1]]), der[2 + der[1] :]
