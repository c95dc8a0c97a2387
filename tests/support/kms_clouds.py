"""Two key services on this machine, as their documents describe them: AWS KMS and Google Cloud KMS, with real keys.

moto has a KMS too, but its Sign takes a digest for a message and hashes it again (getmoto/moto, pull request 10202), so
what it signs is no transaction. This one knows its callers by their access key, and the Google one by the bearer tokens
that it gives out itself.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google_crc32c
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)

from relayer.kms.signer import ORDER, address_of
from tests.support.serving import serving

REGION = "eu-central-1"
GCP_KEY = "projects/p-1/locations/europe-west3/keyRings/vpm/cryptoKeys/relay-{}/cryptoKeyVersions/1"

# What a service does with the next request for a signature: throttles it, fails, or gives a signature that is wrong.
Fault = str


@dataclass
class Key:
    """A real private key, and how it signs. high: every signature has its s in the upper half, as half of all have."""

    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256K1()))
    high: bool = False

    @property
    def spki(self) -> bytes:
        return self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def address(self) -> str:
        return "0x" + address_of(self.spki).hex()

    def sign(self, digest: bytes) -> bytes:
        r, s = decode_dss_signature(self.private.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256()))))
        return encode_dss_signature(r, max(s, ORDER - s) if self.high else s)


@dataclass
class Cloud:
    """What both services share: keys by name, and what is wrong with the service at the moment.

    faults: for the next requests to sign, one each. down: refuses everything until set to False. slow_seconds: by key.
    held: keys whose signatures are not answered while they are in it. digests: every digest it was asked to sign.
    denied: keys of which only the public part may be read.
    """

    keys: dict[str, Key] = field(default_factory=dict)
    faults: deque[Fault] = field(default_factory=deque)
    down: bool = False
    slow_seconds: dict[str, float] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    denied: set[str] = field(default_factory=set)
    digests: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most_at_once: int = 0
    url: str = ""
    stop: Callable[[], Awaitable[None]] | None = None

    async def signature(self, name: str, digest: bytes, fault: Fault | None) -> bytes:
        """Sign a request that was let through, rightly or wrongly."""
        if fault == "garbage":
            return secrets.token_bytes(70)
        if fault == "other":
            return Key().sign(digest)
        self.digests.append(digest)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.slow_seconds.get(name, 0.0))
            while name in self.held:
                await asyncio.sleep(0.02)
        finally:
            self.at_once -= 1
        return self.keys[name].sign(digest)

    def fault(self) -> Fault | None:
        return "down" if self.down else self.faults.popleft() if self.faults else None


# ---------------------------------------------------------------- AWS


@dataclass
class Aws(Cloud):
    """Amazon's service: JSON 1.1 at /, each request signed with SigV4 by `access` and `secret`."""

    access: str = field(default_factory=lambda: "AKIA" + secrets.token_hex(8).upper())
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(30))

    @property
    def env(self) -> dict[str, str]:
        """What an AWS client needs to speak to it, by AWS's own variables."""
        return {
            "AWS_ACCESS_KEY_ID": self.access,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_ENDPOINT_URL_KMS": self.url,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/nonexistent",
            "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
        }

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        if f"Credential={self.access}/" not in request.headers.get("Authorization", ""):
            return self._refuse(400, "UnrecognizedClientException", "The security token in the request is invalid.")
        asked, target = json.loads(body), request.headers["X-Amz-Target"]
        name = asked["KeyId"]
        if self.down:
            return self._refuse(500, "KMSInternalException", "")
        if name not in self.keys:
            return self._refuse(400, "NotFoundException", f"Alias {name} is not found.")
        key = self.keys[name]
        if target == "TrentService.GetPublicKey":
            return self._answer({"KeyId": name, "PublicKey": base64.b64encode(key.spki).decode()})
        assert target == "TrentService.Sign"
        assert (asked["MessageType"], asked["SigningAlgorithm"]) == ("DIGEST", "ECDSA_SHA_256")
        digest = base64.b64decode(asked["Message"], validate=True)
        assert len(digest) == 32
        if name in self.denied:
            return self._refuse(400, "AccessDeniedException", "User is not authorized to perform: kms:Sign")
        fault = self.fault()
        if fault == "throttled":
            return self._refuse(400, "ThrottlingException", "You have exceeded the rate.")
        if fault == "failed":
            return self._refuse(500, "KMSInternalException", "")
        signature = await self.signature(name, digest, fault)
        return self._answer({"KeyId": name, "Signature": base64.b64encode(signature).decode()})

    def _answer(self, content: dict[str, Any]) -> web.Response:
        self.answers["ok"] += 1
        return web.Response(body=json.dumps(content).encode(), content_type="application/x-amz-json-1.1")

    def _refuse(self, status: int, code: str, message: str) -> web.Response:
        self.answers[code] += 1
        body = json.dumps({"__type": code, "message": message}).encode()
        return web.Response(body=body, status=status, content_type="application/x-amz-json-1.1")

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/", self.handle)
        return app


# ---------------------------------------------------------------- Google


@dataclass
class Gcp(Cloud):
    """Google's service: `:asymmetricSign` and `/publicKey` of key versions, and /token, where a service account gets
    its tokens."""

    account: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    tokens: set[str] = field(default_factory=set)
    token_seconds: int = 3600
    tokens_given: int = 0

    def env(self, folder: Path) -> dict[str, str]:
        """What a Google client needs to speak to it: a service account's file, by Google's own variable."""
        path = folder / "service-account.json"
        pem = self.account.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_text(
            json.dumps(
                {
                    "type": "service_account",
                    "project_id": "p-1",
                    "private_key_id": "k1",
                    "private_key": pem.decode(),
                    "client_email": "relayer@p-1.iam.gserviceaccount.com",
                    "client_id": "1",
                    "token_uri": f"{self.url}/token",
                }
            )
        )
        return {"GOOGLE_APPLICATION_CREDENTIALS": str(path), "VPM_RELAYER_GCP_KMS_URL": self.url}

    async def give_token(self, request: web.Request) -> web.Response:
        claims = str((await request.post())["assertion"]).split(".")[1]
        said = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        assert said["scope"] == "https://www.googleapis.com/auth/cloudkms"
        token = secrets.token_urlsafe(20)
        self.tokens.add(token)
        self.tokens_given += 1
        return web.json_response({"access_token": token, "expires_in": self.token_seconds, "token_type": "Bearer"})

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.bodies.append(body)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return self._refuse(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
        name, _, verb = request.path.removeprefix("/v1/").partition(":")
        name, public = name.removesuffix("/publicKey"), name.endswith("/publicKey")
        if self.down:
            return self._refuse(503, "UNAVAILABLE", "The service is currently unavailable.")
        if name not in self.keys:
            return self._refuse(404, "NOT_FOUND", f"CryptoKeyVersion {name} not found.")
        if public:
            pem = (
                self.keys[name]
                .private.public_key()
                .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
            )
            crc = str(google_crc32c.value(pem))
            return self._answer({"pem": pem.decode(), "pemCrc32c": crc, "name": name})
        assert verb == "asymmetricSign"
        asked = json.loads(body)
        digest = base64.b64decode(asked["digest"]["sha256"], validate=True)
        assert len(digest) == 32
        if asked["digestCrc32c"] != str(google_crc32c.value(digest)):
            return self._refuse(400, "INVALID_ARGUMENT", "The checksum in field digest_crc32c did not match.")
        if name in self.denied:
            return self._refuse(403, "PERMISSION_DENIED", "Permission 'cloudkms.cryptoKeyVersions.useToSign' denied.")
        fault = self.fault()
        if fault == "throttled":
            return self._refuse(429, "RESOURCE_EXHAUSTED", "Quota exceeded.")
        if fault == "failed":
            return self._refuse(503, "UNAVAILABLE", "The service is currently unavailable.")
        signature = await self.signature(name, digest, fault)
        return self._answer(
            {
                "signature": base64.b64encode(signature).decode(),
                "signatureCrc32c": str(google_crc32c.value(signature) ^ (fault == "changed")),
                "verifiedDigestCrc32c": fault != "unverified",
                "name": name + ("0" if fault == "elsewhere" else ""),
            }
        )

    def _answer(self, content: dict[str, Any]) -> web.Response:
        self.answers["ok"] += 1
        return web.json_response(content)

    def _refuse(self, status: int, code: str, message: str) -> web.Response:
        self.answers[code] += 1
        return web.json_response({"error": {"code": status, "message": message, "status": code}}, status=status)

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/token", self.give_token)
        app.router.add_route("*", "/v1/{name:.+}", self.handle)
        return app


@contextlib.asynccontextmanager
async def served(cloud: Aws | Gcp, port: int = 0) -> AsyncIterator[None]:
    """The service at `cloud.url`, until the end or `cloud.stop`."""
    async with contextlib.AsyncExitStack() as stack:
        cloud.url = await stack.enter_async_context(serving(cloud.app(), port))
        cloud.stop = stack.aclose
        yield
