"""What the attestation key signs: the EIP-712 form of the x402 offer-and-receipt extension, version 1.

The schema is fixed by the extension. So is the domain's chain id: 1 whatever chain is paid on, which the payload's
`network` names (CAIP-2); nothing signed here can be sent to a chain.
"""

from __future__ import annotations

from typing import Any, Final

EXTENSION: Final = "offer-receipt"
PAYLOAD_VERSION: Final = 1
OFFER: Final = "Offer"
RECEIPT: Final = "Receipt"
TYPES: Final[dict[str, list[dict[str, str]]]] = {
    OFFER: [
        {"name": "version", "type": "uint256"},
        {"name": "resourceUrl", "type": "string"},
        {"name": "scheme", "type": "string"},
        {"name": "network", "type": "string"},
        {"name": "asset", "type": "string"},
        {"name": "payTo", "type": "string"},
        {"name": "amount", "type": "string"},
        {"name": "validUntil", "type": "uint256"},
    ],
    RECEIPT: [
        {"name": "version", "type": "uint256"},
        {"name": "network", "type": "string"},
        {"name": "resourceUrl", "type": "string"},
        {"name": "payer", "type": "string"},
        {"name": "issuedAt", "type": "uint256"},
        {"name": "transaction", "type": "string"},
    ],
}


def domain_of(primary: str) -> dict[str, Any]:
    return {"name": f"x402 {primary.lower()}", "version": "1", "chainId": 1}
