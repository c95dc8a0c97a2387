"""The EIP-712 schema of the x402 offer-and-receipt extension, version 1, which the attestation key signs.

The extension fixes the schema and the domain's chain id, which is always 1. The payload's `network` (CAIP-2) names the
payment's chain. A message signed under this schema cannot be sent to a chain as a transaction.
"""

from __future__ import annotations

from typing import Any, Final

from core.signatures import struct_fields

EXTENSION: Final = "offer-receipt"
PAYLOAD_VERSION: Final = 1
OFFER: Final = "Offer"
RECEIPT: Final = "Receipt"
TYPES: Final = {
    OFFER: struct_fields(
        "uint256 version,string resourceUrl,string scheme,string network,string asset,string payTo,string amount,"
        "uint256 validUntil"
    ),
    RECEIPT: struct_fields(
        "uint256 version,string network,string resourceUrl,string payer,uint256 issuedAt,string transaction"
    ),
}


def domain_of(primary: str) -> dict[str, Any]:
    return {"name": f"x402 {primary.lower()}", "version": "1", "chainId": 1}
