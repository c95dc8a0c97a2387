"""AWS KMS keys with the spec ECC_SECG_P256K1, through aiobotocore, which handles endpoints, SigV4 and every standard
source of credentials (environment, profile, web identity, container, instance) without blocking the event loop."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from core.config.lanes import KeyName
from core.errors import ConfigError
from relayer.kms.signer import SignerThrottled
from relayer.signing import SignerUnavailable

ALGORITHM = "ECDSA_SHA_256"
# Temporary errors; the others need a person.
_TEMPORARY = ("DependencyTimeoutException", "KMSInternalException", "KeyUnavailableException", "InternalFailure")
_THROTTLED = ("ThrottlingException", "LimitExceededException", "RequestLimitExceeded", "TooManyRequestsException")


class AwsKey:
    """One KMS key, by id, ARN or alias."""

    def __init__(self, client: Any, name: KeyName) -> None:
        self.name = str(name)
        self._client = client
        self._key = name.key

    async def public_key(self) -> bytes:
        return bytes((await self._request(self._client.get_public_key(KeyId=self._key)))["PublicKey"])

    async def sign(self, digest: bytes) -> bytes:
        # With DIGEST the service hashes nothing; the algorithm's name only gives the digest's length.
        answer = await self._request(
            self._client.sign(KeyId=self._key, Message=digest, MessageType="DIGEST", SigningAlgorithm=ALGORITHM)
        )
        return bytes(answer["Signature"])

    async def _request(self, call: Any) -> dict[str, Any]:
        from botocore import exceptions  # type: ignore[import-untyped]  # noqa: PLC0415

        try:
            return dict(await call)
        except exceptions.ClientError as error:
            fault = error.response.get("Error", {})
            code, status = fault.get("Code", ""), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            answer = f"AWS KMS answered {code}: {fault.get('Message', '')}".rstrip(": ")
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
                f"{self.name} does not sign. AWS KMS did not answer: {type(error).__name__}"
            ) from None


@contextlib.asynccontextmanager
async def aws_client(region: str, *, at_once: int, try_seconds: float) -> AsyncIterator[Any]:
    """Return a client for all keys of one region. It never retries; its caller does."""
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
