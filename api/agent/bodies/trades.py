"""A trade: what is asked for it, its receipt and its proof."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from api.agent import projection
from api.agent.bodies.markets import MarketFacts, market_facts
from api.agent.bodies.numbers import average_cents, usd
from api.agent.bodies.parts import NETWORK, AgentAnswer, ChainAnswer, ProjectedBet, times
from api.agent.facts import BookTotals, ListedMarket, Stake
from api.agent.links import Links
from api.operations import Body
from core.hexadecimal import hex_of
from core.iso import iso


class ReceiptPosition(Body):
    shares: Decimal
    avg_price_cents: Decimal


class AgentTradeReceipt(ProjectedBet):
    trade_id: str
    market_id: str
    side: str
    size_usd: Decimal
    simulated: bool
    tx_hash: str | None
    explorer_url: str | None
    intent_hash: str
    builder_code: str | None
    position: ReceiptPosition
    proof_url: str | None
    recorded_at: str


def receipt(market: ListedMarket, stake: Stake, totals: BookTotals, links: Links) -> AgentTradeReceipt:
    """The receipt of a settled trade: of what is on chain and nothing else, so a rebuilt database gives the same.

    totals: what stood on each outcome right after it.
    """
    assert stake.outcome is not None
    return AgentTradeReceipt(
        **times(market),
        **projection.project_stake(market, stake, stake.outcome, totals).fields(),
        trade_id=hex_of(stake.bet_hash),
        market_id=market.id,
        side=market.outcomes[stake.outcome].key,
        size_usd=usd(stake.amount),
        simulated=False,
        tx_hash=hex_of(stake.tx),
        explorer_url=links.tx(stake.tx),
        intent_hash=hex_of(stake.bet_hash),
        builder_code=stake.builder,
        position=ReceiptPosition(shares=usd(stake.shares), avg_price_cents=average_cents(stake.net, stake.shares)),
        proof_url=links.proof(stake.bet_hash),
        recorded_at=iso(stake.at),
    )


class EscapeKit(Body):
    """The call that settles a bound payment, which anyone may send to the contract until `expiresAt`."""

    to: str
    data: str
    chain_id: int
    expires_at: Annotated[int, Meta(description="Unix seconds.")]


class TradeBody(AgentAnswer):
    """The answer to a paid trade: `extensions["offer-receipt"]` holds the signed receipt; `escapeKit` is the call
    anyone may send, in bound mode."""

    replay: bool
    receipt: AgentTradeReceipt
    extensions: dict[str, Any] | UnsetType = UNSET
    escape_kit: EscapeKit | UnsetType | None = UNSET


class ProofMarket(MarketFacts):
    """A market as a proof shows it."""


class ProofPosition(Body):
    user_id: str
    wallet_address: str
    side: str
    shares: Decimal
    price_cents: Decimal
    size_usd: Decimal
    fee_usd: Decimal


ProofStatus = Literal["submitted", "confirmed", "final"]


class ProofSettlement(Body):
    tx_hash: str
    explorer_url: str
    status: ProofStatus
    network: Literal["base"]
    settled_at: str | None
    contract: str
    stake_id: str
    block_number: int


class Attribution(Body):
    source: str | None
    mention_id: str | None
    ref: str | None
    builder_code: str | None


class TradeProofBody(ChainAnswer):
    trade_id: str
    market: ProofMarket
    position: ProofPosition
    settlement: ProofSettlement
    attribution: Attribution


def proof(market: ListedMarket, stake: Stake, links: Links, now: int, status: ProofStatus) -> dict[str, Any]:
    """Return a proof's fields other than `meta`."""
    assert stake.outcome is not None
    ref = stake.ref_text
    return {
        "trade_id": hex_of(stake.bet_hash),
        "market": ProofMarket(**market_facts(market, links, now)),
        "position": ProofPosition(
            user_id=f"agent:{stake.wallet}",
            wallet_address=stake.wallet,
            side=market.outcomes[stake.outcome].key,
            shares=usd(stake.shares),
            price_cents=average_cents(stake.net, stake.shares),
            size_usd=usd(stake.amount),
            fee_usd=usd(stake.fee),
        ),
        "settlement": ProofSettlement(
            tx_hash=hex_of(stake.tx),
            explorer_url=links.tx(stake.tx) or "",
            status=status,
            network=NETWORK,
            settled_at=iso(stake.at),
            contract=links.settlement,
            stake_id=str(stake.id),
            block_number=stake.block,
        ),
        "attribution": Attribution(
            source=ref,
            mention_id=ref.removeprefix("mention:") if ref is not None and ref.startswith("mention:") else None,
            ref=ref,
            builder_code=stake.builder,
        ),
    }


class TokenDomain(Body):
    name: str
    version: str
    intent_nonce: str
    intent_valid_after: str
    receive_nonce: str
    receive_primary_type: str


class PaymentOffer(Body):
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


class Challenge(Body):
    """The body of a 402, as x402 v1 has it. `error` says why the payment before was not accepted; `extensions` holds
    the signed offer."""

    x402_version: Literal[1]
    error: str | None
    accepts: list[PaymentOffer]
    extensions: dict[str, Any] | UnsetType = UNSET
