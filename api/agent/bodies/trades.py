"""A trade: what is asked for it, and its receipt."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from api.agent.bodies.parts import AgentAnswer, AgentBody, AgentMarketTimes, Projected


class ReceiptPosition(AgentBody):
    shares: float
    avg_price_cents: float


class AgentTradeReceipt(AgentMarketTimes, Projected):
    trade_id: str
    market_id: str
    side: str
    size_usd: float
    simulated: bool
    tx_hash: str | None
    explorer_url: str | None
    intent_hash: str
    builder_code: str | None
    position: ReceiptPosition
    proof_url: str | None
    recorded_at: str


class EscapeKit(AgentBody):
    """The call that settles a bound payment, which anybody may send to the contract until `expiresAt`."""

    to: str
    data: str
    chain_id: int
    expires_at: int = Field(description="Unix seconds.")


class TradeBody(AgentAnswer):
    """The answer to a paid trade: `extensions["offer-receipt"]` holds the signed receipt; `escapeKit` is the call
    anybody may send, in bound mode."""

    replay: bool
    receipt: AgentTradeReceipt
    extensions: dict[str, Any] | None = None
    escape_kit: EscapeKit | None = None


class TokenDomain(AgentBody):
    name: str
    version: str
    intent_nonce: str
    intent_valid_after: str
    receive_nonce: str
    receive_primary_type: str


class PaymentOffer(AgentBody):
    scheme: Literal["exact"]
    network: Literal["base"]
    max_amount_required: str
    resource: str
    description: str
    mime_type: str
    pay_to: str
    max_timeout_seconds: int
    asset: str
    extra: TokenDomain


class Challenge(BaseModel):
    """The body of a 402, as x402 v1 has it. `error` says why the payment before was not accepted; `extensions` holds
    the signed offer."""

    x402Version: Literal[1]
    error: str | None
    accepts: list[PaymentOffer]
    extensions: dict[str, Any] | None = None
