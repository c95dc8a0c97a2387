"""What the attestation key signs: the EIP-712 form of the x402 offer-and-receipt extension, version 1.

The schema is fixed by the extension. So is the domain's chain id: 1, no matter which chain is paid on; the payload's
`network` names that one (CAIP-2). Nothing signed here can be sent to a chain.
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
