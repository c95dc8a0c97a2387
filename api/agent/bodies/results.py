"""A market's result."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from api.agent.bodies.markets import ended
from api.agent.bodies.numbers import feed_usd, usd
from api.agent.bodies.parts import AgentMarketTimes, ChainAnswer, times
from api.agent.facts import ListedMarket
from api.agent.links import Links
from core.contracts.statuses import MarketKind
from core.hexadecimal import hex_of
from core.money import json_ratio_down


class AgentResult(AgentMarketTimes):
    market_id: str
    status: Literal["resolved", "pending"]
    resolved_outcome: str | None
    resolved_outcome_label: str | None
    resolved_at: str | None
    source: str
    source_url: str | None
    observed_market_cap_usd: Decimal | None
    start_reading_usd: Annotated[
        Decimal | None, Meta(description="On an up or down market, the reading with which the end was compared.")
    ]
    end_reading_usd: Annotated[Decimal | None, Meta(description="The reading that decided.")]
    payout_per_share_usd: Decimal | None
    pool_usd: Decimal
    winning_shares: Decimal
    proof_url: str | None
    refunded: bool
    tx_hash: str | None


class ResultBody(ChainAnswer):
    result: AgentResult


def result(market: ListedMarket, links: Links) -> AgentResult:
    """Return a market's result. A void market is `resolved` with outcome `void`, and every stake is refunded."""
    ending, book = market.ending, market.book
    over = None if ending is None else ended(market, ending)
    start, end = (None, None) if ending is None else (_reading(ending.start_answer), _reading(ending.end_answer))
    share = book.share_payout(market.winner)
    return AgentResult(
        **times(market),
        market_id=market.id,
        status="pending" if over is None else "resolved",
        resolved_outcome=None if over is None else over.outcome,
        resolved_outcome_label=None if over is None else over.label,
        resolved_at=None if over is None else over.resolved_at,
        source=market.words.source,
        source_url=links.address(market.feed),
        observed_market_cap_usd=end if market.kind is not MarketKind.DIRECTION else None,
        start_reading_usd=start,
        end_reading_usd=end,
        payout_per_share_usd=None if share is None else json_ratio_down(*share, 6),
        pool_usd=usd(book.net_pool),
        winning_shares=usd(0 if market.winner is None else book.shares[market.winner]),
        proof_url=None if ending is None else links.tx(ending.tx),
        refunded=market.refunded(),
        tx_hash=None if ending is None else hex_of(ending.tx),
    )


def _reading(answer: int | None) -> Decimal | None:
    return None if answer is None else feed_usd(answer)
