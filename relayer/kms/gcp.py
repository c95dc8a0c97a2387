"""Google Cloud KMS: key versions of EC_SIGN_SECP256K1_SHA256, over its documented REST interface with aiohttp.

google-auth finds credentials in every standard way and renews tokens; it blocks while it does, once an hour, so that
runs in a thread. google-cloud-kms would do the rest too, with gRPC and protobuf behind it: 30 MB for two calls.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

from core.config.key_names import KeyName
from core.errors import ConfigError
from relayer.kms.signer import KmsDenied, KmsFault, KmsThrottled

SCOPE = "https://www.googleapis.com/auth/cloudkms"


class GcpTokens:
    """Bearer tokens, renewed one at a time however many ask."""

    def __init__(self, credentials: Any, request: Any) -> None:
        self._credentials = credentials
        self._request = request
        self._renewing = asyncio.Lock()

    async def token(self, *, refused: str | None = None) -> str:
        """A valid one; `refused` is one that the service did not take, whatever its date says."""
        async with self._renewing:
            if not self._credentials.valid or self._credentials.token == refused:
                await self._renew()
            return str(self._credentials.token)

    async def _renew(self) -> None:
        from google.auth.exceptions import GoogleAuthError, TransportError  # noqa: PLC0415

        try:
            await asyncio.to_thread(self._credentials.refresh, self._request)
        except TransportError as error:
            raise KmsFault(f"No Google access token was to be had: {type(error).__name__}") from None
        except GoogleAuthError as error:
            # The text may quote the answer of the token service, never the key that asked.
            kind = KmsFault if error.retryable else KmsDenied
            raise kind(f"Google gives no access token: {str(error.args[0])[:200]}", hint=_CREDENTIALS) from None


class GcpKey:
    """One key version."""

    def __init__(self, session: aiohttp.ClientSession, tokens: GcpTokens, url: str, name: KeyName) -> None:
        self.name = str(name)
        self._session = session
        self._tokens = tokens
        self._resource = name.key
        self._url = f"{url}/v1/{name.key}"

    async def public_key(self) -> bytes:
        answer = await self._asked("GET", "/publicKey", None)
        pem = str(answer.get("pem", ""))
        self._same(answer, "pem", pem.encode())
        lines = [line for line in pem.splitlines() if line and not line.startswith("-----")]
        return _bytes("".join(lines))

    async def sign(self, digest: bytes) -> bytes:
        # Named after SHA-256, this algorithm signs any 32 bytes.
        body = {"digest": {"sha256": base64.b64encode(digest).decode()}, "digestCrc32c": str(_crc32c(digest))}
        answer = await self._asked("POST", ":asymmetricSign", body)
        signature = _bytes(str(answer.get("signature", "")))
        self._same(answer, "signature", signature)
        if answer.get("verifiedDigestCrc32c") is not True:
            raise KmsFault("Cloud KMS did not verify the digest's checksum: it was changed on its way.")
        return signature

    def _same(self, answer: dict[str, Any], field: str, content: bytes) -> None:
        if answer.get("name") != self._resource:
            raise KmsFault("Cloud KMS answered for another key version.")
        if str(answer.get(f"{field}Crc32c")) != str(_crc32c(content)):
            raise KmsFault(f"The checksum of the {field} is wrong: it was changed on its way.")

    async def _asked(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        token = await self._tokens.token()
        status, answer = await self._request(method, path, body, token)
        if status == 401:
            status, answer = await self._request(method, path, body, await self._tokens.token(refused=token))
        if status == 200:
            return answer
        fault = answer.get("error")
        fault = fault if isinstance(fault, dict) else {}
        sentence = f"Cloud KMS says {status} {fault.get('status', '')}: {fault.get('message', '')}"[:400].rstrip(": ")
        if status == 429:
            raise KmsThrottled(sentence)
        if status >= 500 or status == 408:
            raise KmsFault(sentence)
        raise KmsDenied(sentence, hint=_NEXT.get(status, _SEE))

    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None, token: str
    ) -> tuple[int, dict[str, Any]]:
        try:
            async with self._session.request(
                method,
                self._url + path,
                data=None if body is None else orjson.dumps(body),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
                allow_redirects=False,
            ) as response:
                content = await response.read()
                answer = orjson.loads(content) if content.startswith(b"{") else {}
                return response.status, answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise KmsFault(f"Cloud KMS did not answer: {type(error).__name__}") from None
        except orjson.JSONDecodeError:
            raise KmsFault("Cloud KMS answered something that is not JSON.") from None


@contextlib.asynccontextmanager
async def gcp_client(*, at_once: int, try_seconds: float) -> AsyncIterator[tuple[aiohttp.ClientSession, GcpTokens]]:
    """Connections and tokens for all keys of a process. ConfigError when there are no credentials."""
    try:
        import google_crc32c  # noqa: F401, PLC0415
        from google.auth import default  # noqa: PLC0415
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415
        from google.auth.transport.requests import Request  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            "VPM_RELAYER_KEYSTORES names a key of gcp-kms, and google-auth or google-crc32c is not installed.",
            hint="Install the extra `gcp` (deployments/docker/requirements-gcp.txt).",
        ) from None
    try:
        credentials, _ = await asyncio.to_thread(default, scopes=[SCOPE])
    except GoogleAuthError as error:
        raise ConfigError(
            f"VPM_RELAYER_KEYSTORES names a key of gcp-kms, and there are no Google credentials: {error.args[0]}",
            hint=_CREDENTIALS,
        ) from None
    timeout = aiohttp.ClientTimeout(total=try_seconds)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=at_once)) as session:
        yield session, GcpTokens(credentials, Request())


def _crc32c(content: bytes) -> int:
    import google_crc32c  # noqa: PLC0415

    return int(google_crc32c.value(content))


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise KmsFault("Cloud KMS answered something that is not base64.") from None


_CREDENTIALS = "Attach a service account to this machine or pod, or name a file in GOOGLE_APPLICATION_CREDENTIALS."
_SEE = "See docs/operate.md, Keys in a key service."
_NEXT = {
    400: "Look at the version's state and algorithm; one that is disabled or destroyed signs nothing.",
    401: _CREDENTIALS,
    403: "Give this service account roles/cloudkms.signer and roles/cloudkms.publicKeyViewer on this key.",
    404: "Compare project, location, key ring, key and version.",
}
