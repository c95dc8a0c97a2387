"""Signed offers and receipts: the EIP-712 form of the x402 offer-and-receipt extension, by the attestation key.

The key signs statements only; it holds no money and no role.
"""

from __future__ import annotations

from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

EXTENSION = "offer-receipt"
_DOMAIN = [
    {"name": "name", "type": "string"},
    {"name": "version", "type": "string"},
    {"name": "chainId", "type": "uint256"},
]
OFFER_TYPES = {
    "EIP712Domain": _DOMAIN,
    "Offer": [
        {"name": "resourceUrl", "type": "string"},
        {"name": "scheme", "type": "string"},
        {"name": "network", "type": "string"},
        {"name": "asset", "type": "string"},
        {"name": "payTo", "type": "address"},
        {"name": "amount", "type": "string"},
        {"name": "maxTimeoutSeconds", "type": "uint256"},
        {"name": "issuedAt", "type": "uint256"},
    ],
}
RECEIPT_TYPES = {
    "EIP712Domain": _DOMAIN,
    "Receipt": [
        {"name": "network", "type": "string"},
        {"name": "resourceUrl", "type": "string"},
        {"name": "payer", "type": "string"},
        {"name": "issuedAt", "type": "uint256"},
        {"name": "transaction", "type": "string"},
    ],
}


class Attester:
    """Signs; without a key it signs nothing, and bodies go out without the extension."""

    def __init__(self, key: str | None, chain_id: int) -> None:
        self._account: LocalAccount | None = None if key is None else Account.from_key(key)
        self._chain_id = chain_id

    @property
    def address(self) -> str | None:
        return None if self._account is None else str(self._account.address)

    @property
    def network(self) -> str:
        return f"eip155:{self._chain_id}"

    def offer(
        self, *, resource: str, asset: str, pay_to: str, amount: int, timeout_seconds: int, issued_at: int
    ) -> dict[str, Any]:
        """The `extensions` of a challenge."""
        payload = {
            "resourceUrl": resource,
            "scheme": "exact",
            "network": self.network,
            "asset": asset,
            "payTo": pay_to,
            "amount": str(amount),
            "maxTimeoutSeconds": timeout_seconds,
            "issuedAt": issued_at,
        }
        signed = self._signed("x402 offer", "Offer", OFFER_TYPES, payload)
        return {} if signed is None else self._extension({"offers": [{**signed, "acceptIndex": 0}]})

    def receipt(self, *, resource: str, payer: str, issued_at: int, transaction: str) -> dict[str, Any]:
        """The `extensions` of a settled trade."""
        payload = {
            "network": self.network,
            "resourceUrl": resource,
            "payer": payer,
            "issuedAt": issued_at,
            "transaction": transaction,
        }
        signed = self._signed("x402 receipt", "Receipt", RECEIPT_TYPES, payload)
        return {} if signed is None else self._extension({"receipt": signed})

    def _extension(self, info: dict[str, Any]) -> dict[str, Any]:
        return {EXTENSION: {"info": {"version": "1", "signer": self.address, **info}}}

    def _signed(
        self, name: str, primary: str, types: dict[str, list[dict[str, str]]], payload: dict[str, Any]
    ) -> dict[str, Any] | None:
        if self._account is None:
            return None
        signed = self._account.sign_typed_data(
            full_message={
                "types": types,
                "primaryType": primary,
                "domain": {"name": name, "version": "1", "chainId": self._chain_id},
                "message": payload,
            }
        )
        return {"format": "eip712", "payload": payload, "signature": "0x" + bytes(signed.signature).hex()}
