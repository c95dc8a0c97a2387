"""Parts shared by the agent surface's answers, exact numbers, and the documentation of its refusals.

Numbers are exact JSON numbers; divisions round down unless noted. Cents have at most 4 decimals, shares and dollars 6,
percentages 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta as Described

from api.agent.errors import CATALOGUE, RESERVED
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.links import Links
from api.agent.projection import BetWarning
from api.operations import Answers, Body
from core.agent.book import Book
from core.agent.words import FEED_DECIMALS
from core.contracts.statuses import MarketKind
from core.iso import iso, now_iso
from core.money import json_number, json_ratio_down, parts_of

NAME = "VPM agent API"
VERSION: Final = "service-agent-api-v1"
NETWORK: Final = "base"


class ErrorBody(Body):
    """The body of every refusal except the 402. A 400 adds `issues`; a trade that may have been sent adds `txHash`."""

    error: Annotated[str, Described(extra_json_schema={"enum": sorted(CATALOGUE.keys() - RESERVED)})]
    message: str
    hint: str
    docs_url: str
    retriable: bool
    request_id: str


answers = Answers(
    ErrorBody,
    {
        400: "`invalid_request`, with `issues`",
        404: "`market_not_found`",
        422: "`invalid_wallet`",
        429: "`rate_limited`",
        500: "`internal_error`: retry shortly.",
    },
)
refusal = answers.refusal
BAD, NO_WALLET, RATE, NO_DATABASE = (refusal(answers.usual[status], status) for status in (400, 422, 429, 500))


class Meta(Body):
    name: str
    version: Literal["service-agent-api-v1"]
    generated_at: str
    docs_url: str


class Freshness(Body):
    """The block of an answer's data."""

    block: Annotated[int, Described(ge=0)]
    block_at: str
    lag_blocks: Annotated[int, Described(ge=0, description="The number of blocks by which the index is behind.")]


class ChainMeta(Meta):
    freshness: Freshness


def meta(links: Links) -> Meta:
    return Meta(name=NAME, version=VERSION, generated_at=now_iso(), docs_url=links.docs)


def chain_meta(links: Links, snapshot: MarketsSnapshot) -> ChainMeta:
    """Return `meta` for an answer made from this snapshot."""
    return ChainMeta(**msgspec.structs.asdict(meta(links)), freshness=freshness(snapshot))


def freshness(snapshot: MarketsSnapshot) -> Freshness:
    return Freshness(block=snapshot.head.number, block_at=iso(snapshot.head.timestamp), lag_blocks=snapshot.head.lag)


class AgentMarketTimes(Body):
    """A market's times: `deadlineAt` ends betting, to the second; `startAt` and `endsAt` are measured; from
    `settlesAfter` on it can be settled."""

    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str


def times(market: ListedMarket) -> dict[str, Any]:
    """Return the fields of AgentMarketTimes."""
    return {
        "deadline_at": iso(market.closes_at),
        "start_at": iso(market.spec.start_at) if market.kind is MarketKind.DIRECTION else None,
        "ends_at": iso(market.spec.ends_at),
        "settles_after": iso(market.spec.settles_after),
    }


class ProjectedBet(AgentMarketTimes):
    """A bet, made or quoted, with its projected payout, warnings and the market's times."""

    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]


class AgentAnswer(Body):
    """An answer with `meta`."""

    meta: Meta


class ChainAnswer(Body):
    """An answer made from chain data."""

    meta: ChainMeta


CENT_DECIMALS = 4
PCT_DECIMALS = 4


def pct(numerator: int, denominator: int) -> Decimal:
    return json_ratio_down(100 * numerator, denominator, PCT_DECIMALS)


def percents(weights: Sequence[int]) -> list[Decimal]:
    """Return each weight's percentage; together they are exactly 100."""
    return [json_number(part, PCT_DECIMALS) for part in parts_of(100 * 10**PCT_DECIMALS, weights)]


def prices(book: Book) -> list[Decimal]:
    """Return each outcome's price in cents, which is also its percentage."""
    return percents([book.weight(at) for at in range(book.outcomes)])


def usd(units: int) -> Decimal:
    return json_number(units)


def feed_usd(value: int) -> Decimal:
    return json_number(value, FEED_DECIMALS)


def average_cents(net: int, shares: int) -> Decimal:
    """Return the average price of a share in cents, without the fee, rounded down."""
    return json_ratio_down(100 * net, shares, CENT_DECIMALS) if shares else usd(0)
