"""EIP-3009 authorizations, the calls they pay for, and signatures by contract wallets (ERC-1271)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from x402.mechanisms.evm.constants import EIP1271_MAGIC_VALUE, IS_VALID_SIGNATURE_ABI

from core import eip3009
from core.chain import Abi, Call, ChainClient, Contract, RpcError, checksum
from core.contracts.deployments import Token
from core.hexadecimal import hex_of
from core.outbox import RELAY, IntentRequest

# The gas a contract wallet may use to check a signature: several times what a check costs, and far below what nodes
# allow.
SIGNATURE_GAS = 5_000_000
MAX_JSON_INTEGER = 2**53 - 1  # above it, JavaScript rounds
_ERC1271 = Abi(IS_VALID_SIGNATURE_ABI)  # type: ignore[arg-type]  # x402 does not annotate it


@dataclass(frozen=True, slots=True)
class Authorization:
    """A payer's authorization to move `value` token units to `to` between two Unix times. Each `nonce` (32 bytes) can
    be used once. `signature` is empty until the authorization is signed."""

    payer: str
    to: str
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes
    signature: bytes = b""

    @property
    def _message(self) -> dict[str, Any]:
        return {
            "from": self.payer,
            "to": self.to,
            "value": self.value,
            "validAfter": self.valid_after,
            "validBefore": self.valid_before,
            "nonce": self.nonce,
        }

    def digest(self, form: str, token: Token, chain_id: int) -> bytes:
        """Return the EIP-712 digest to sign, in the token's domain. `form`: eip3009.RECEIVE or TRANSFER."""
        return eip3009.digest(form, self._message, token, chain_id)

    def typed_data(self, form: str, token: Token, chain_id: int) -> dict[str, Any]:
        """Return the typed data for `eth_signTypedData_v4`. Numbers are text, so that no wallet rounds them."""
        return {
            "domain": eip3009.domain(token, chain_id),
            "types": {"EIP712Domain": list(eip3009.DOMAIN_FIELDS), form: list(eip3009.FIELDS)},
            "primaryType": form,
            "message": {name: str(part) for name, part in (self._message | {"nonce": hex_of(self.nonce)}).items()},
        }


@dataclass(frozen=True, slots=True)
class SignedCall:
    """A call that places a bet with the authorization that pays for it. Anyone may send it."""

    kind: str
    chain_id: int
    call: Call
    authorization: Authorization

    def intent(self, key: str) -> IntentRequest:
        """Build an intent that sends the call. The contract accepts an authorization only once, so it is safe to send
        the call again at any time."""
        return IntentRequest(
            key=key,
            chain_id=self.chain_id,
            group=RELAY,
            kind=self.kind,
            to=self.call.to,
            data=self.call.data,
            replay_safe=True,
            not_after=self.authorization.valid_before,
            payer=self.authorization.payer,
        )

    @property
    def escape_kit(self) -> dict[str, Any]:
        """Return the call in the form that responses show, so that the payer can send it."""
        return {
            "to": self.call.to,
            "data": hex_of(self.call.data),
            "chainId": self.chain_id,
            "expiresAt": min(self.authorization.valid_before, MAX_JSON_INTEGER),
        }


async def accepts_signature(
    client: ChainClient, wallet: str, digest: bytes, signature: bytes, timeout_seconds: float
) -> bool:
    """Return whether the contract at `wallet` accepts exactly this signature. The check calls the contract in the same
    way as the token does. Raise RpcError if no node responds."""
    call = Contract(checksum(wallet), _ERC1271).call("isValidSignature", digest, signature)
    try:
        raw = await client.simulate(call, gas=SIGNATURE_GAS, timeout_seconds=timeout_seconds)
    except RpcError as error:
        if error.retriable:
            raise
        return False
    return raw[:4] == EIP1271_MAGIC_VALUE and len(raw) == 32
