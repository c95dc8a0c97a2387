"""/.well-known/did.json: whose signatures are made in this origin's name, as `did:web` has it."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import orjson
from aiohttp import web

from api.http.rendered import Rendered

CACHE = "public, max-age=300"
CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1recovery-2020/v2")
KEY = "attestation"


class Identity:
    """The document that names the attestation key: who is shown a signed offer or receipt holds its signer to this."""

    def __init__(self, origin: str, attester: str, chain_id: int) -> None:
        self._body = orjson.dumps(document(origin, attester, chain_id))

    async def get(self, request: web.Request) -> web.StreamResponse:
        return (await Rendered.make(self._body, CACHE)).response(request)


def document(origin: str, attester: str, chain_id: int) -> dict[str, object]:
    """A port is part of the name, with its colon escaped."""
    name = f"did:web:{quote(urlsplit(origin).netloc, safe='.-')}"
    key = f"{name}#{KEY}"
    method = {
        "id": key,
        "type": "EcdsaSecp256k1RecoveryMethod2020",
        "controller": name,
        "blockchainAccountId": f"eip155:{chain_id}:{attester}",
    }
    return {"@context": CONTEXT, "id": name, "verificationMethod": [method], "assertionMethod": [key]}
