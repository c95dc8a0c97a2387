"""What the bodies of the agent surface are made of, and how its refusals are described."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta as Described

from api.agent.errors import CATALOGUE, RESERVED
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.links import Links
from api.agent.projection import BetWarning
from api.operations import Body, DocumentedAnswer
from core.contracts.statuses import MarketKind
from core.iso import iso, now_iso

NAME = "VPM agent API"
VERSION: Final = "service-agent-api-v1"
NETWORK: Final = "base"


class ErrorBody(Body):
    """The body of every refusal but the 402. 400 adds `issues`; a trade that may have been sent adds `txHash`."""

    error: Annotated[str, Described(extra_json_schema={"enum": sorted(CATALOGUE.keys() - RESERVED)})]
    message: str
    hint: str
    docs_url: str
    retriable: bool
    request_id: str


def refusal(description: str) -> DocumentedAnswer:
    """A refusal as the documentation lists it under its status."""
    return DocumentedAnswer(description, ErrorBody)


BAD = refusal("`invalid_request`, with `issues`")
NO_WALLET = refusal("`invalid_wallet`")
NO_DATABASE = refusal("`internal_error`: retry shortly.")
RATE = DocumentedAnswer("`rate_limited`", ErrorBody, {"Retry-After": "Seconds until there is room again."})
_USUAL = {400: BAD, 404: refusal("`market_not_found`"), 422: NO_WALLET, 429: RATE, 500: NO_DATABASE}


def answers(description: str, model: type[Body], *refusals: int) -> dict[int, DocumentedAnswer]:
    """Return the answers of an operation: 200, and those of the usual refusals that it can make."""
    return {200: DocumentedAnswer(description, model), **{status: _USUAL[status] for status in refusals}}


class Meta(Body):
    name: str
    version: Literal["service-agent-api-v1"]
    generated_at: str
    docs_url: str


class Freshness(Body):
    """The block a body was made from."""

    block: Annotated[int, Described(ge=0)]
    block_at: str
    lag_blocks: Annotated[int, Described(ge=0, description="Blocks the index is behind the chain.")]


class ChainMeta(Meta):
    freshness: Freshness


def meta(links: Links) -> Meta:
    return Meta(name=NAME, version=VERSION, generated_at=now_iso(), docs_url=links.docs)


def chain_meta(links: Links, snapshot: MarketsSnapshot) -> ChainMeta:
    """`snapshot`: the state of the index that a body was made from."""
    return ChainMeta(**msgspec.structs.asdict(meta(links)), freshness=freshness(snapshot))


def freshness(snapshot: MarketsSnapshot) -> Freshness:
    return Freshness(block=snapshot.head.number, block_at=iso(snapshot.head.timestamp), lag_blocks=snapshot.head.lag)


class AgentMarketTimes(Body):
    """A market's times: when stakes end (`deadlineAt`, to the second), what is measured when, and when it is
    settled."""

    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str


def times(market: ListedMarket) -> dict[str, Any]:
    """The fields of a market's times, wherever it is shown."""
    return {
        "deadline_at": iso(market.closes_at),
        "start_at": iso(market.spec.start_at) if market.kind is MarketKind.DIRECTION else None,
        "ends_at": iso(market.spec.ends_at),
        "settles_after": iso(market.spec.settles_after),
    }


class ProjectedBet(AgentMarketTimes):
    """A bet on a market, made or not, with the market's times, what it would be paid if its side won with the book as
    it then stands, and what is unwise about it."""

    projected_payout_usd: Decimal
    projected_payout_per_share_usd: Decimal | None
    warnings: list[BetWarning]


class AgentAnswer(Body):
    """An answer, with what it says of itself."""

    meta: Meta


class ChainAnswer(Body):
    """An answer made of what the chain says."""

    meta: ChainMeta
