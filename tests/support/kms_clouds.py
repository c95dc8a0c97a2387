"""A key service on this machine, as its documents describe it: AWS KMS, with real keys. moto has a KMS too, but its
Sign takes a digest for a message and hashes it again (getmoto/moto, pull request 10202), so its signatures fit no
transaction."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    Prehashed,
    decode_dss_signature,
    encode_dss_signature,
)

from relayer.kms import ORDER, address_of
from tests.support.serving import serving

REGION = "eu-central-1"

# What a service does with the next request for a signature: throttles it, fails, or gives a signature that is wrong.
Fault = str


@dataclass
class Key:
    """A real private key, and how it signs. high: every signature has its s in the upper half, as every second one has
    in reality."""

    private: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256K1()))
    high: bool = False

    @property
    def spki(self) -> bytes:
        return self.private.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def address(self) -> str:
        return "0x" + address_of(self.spki, "a key").hex()

    def sign(self, digest: bytes) -> bytes:
        r, s = decode_dss_signature(self.private.sign(digest, ec.ECDSA(Prehashed(hashes.SHA256()))))
        return encode_dss_signature(r, max(s, ORDER - s) if self.high else s)


@dataclass
class Aws:
    """JSON 1.1 at /, with each request signed with SigV4 by `access` and `secret`. Callers are known by their access
    key.

    faults: for each of the next requests to sign. down: refuse everything. slow_seconds: by key. held: keys for which
    requests to sign get no response yet. digests: every digest to sign so far. denied: keys of which only the public
    part may be read.
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
    access: str = field(default_factory=lambda: "AKIA" + secrets.token_hex(8).upper())
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(30))

    async def signature(self, name: str, digest: bytes, fault: Fault | None) -> bytes:
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

    @property
    def env(self) -> dict[str, str]:
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


@contextlib.asynccontextmanager
async def served(cloud: Aws, port: int = 0) -> AsyncIterator[None]:
    """Serve the key service at `cloud.url` until the end or `cloud.stop`."""
    async with contextlib.AsyncExitStack() as stack:
        cloud.url = await stack.enter_async_context(serving(cloud.app(), port))
        cloud.stop = stack.aclose
        yield
