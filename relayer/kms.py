"""Keys in a key service, which may be slow, throttled or down, and whose signatures are checked.

A service gets the digest and nothing else, and returns neither the parity of R nor a low s. Both follow from the
address: only one of the possible signatures recovers to it. A signature that recovers to another address is never used.

`python -m relayer.kms NAME...` prints the address of each key, after a test signature.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256K1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key
from eth_utils.crypto import keccak

from core.config import RelayerSecrets, RelayerSettings, load
from core.config.lanes import KeyName, LaneKeystore
from core.errors import ConfigError, VpmError
from core.hexadecimal import hex_of
from core.log import get_logger
from core.signatures import recover
from relayer import metrics
from relayer.signing import NamedKey, Signature, Signed, Signer, SignerUnavailable, Unsigned

log = get_logger(__name__)


class SignerThrottled(SignerUnavailable):
    """The key service throttled the request."""

    code = "signer_throttled"


class KmsKey(Protocol):
    """A key in a key service, with its name as the operator wrote it. Each call is one request, which returns DER or
    raises SignerUnavailable. `sign` signs exactly the 32 bytes of the digest."""

    name: str

    async def public_key(self) -> bytes: ...

    async def sign(self, digest: bytes) -> bytes: ...


ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


def signature_of(der: bytes, digest: bytes, address: bytes) -> Signature:
    try:
        r, s = decode_dss_signature(der)
    except ValueError:
        raise ValueError("the response is not a DER signature") from None
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
    try:
        key = load_der_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise _unusable_key(name, "the response is not a public key") from None
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
        return self.seconds / 2  # leaves time for a second request


class KmsSigner(Signer):
    """A key in a key service. After a failure it refuses to sign, without waiting, until `watch` has seen the key sign
    again."""

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
        """Watch the key forever, and probe it while it has a problem."""
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
        """Refuse to sign until `watch` finds that the key works again."""
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
    try:
        async with asyncio.timeout(patience.try_seconds):
            return await request()
    except TimeoutError:
        raise SignerUnavailable(f"{key.name} did not respond within {patience.try_seconds:g} s.") from None


async def with_retries(key: KmsKey, request: Callable[[], Awaitable[T]], patience: KmsPatience) -> T:
    """Retry a request while the service throttles it or does not respond; on timeout raise the last error."""
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


# ---------------------------------------------------------------- AWS KMS: keys with the spec ECC_SECG_P256K1

# Temporary errors; the others need a person.
_TEMPORARY = ("DependencyTimeoutException", "KMSInternalException", "KeyUnavailableException", "InternalFailure")
_THROTTLED = ("ThrottlingException", "LimitExceededException", "RequestLimitExceeded", "TooManyRequestsException")


class AwsKey:
    """A KMS key, by id, ARN or alias. aiobotocore handles endpoints, SigV4 and every standard source of credentials
    (environment, profile, web identity, container, instance) without blocking the event loop."""

    def __init__(self, client: Any, name: KeyName) -> None:
        self.name = str(name)
        self._client = client
        self._key = name.key

    async def public_key(self) -> bytes:
        return bytes((await self._request(self._client.get_public_key(KeyId=self._key)))["PublicKey"])

    async def sign(self, digest: bytes) -> bytes:
        # With DIGEST the service hashes nothing; the algorithm's name only gives the digest's length.
        answer = await self._request(
            self._client.sign(KeyId=self._key, Message=digest, MessageType="DIGEST", SigningAlgorithm="ECDSA_SHA_256")
        )
        return bytes(answer["Signature"])

    async def _request(self, call: Any) -> dict[str, Any]:
        from botocore import exceptions  # type: ignore[import-untyped]  # noqa: PLC0415

        try:
            return dict(await call)
        except exceptions.ClientError as error:
            fault = error.response.get("Error", {})
            code, status = fault.get("Code", ""), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            answer = f"AWS KMS returned {code}: {fault.get('Message', '')}".rstrip(": ")
            if code in _THROTTLED or status == 429:
                raise SignerThrottled(f"{self.name} does not sign. {answer}") from None
            is_temporary = code in _TEMPORARY or status >= 500
            hint = "" if is_temporary else _HINTS.get(code, _MANUAL)
            raise SignerUnavailable(f"{self.name} does not sign. {answer}", hint=hint, retriable=is_temporary) from None
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
            raise SignerUnavailable(
                f"{self.name} does not sign. No AWS credentials: {error}", hint=_CREDENTIALS, retriable=False
            ) from None
        except exceptions.BotoCoreError as error:
            raise SignerUnavailable(
                f"{self.name} does not sign. AWS KMS did not respond: {type(error).__name__}"
            ) from None


@contextlib.asynccontextmanager
async def aws_client(region: str, *, at_once: int, try_seconds: float) -> AsyncIterator[Any]:
    """Open a client for all keys of one region. The client never retries, because its caller does."""
    try:
        from aiobotocore.config import AioConfig  # type: ignore[import-untyped]  # noqa: PLC0415
        from aiobotocore.session import get_session  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "VPM_RELAYER_KEYSTORES names an aws-kms key, but the package aiobotocore is not installed.",
            hint="Install the extra `aws` (deployments/docker/requirements-aws.txt).",
        ) from None
    config = AioConfig(
        connect_timeout=try_seconds,
        read_timeout=try_seconds,
        max_pool_connections=at_once,
        retries={"total_max_attempts": 1},
        user_agent_appid="vpm-relayer",
    )
    async with get_session().create_client("kms", region_name=region, config=config) as client:
        yield client


_CREDENTIALS = "Give the relayer a role, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
_MANUAL = "See docs/operate.md, Keys in a key service."
_HINTS = {
    "AccessDeniedException": "Allow this role kms:Sign and kms:GetPublicKey on this key.",
    "NotFoundException": "Check the region and the name; an alias is written alias/NAME.",
    "DisabledException": "Enable the key.",
    "KMSInvalidStateException": "Check the key's state: a key being created or scheduled for deletion does not sign.",
    "InvalidKeyUsageException": "Create a key with usage SIGN_VERIFY and spec ECC_SECG_P256K1.",
    "UnrecognizedClientException": _CREDENTIALS,
    "ExpiredTokenException": _CREDENTIALS,
    "InvalidSignatureException": "Check the secret access key and this machine's clock.",
}


@contextlib.asynccontextmanager
async def open_kms_keys(keystores: Sequence[LaneKeystore], patience: KmsPatience) -> AsyncIterator[list[NamedKey]]:
    """Open the keys that are in a key service, and check that each signs for its address.

    A key whose name includes its address is opened even if its service does not respond. Its lanes still follow what
    they sent, and sign again when the service is back.
    """
    uses: dict[KeyName, list[LaneKeystore]] = {}
    for each in keystores:
        if isinstance(each.place, KeyName):
            uses.setdefault(each.place, []).append(each)
    room = patience.at_once * max(1, len(uses))
    async with contextlib.AsyncExitStack() as stack:
        clients = {
            region: await stack.enter_async_context(aws_client(region, at_once=room, try_seconds=patience.try_seconds))
            for region in {name.region for name in uses}
        }
        opened = await asyncio.gather(*(_open(name, AwsKey(clients[name.region], name), patience) for name in uses))
        signers = dict(zip(uses, opened, strict=True))
        yield [NamedKey(each.chain, each.groups, signers[name]) for name, used in uses.items() for each in used]


async def _open(name: KeyName, key: KmsKey, patience: KmsPatience) -> KmsSigner:
    try:
        address = name.address or address_of(await with_retries(key, key.public_key, patience), key.name)
    except SignerUnavailable as error:
        if not error.retriable:
            raise _unusable(error) from None
        raise SignerUnavailable(
            f"Cannot read the public key of {key.name}. {error.message}",
            hint="Append # and its address in VPM_RELAYER_KEYSTORES; its lanes then start without the service.",
        ) from None
    signer = KmsSigner(key, address, patience)
    try:
        await signer.check()
    except SignerUnavailable as error:
        if not error.retriable:
            raise _unusable(error) from None
        signer.fail(error.message)  # its lanes start, and sign once the service does
    return signer


def _unusable(error: SignerUnavailable) -> ConfigError:
    return ConfigError(f"A key of VPM_RELAYER_KEYSTORES cannot be used. {error.message}", hint=error.hint)


async def addresses(names: Sequence[str]) -> list[str]:
    """Return the keys' addresses, using the relayer's credentials and settings; raise ConfigError if a key cannot be
    used."""
    keystores = load(RelayerSecrets, {"VPM_RELAYER_KEYSTORES": ",".join(names)}).keystore_files
    options = load(RelayerSettings)
    async with open_kms_keys(keystores, KmsPatience(options.kms_at_once, options.kms_patience_seconds)) as keys:
        return [each.signer.label for each in keys]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m relayer.kms",
        description="Print the addresses of keys in a key service, and check that they sign.",
    )
    parser.add_argument("name", nargs="+", help="aws-kms://REGION/alias/NAME")
    try:
        print("\n".join(asyncio.run(addresses(parser.parse_args().name))))
    except VpmError as error:
        print(error.sentence(), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
