"""A signer whose key is in a key service, which may be slow, throttled or down, and whose signatures are checked.

A service returns neither the parity of R nor a low s. Both follow from the address: only one of the possible signatures
recovers to it. A signature that recovers to another address is never used.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from eth_utils.crypto import keccak

from core.errors import ConfigError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.signatures import recover
from relayer import metrics
from relayer.signing import Signature, Signed, Signer, SignerUnavailable, Unsigned

log = get_logger(__name__)


class SignerThrottled(SignerUnavailable):
    """An error: the key service throttles us."""

    code = "signer_throttled"


class KmsKey(Protocol):
    """A key in a key service. Each call is one request, and raises SignerUnavailable if it fails."""

    @property
    def name(self) -> str:
        """Return the key's name as the operator wrote it."""

    async def public_key(self) -> bytes:
        """Return the key's SubjectPublicKeyInfo in DER."""

    async def sign(self, digest: bytes) -> bytes:
        """Return a signature of exactly these 32 bytes in DER."""


ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def signature_of(der: bytes, digest: bytes, address: bytes) -> Signature:
    """Return the signature in this DER that recovers to `address` over `digest`; raise ValueError if none does."""
    try:
        r, s = decode_dss_signature(der)
    except ValueError:
        raise ValueError("the answer is not a DER signature") from None
    if not (0 < r < ORDER and 0 < s < ORDER):
        raise ValueError("the signature's numbers are out of range")
    # Both s and its negative are valid, but the chain accepts only the lower one (EIP-2). The order is odd.
    s = min(s, ORDER - s)
    both = r.to_bytes(32) + s.to_bytes(32)
    # R's x is r. The other case, r plus the order, has a chance of 2^-128 and cannot be written in a transaction.
    for parity in (0, 1):
        if recover(digest, both, parity) == address:
            return Signature(both[:32], both[32:], parity)
    raise ValueError(f"the signature does not recover to {hex_of(address)}")


def address_of(public_key: bytes, name: str) -> bytes:
    """Return the address of a public key in DER (SubjectPublicKeyInfo); raise ConfigError if it cannot sign
    transactions."""
    try:
        key = load_der_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise _unusable_key(name, "the answer is not a public key") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256K1):
        raise _unusable_key(name, "the key is not on the curve secp256k1")
    return keccak(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:])[12:]


def _unusable_key(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"The key at {name} cannot sign transactions: {why}.", hint="Create a key with the spec ECC_SECG_P256K1."
    )


T = TypeVar("T")

# Pauses between retries of one request: doubled each time, with up to half of it cut at random.
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 2.0
# Pauses between probes while the service does not sign.
FIRST_PROBE_SECONDS = 0.5
MAX_PROBE_SECONDS = 15.0
# Signed to check that the key signs. It cannot be a transaction, whose bytes begin with its type.
PROBE = keccak(b"vpm relayer: does this key sign?")


@dataclass(frozen=True, slots=True)
class KmsPatience:
    """The limits of requests to a key service. `at_once` is the number of concurrent requests for one key. `seconds` is
    how long one signature is retried."""

    at_once: int = 8
    seconds: float = 10.0

    @property
    def try_seconds(self) -> float:
        """Return the timeout of one request, which leaves time for a second one."""
        return self.seconds / 2


class KmsSigner(Signer):
    """A key in a key service.

    It returns only signatures that recover to its address. After a failure it refuses to sign, without waiting, until
    `watch` has seen the key sign again. Only `watch` waits for a service that is down.
    """

    def __init__(self, key: KmsKey, address: bytes, patience: KmsPatience) -> None:
        self.address = address
        self.at_once = patience.at_once
        self._key = key
        self._patience = patience
        self._room = asyncio.Semaphore(patience.at_once)
        self._troubled = asyncio.Event()
        metrics.SIGNER_UP.labels(self.label).set(1)

    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        if self.problem is not None:
            raise SignerUnavailable(self.problem)
        made = await asyncio.gather(*(self._sign(each) for each in transactions), return_exceptions=True)
        signed: list[Signed] = []
        for each in made:
            if isinstance(each, SignerUnavailable):
                if not signed:
                    self.fail(each.sentence())
                    raise each
                break
            if isinstance(each, BaseException):
                raise each
            signed.append(each)
        return signed

    async def watch(self) -> None:
        """Probe the key while it has a problem, forever."""
        while True:
            await self._troubled.wait()
            pause = FIRST_PROBE_SECONDS
            while self.problem is not None:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(2 * pause, MAX_PROBE_SECONDS)
                try:
                    await self.check()
                except (ConfigError, SignerUnavailable) as error:
                    self.fail(error.sentence())
                else:
                    self._recovered()

    async def check(self) -> None:
        """Request the public key and a signature; raise ConfigError if the key is the wrong one."""
        public_key = await try_once(self._key, self._key.public_key, self._patience)
        address = address_of(public_key, self._key.name)
        if address != self.address:
            raise ConfigError(
                f"The key at {self._key.name} is {hex_of(address)}, but {hex_of(self.address)} was expected.",
                hint=f"Correct VPM_RELAYER_KEYSTORES, or point {self._key.name} to the right key again.",
            )
        await self._signature(PROBE)

    async def _sign(self, transaction: Unsigned) -> Signed:
        async with self._room:
            return transaction.signed(await self._signature(transaction.digest))

    async def _signature(self, digest: bytes) -> Signature:
        """Return a signature; raise SignerUnavailable if the service returns none in time, or a wrong one."""
        der = await with_retries(self._key, lambda: self._timed(digest), self._patience)
        try:
            return signature_of(der, digest, self.address)
        except ValueError as error:
            metrics.SIGNATURES.labels(self.label, "wrong").inc()
            raise SignerUnavailable(
                f"{self._key.name} returned a wrong signature: {error}.",
                hint="Check whether the name points to another key now.",
                retriable=False,
            ) from None

    async def _timed(self, digest: bytes) -> bytes:
        started, answer = time.monotonic(), "away"
        try:
            der = await self._key.sign(digest)
            answer = "signed"
            return der
        except SignerThrottled:
            answer = "throttled"
            raise
        except SignerUnavailable as error:
            answer = "away" if error.retriable else "denied"
            raise
        finally:
            metrics.SIGNATURES.labels(self.label, answer).inc()
            metrics.SIGNATURE_SECONDS.labels(self.label).observe(time.monotonic() - started)

    def fail(self, why: str) -> None:
        """Refuse to sign until `watch` has seen the key sign again."""
        if self.problem != why:
            log.error(why, action="relayer.signer_down", lane=self.label, key=self._key.name)
        self.problem = why
        metrics.SIGNER_UP.labels(self.label).set(0)
        self._troubled.set()

    def _recovered(self) -> None:
        log.info("the key can sign again", action="relayer.signer_up", lane=self.label, key=self._key.name)
        self.problem = None
        metrics.SIGNER_UP.labels(self.label).set(1)
        self._troubled.clear()


async def try_once(key: KmsKey, request: Callable[[], Awaitable[T]], patience: KmsPatience) -> T:
    """Send one request; raise SignerUnavailable if it fails or times out."""
    try:
        async with asyncio.timeout(patience.try_seconds):
            return await request()
    except TimeoutError:
        raise SignerUnavailable(f"{key.name} did not answer within {patience.try_seconds:g} s.") from None


async def with_retries(key: KmsKey, request: Callable[[], Awaitable[T]], patience: KmsPatience) -> T:
    """Retry a request while the service throttles it or does not answer; raise the last SignerUnavailable on
    timeout."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + patience.seconds, FIRST_PAUSE_SECONDS
    while True:
        try:
            return await try_once(key, request, patience)
        except SignerUnavailable as error:
            if not error.retriable or loop.time() + pause >= deadline:
                raise
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
        pause = min(2 * pause, MAX_PAUSE_SECONDS)
