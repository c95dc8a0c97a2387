"""Shared parts of responses: exact numbers, projected payouts, documented refusals. Divisions round down unless noted.
Cents have at most 4 decimals, shares and dollars 6, percentages 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta as Described

from api.agent.errors import CATALOGUE, RESERVED
from api.agent.facts import BookTotals, Links, ListedMarket, MarketsSnapshot, Stake
from api.operations import Answers, Body
from core.agent.book import Book, Quote
from core.agent.words import FEED_DECIMALS, moment
from core.contracts.statuses import MarketKind
from core.iso import iso, now_iso
from core.money import decimal_text, json_number, json_ratio_down, parts_of

NAME = "VPM agent API"
VERSION: Final = "service-agent-api-v1"
NETWORK: Final = "base"
# The time that a payment may take from its challenge to its block.
CLOSES_SOON_SECONDS = 120
SHARE_DECIMALS = 6


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
    """The block that a response's data is from."""

    block: Annotated[int, Described(ge=0)]
    block_at: str
    lag_blocks: Annotated[int, Described(ge=0, description="How many blocks the index is behind.")]


class ChainMeta(Meta):
    freshness: Freshness


def meta(links: Links) -> Meta:
    return Meta(name=NAME, version=VERSION, generated_at=now_iso(), docs_url=links.docs)


def chain_meta(links: Links, snapshot: MarketsSnapshot) -> ChainMeta:
    return ChainMeta(**msgspec.structs.asdict(meta(links)), freshness=freshness(snapshot))


def freshness(snapshot: MarketsSnapshot) -> Freshness:
    return Freshness(block=snapshot.head.number, block_at=iso(snapshot.head.timestamp), lag_blocks=snapshot.head.lag)


class AgentMarketTimes(Body):
    """A market's times. Betting ends at `deadlineAt`, to the second. The readings at `startAt` and `endsAt` decide the
    market, which can be settled from `settlesAfter` on."""

    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str


def times(market: ListedMarket) -> dict[str, Any]:
    return {
        "deadline_at": iso(market.closes_at),
        "start_at": iso(market.spec.start_at) if market.kind is MarketKind.DIRECTION else None,
        "ends_at": iso(market.spec.ends_at),
        "settles_after": iso(market.spec.settles_after),
    }


class NamedMarket(AgentMarketTimes):
    market_id: str
    slug: str
    short_title: str


def names(market: ListedMarket) -> dict[str, Any]:
    return {**times(market), "market_id": market.id, "slug": market.id, "short_title": market.words.short_title}


class BetWarning(Body, kw_only=False):
    """A reason to reconsider a bet."""

    code: Literal["pays_less_than_stake", "first_on_its_side", "wallet_underfunded", "closes_soon"]
    message: str


class ProjectedBet(AgentMarketTimes):
    """A bet, made or quoted, with its projected payout, warnings and the market's times."""

    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]


class AgentAnswer(Body):
    meta: Meta


class ChainAnswer(Body):
    """A response built from chain data."""

    meta: ChainMeta


CENT_DECIMALS = 4
PCT_DECIMALS = 4


def pct(numerator: int, denominator: int) -> Decimal:
    return json_ratio_down(100 * numerator, denominator, PCT_DECIMALS)


def percents(weights: Sequence[int]) -> list[Decimal]:
    """Return each weight's percentage. The percentages add up to exactly 100."""
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


@dataclass(frozen=True, slots=True)
class Projection:
    """The payout of `shares` if their side wins with the current book, which includes the bet."""

    payout: int
    shares: int
    warnings: tuple[BetWarning, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return the projection as a body shows it. The payout per share is rounded down."""
        per_share = json_ratio_down(self.payout, self.shares, SHARE_DECIMALS) if self.shares else None
        return {
            "projected_payout_usd": json_number(self.payout),
            "projected_payout_per_share_usd": per_share,
            "warnings": list(self.warnings),
        }


def project_quote(
    market: ListedMarket, outcome: int, quoted: Quote, *, now: int | None = None, balance: int | None = None
) -> Projection:
    """Project a quoted bet. `now`: the chain's clock. `balance`: the wallet's. None leaves out the warning about it."""
    book, _ = market.book.staked(outcome, quoted.amount)
    payout = book.projected(outcome, quoted.amount, quoted.shares)
    warnings = _warnings(market, outcome, quoted.amount, payout, alone=market.outcome_bets[outcome] == 0)
    if balance is not None and balance < quoted.amount:
        held, size = decimal_text(balance), decimal_text(quoted.amount)
        warnings.append(BetWarning("wallet_underfunded", f"The wallet holds {held} USDC, but the bet is {size} USDC."))
    if now is not None and 0 < (left := market.closes_at - now) <= CLOSES_SOON_SECONDS:
        warnings.append(BetWarning("closes_soon", f"Betting ends at {moment(market.closes_at)}, in {left} seconds."))
    return Projection(payout, quoted.shares, tuple(warnings))


def project_stake(market: ListedMarket, stake: Stake, outcome: int, totals: BookTotals) -> Projection:
    """Project a stake at the time it was placed. `totals`: the outcomes' totals right after the stake."""
    payout = market.book_of(totals).projected(outcome, stake.amount, stake.shares)
    warnings = _warnings(market, outcome, stake.amount, payout, alone=totals[outcome][-1] == 1)
    return Projection(payout, stake.shares, tuple(warnings))


def project_position(market: ListedMarket, stake: Stake, outcome: int) -> Projection:
    payout = market.book.projected(outcome, stake.amount, stake.shares)
    if market.ending is not None:
        return Projection(payout, stake.shares)
    warnings = _warnings(market, outcome, stake.amount, payout, alone=market.outcome_bets[outcome] == 1)
    return Projection(payout, stake.shares, tuple(warnings))


def _warnings(market: ListedMarket, outcome: int, amount: int, payout: int, *, alone: bool) -> list[BetWarning]:
    """Return the warnings about a bet. `alone`: whether there is no other bet on the outcome."""
    label, warnings = market.outcomes[outcome].label, []
    if payout < amount:
        message = (
            f"If {label} won with the current book, this bet of {decimal_text(amount)} USDC would be paid "
            f"{decimal_text(payout)} USDC: there is too little money on the other side."
        )
        warnings.append(BetWarning("pays_less_than_stake", message))
    if alone:
        message = (
            f"There is no other bet on {label} yet. If no other outcome gets a bet, every stake is refunded in full."
        )
        warnings.append(BetWarning("first_on_its_side", message))
    return warnings
