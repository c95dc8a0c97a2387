"""Signed offers and receipts: the EIP-712 form of the x402 offer-and-receipt extension, by the attestation key.

The key signs statements only; it holds no money and no role.
"""

from __future__ import annotations

import time
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount

from api.agent.facts import Stake
from api.agent.trade.x402 import Offer
from core.agent.attestation import EXTENSION, OFFER, PAYLOAD_VERSION, RECEIPT, TYPES, domain_of
from core.hexadecimal import hex_of


class Attester:
    """The signer of offers and receipts. Without a key, bodies are sent without the extension."""

    def __init__(self, key: str | None, chain_id: int) -> None:
        self._account: LocalAccount | None = None if key is None else Account.from_key(key)
        self._chain_id = chain_id

    @property
    def address(self) -> str | None:
        return None if self._account is None else str(self._account.address)

    @property
    def network(self) -> str:
        return f"eip155:{self._chain_id}"

    def offer(self, offer: Offer) -> dict[str, Any]:
        """Return the `extensions` of a challenge."""
        payload = {
            "version": PAYLOAD_VERSION,
            "resourceUrl": offer.resource,
            "scheme": "exact",
            "network": self.network,
            "asset": offer.seller.token.address,
            "payTo": offer.seller.pay_to,
            "amount": str(offer.amount),
            "validUntil": int(time.time()) + offer.seconds,
        }
        signed = self._signed(OFFER, payload)
        return {} if signed is None else self._extension({"offers": [{**signed, "acceptIndex": 0}]})

    def receipt(self, stake: Stake, resource: str) -> dict[str, Any]:
        """Return the `extensions` of a settled trade."""
        payload = {
            "version": PAYLOAD_VERSION,
            "network": self.network,
            "resourceUrl": resource,
            "payer": stake.wallet,
            "issuedAt": stake.at,
            "transaction": hex_of(stake.tx),
        }
        signed = self._signed(RECEIPT, payload)
        return {} if signed is None else self._extension({"receipt": signed})

    def _extension(self, info: dict[str, Any]) -> dict[str, Any]:
        return {EXTENSION: {"info": {"signer": self.address, **info}}}

    def _signed(self, primary: str, payload: dict[str, Any]) -> dict[str, Any] | None:
        if self._account is None:
            return None
        signed = self._account.sign_typed_data(
            domain_data=domain_of(primary), message_types={primary: TYPES[primary]}, message_data=payload
        )
        return {"format": "eip712", "payload": payload, "signature": hex_of(bytes(signed.signature))}
