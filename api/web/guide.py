"""Documents for agents and their builders: the guide in plain text (/agents.txt), the list of paid resources for older
x402 directories, and the identity document with the signing key (/.well-known/did.json, `did:web`)."""

from __future__ import annotations

import textwrap
from urllib.parse import quote, urlsplit

import orjson

from api.agent.errors import CATALOGUE, RETRIABLE
from api.agent.platform import custody
from api.stock.bets import NONCE_FORMULA
from api.web.templating import Pages
from core.contracts.deployments import Deployment

LINE = 120
DID_CONTEXT = ("https://www.w3.org/ns/did/v1", "https://w3id.org/security/suites/secp256k1recovery-2020/v2")
DID_KEY = "attestation"


def guide_text(pages: Pages, base: Deployment, stock: Deployment) -> bytes:
    return pages.render(
        "agents.txt",
        base=base,
        stock=stock,
        custody=_wrapped(custody(base.contracts["SettlementWallet"].address))
        if "SettlementWallet" in base.contracts
        else "",
        catalogue=CATALOGUE,
        retriable=RETRIABLE,
        nonce_formula=NONCE_FORMULA,
    )


def paid_resources(origin: str) -> bytes:
    return orjson.dumps(
        {
            "version": 1,
            "resources": [f"{origin}/api/agent/v1/trade"],
            "instructions": f"Bets on prediction markets in USDC on Base. POST a bet to get its price. "
            f"See {origin}/agents.txt for the guide and {origin}/openapi.json for a working example of a bet.",
        }
    )


def identity_document(origin: str, attester: str, chain_id: int) -> bytes:
    """Build the document that names the attestation key, which signs offers and receipts. A port is part of the name,
    with its colon escaped."""
    name = f"did:web:{quote(urlsplit(origin).netloc, safe='.-')}"
    key = f"{name}#{DID_KEY}"
    method = {
        "id": key,
        "type": "EcdsaSecp256k1RecoveryMethod2020",
        "controller": name,
        "blockchainAccountId": f"eip155:{chain_id}:{attester}",
    }
    return orjson.dumps({"@context": DID_CONTEXT, "id": name, "verificationMethod": [method], "assertionMethod": [key]})


def _wrapped(text: str) -> str:
    return textwrap.fill(text, LINE, break_long_words=False, break_on_hyphens=False)
