"""/.well-known/did.json: whose signatures are made in this origin's name, as `did:web` has it."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import orjson

CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1recovery-2020/v2")
KEY = "attestation"


def identity_document(origin: str, attester: str, chain_id: int) -> bytes:
    """Names the attestation key: who is shown a signed offer or receipt holds its signer to this. A port is part of the
    name, with its colon escaped."""
    name = f"did:web:{quote(urlsplit(origin).netloc, safe='.-')}"
    key = f"{name}#{KEY}"
    method = {
        "id": key,
        "type": "EcdsaSecp256k1RecoveryMethod2020",
        "controller": name,
        "blockchainAccountId": f"eip155:{chain_id}:{attester}",
    }
    return orjson.dumps({"@context": CONTEXT, "id": name, "verificationMethod": [method], "assertionMethod": [key]})
