"""A trade: its quote, payment challenge, receipt and proof."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from api.agent.bodies.markets import (
    BookStats,
    Ladder,
    MarketFacts,
    Odds,
    TokenSnapshot,
    ladder,
    market_facts,
    odds,
    stats,
    token_snapshot,
)
from api.agent.bodies.parts import (
    NETWORK,
    AgentAnswer,
    ChainAnswer,
    ProjectedBet,
    Projection,
    average_cents,
    pct,
    project_stake,
    times,
    usd,
)
from api.agent.facts import BookTotals, Links, ListedMarket, MarketsSnapshot, Stake
from api.agent.trade.orders import SIMPLE_MAX, largest_size
from api.operations import Body, body_from
from core.agent.book import Quote
from core.agent.fixed import WAD
from core.hexadecimal import hex_of
from core.iso import iso


class AgentQuote(ProjectedBet):
    market_id: str
    side: str
    size_usd: Decimal
    tier: Literal["simple", "locked"]
    quote_id: str
    expires_at: str
    book_version: str
    price_cents: Decimal
    estimated_shares: Decimal
    suggested_min_shares_out: Decimal
    suggested_max_price_cents: int | None
    fee_bps: int
    fee_usd: Decimal
    net_stake_usd: Decimal
    post_trade_odds: Odds
    impact_pct: Decimal | None
    largest_size_usd: Decimal
    ladder: Ladder | None
    token_snapshot: TokenSnapshot | None
    stats: BookStats | None


class QuoteBody(ChainAnswer):
    quote: AgentQuote


def suggested_min_shares(quoted: Quote) -> int:
    """Return 1% less than the quoted shares, rounded down: a limit that tolerates a small bet in between."""
    return quoted.shares * 99 // 100


def suggested_max_cents(quoted: Quote) -> int | None:
    """Return the average price plus 1% in whole cents, rounded up; None above 99, the highest limit a trade accepts."""
    if not quoted.shares:
        return None
    cents = -(-101 * quoted.net // quoted.shares)
    return cents if cents <= 99 else None


def quote(
    market: ListedMarket,
    outcome: int,
    quoted: Quote,
    *,
    quote_id: str,
    expires_at: str,
    projected: Projection,
    snapshot: MarketsSnapshot,
    links: Links,
) -> AgentQuote:
    latest = snapshot.latest.get(market.feed)
    after_bet = replace(market, book=market.book.staked(outcome, quoted.amount)[0])
    return AgentQuote(
        **times(market),
        **projected.fields(),
        market_id=market.id,
        side=market.outcomes[outcome].key,
        size_usd=usd(quoted.amount),
        tier="locked" if quoted.amount > SIMPLE_MAX else "simple",
        quote_id=quote_id,
        expires_at=expires_at,
        book_version=market.version,
        price_cents=average_cents(quoted.net, quoted.shares),
        estimated_shares=usd(quoted.shares),
        suggested_min_shares_out=usd(suggested_min_shares(quoted)),
        suggested_max_price_cents=suggested_max_cents(quoted),
        fee_bps=market.book.fee_bps,
        fee_usd=usd(quoted.fee),
        net_stake_usd=usd(quoted.net),
        post_trade_odds=odds(after_bet),
        impact_pct=pct(quoted.price_after - quoted.price_before, WAD),
        largest_size_usd=usd(largest_size(market, outcome)),
        ladder=ladder(market, latest),
        token_snapshot=token_snapshot(market, latest, links),
        stats=stats(market),
    )


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
    """Return a settled trade's receipt. It is the same after a rebuild, because all its data comes from the chain."""
    assert stake.outcome is not None
    return AgentTradeReceipt(
        **times(market),
        **project_stake(market, stake, stake.outcome, totals).fields(),
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
    """The response to a paid trade. `extensions["offer-receipt"]`: the signed receipt. `escapeKit`: in bound mode, the
    call that settles the payment, which anyone may send."""

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
    assert stake.outcome is not None
    ref = stake.ref_text
    return {
        "trade_id": hex_of(stake.bet_hash),
        "market": body_from(ProofMarket, market.words, market.book, **market_facts(market, links, now)),
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
    """The body of a 402, as x402 v1 defines it. `error`: why the previous payment was not accepted. `extensions`: the
    signed offer."""

    x402_version: Literal[1]
    error: str | None
    accepts: list[PaymentOffer]
    extensions: dict[str, Any] | UnsetType = UNSET
