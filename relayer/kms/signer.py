"""A signer whose key lies in a key service: slow, sometimes refused, sometimes away, and never believed unseen.

A service says neither which of two points R is, nor keeps s in the lower half. Both follow from the address: of the
possible signatures only one recovers to it, and one that does not is never used.
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

from core.errors import EXIT_UNAVAILABLE, ConfigError, VpmError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.signatures import recover
from relayer import metrics
from relayer.signing import Signature, Signed, Signer, SignerUnavailable, Unsigned

log = get_logger(__name__)


class KmsFault(VpmError):
    """The key service did not answer, or answered with an internal error; a retry may help."""

    code = "kms_fault"
    default_retriable = True


class KmsThrottled(KmsFault):
    """The key service refuses for now, because too much is asked of it."""

    code = "kms_throttled"


class KmsDenied(VpmError):
    """The key service will not sign until a person changes something: permissions, the name, the key's state."""

    code = "kms_denied"


class KmsKey(Protocol):
    """One key of a key service. Each call is one request; KmsFault or KmsDenied when it is not answered."""

    @property
    def name(self) -> str:
        """As the operator wrote it."""

    async def public_key(self) -> bytes:
        """DER, SubjectPublicKeyInfo."""

    async def sign(self, digest: bytes) -> bytes:
        """DER, over exactly these 32 bytes."""


ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


class BadSignature(ValueError):
    """A signature that is none, or not of the address it should be of."""


class BadPublicKey(ValueError):
    """A public key that is none, or not on secp256k1."""


def signature_of(der: bytes, digest: bytes, address: bytes) -> Signature:
    """Return the one signature over `digest` in this DER that recovers to `address`; BadSignature when there is
    none."""
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
        if recover(digest, both, parity) == address:
            return Signature(both[:32], both[32:], parity)
    raise BadSignature(f"the signature does not recover to {hex_of(address)}")


def address_of(public_key: bytes) -> bytes:
    """Return the address of a DER SubjectPublicKeyInfo; BadPublicKey when it is not one of secp256k1."""
    try:
        key = load_der_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise BadPublicKey("the answer is no public key") from None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256K1):
        raise BadPublicKey("the key is not on the curve secp256k1")
    return keccak(key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)[1:])[12:]


T = TypeVar("T")

# Between two requests for the same thing: doubled each time, of which a random half is waited.
FIRST_PAUSE_SECONDS = 0.1
MAX_PAUSE_SECONDS = 2.0
# While the service does not sign, it is tried this often, whether anything waits or not.
FIRST_PROBE_SECONDS = 0.5
MAX_PROBE_SECONDS = 15.0
# Signed to see whether the key signs. No transaction: those begin with their type, and this text is not one.
PROBE = keccak(b"vpm relayer: does this key sign?")


class KeyServiceAway(VpmError):
    """The key service did not answer, and nothing else says which address its key has."""

    code = "key_service_away"
    exit_code = EXIT_UNAVAILABLE
    default_retriable = True


@dataclass(frozen=True, slots=True)
class KmsPatience:
    """How much is asked of a key service. at_once: requests under way for one key. seconds: in which one signature is
    asked for again."""

    at_once: int = 8
    seconds: float = 10.0

    @property
    def try_seconds(self) -> float:
        """For one request; so a request that hangs leaves room for another."""
        return self.seconds / 2


class KmsSigner(Signer):
    """A key in a key service.

    It gives out no signature that does not recover to its address. Once it could not sign it is in trouble, and refuses
    at once, until `watch` has seen it sign again: so only `watch` waits for a service that is down.
    """

    def __init__(self, key: KmsKey, address: bytes, patience: KmsPatience, *, trouble: str | None = None) -> None:
        self.address = address
        self.at_once = patience.at_once
        self._key = key
        self._patience = patience
        self._room = asyncio.Semaphore(patience.at_once)
        self._troubled = asyncio.Event()
        metrics.SIGNER_UP.labels(self.label).set(1)
        if trouble is not None:
            self.fail(trouble)

    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        if self.trouble is not None:
            raise SignerUnavailable(self.trouble)
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
        while True:
            await self._troubled.wait()
            pause = FIRST_PROBE_SECONDS
            while self.trouble is not None:
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
                pause = min(2 * pause, MAX_PROBE_SECONDS)
                try:
                    await self.check()
                except (ConfigError, SignerUnavailable) as error:
                    self.fail(error.sentence())
                else:
                    self._recovered()

    async def check(self) -> None:
        """Ask for the key and for a signature; ConfigError when it is another key than it should be."""
        try:
            async with asyncio.timeout(self._patience.try_seconds):
                self._compare(address_in(await self._key.public_key(), self._key.name))
        except (KmsFault, KmsDenied) as error:
            raise unavailable(self._key.name, error) from None
        except TimeoutError:
            raise SignerUnavailable(f"{self._key.name} does not answer.") from None
        await self._signature(PROBE)

    def _compare(self, address: bytes) -> None:
        if address != self.address:
            raise ConfigError(
                f"The key at {self._key.name} is {hex_of(address)}, and {hex_of(self.address)} was expected.",
                hint=f"Correct VPM_RELAYER_KEYSTORES, or let {self._key.name} name the right key again.",
            )

    async def _sign(self, transaction: Unsigned) -> Signed:
        async with self._room:
            return transaction.signed(await self._signature(transaction.digest))

    async def _signature(self, digest: bytes) -> Signature:
        """SignerUnavailable when there was none in time, or when it is not ours."""
        try:
            der = await persistently(lambda: self._timed(digest), self._patience)
            return signature_of(der, digest, self.address)
        except (KmsFault, KmsDenied) as error:
            raise unavailable(self._key.name, error) from None
        except BadSignature as error:
            metrics.SIGNATURES.labels(self.label, "wrong").inc()
            raise SignerUnavailable(
                f"{self._key.name} signs wrongly: {error}.",
                hint="Look whether the name leads to another key now.",
                retriable=False,
            ) from None

    async def _timed(self, digest: bytes) -> bytes:
        started, answer = time.monotonic(), "away"
        try:
            der = await self._key.sign(digest)
            answer = "signed"
            return der
        except KmsThrottled:
            answer = "throttled"
            raise
        except KmsDenied:
            answer = "denied"
            raise
        finally:
            metrics.SIGNATURES.labels(self.label, answer).inc()
            metrics.SIGNATURE_SECONDS.labels(self.label).observe(time.monotonic() - started)

    def fail(self, why: str) -> None:
        """Mark the signer as failing until it signs again."""
        if self.trouble != why:
            log.error(why, action="relayer.signer_down", lane=self.label, key=self._key.name)
        self.trouble = why
        metrics.SIGNER_UP.labels(self.label).set(0)
        self._troubled.set()

    def _recovered(self) -> None:
        log.info("the key signs again", action="relayer.signer_up", lane=self.label, key=self._key.name)
        self.trouble = None
        metrics.SIGNER_UP.labels(self.label).set(1)
        self._troubled.clear()


def address_in(public_key: bytes, name: str) -> bytes:
    """Return the address of what a service says is the public key; ConfigError when it is of no use to us."""
    try:
        return address_of(public_key)
    except BadPublicKey as error:
        raise ConfigError(f"The key at {name} cannot sign transactions: {error}.", hint=_MAKE) from None


def unavailable(name: str, error: KmsFault | KmsDenied) -> SignerUnavailable:
    """Return the same, said of the key; what only a person can change is not to be tried again."""
    return SignerUnavailable(f"{name} does not sign. {error.message}", hint=error.hint, retriable=error.retriable)


async def persistently(ask: Callable[[], Awaitable[T]], patience: KmsPatience) -> T:
    """Ask again while the service is throttled or away; the last KmsFault when time is up, a KmsDenied at once."""
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + patience.seconds, FIRST_PAUSE_SECONDS
    while True:
        try:
            async with asyncio.timeout(patience.try_seconds):
                return await ask()
        except TimeoutError:
            fault = KmsFault(f"It did not answer within {patience.try_seconds:g} s.")
        except KmsFault as error:
            fault = error
        if loop.time() + pause >= deadline:
            raise fault
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311
        pause = min(2 * pause, MAX_PAUSE_SECONDS)


_MAKE = "Make one of the spec ECC_SECG_P256K1."
