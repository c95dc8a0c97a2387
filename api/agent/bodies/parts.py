"""What the bodies of the agent surface are made of, and how its refusals are described."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from api.agent.errors import CATALOGUE, RESERVED
from api.agent.outlook import CautionCode
from api.http.operation import DocumentedAnswer


class AgentBody(BaseModel):
    """An answer's body, or a part of one, with names in camel case on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class ErrorBody(AgentBody):
    """The body of every refusal but the 402. 400 adds `issues`; a trade that may have been sent adds `txHash`."""

    error: Annotated[str, WithJsonSchema({"type": "string", "enum": sorted(CATALOGUE.keys() - RESERVED)})]
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


class Meta(AgentBody):
    name: str
    version: Literal["service-agent-api-v1"]
    generated_at: str
    docs_url: str


class Freshness(AgentBody):
    """The block a body was made from."""

    block: int = Field(ge=0)
    block_at: str
    lag_blocks: int = Field(ge=0, description="Blocks the index is behind the chain.")


class ChainMeta(Meta):
    freshness: Freshness


class AgentMarketTimes(AgentBody):
    """A market's times: when stakes end (`deadlineAt`, to the second), what is measured when, and when it is
    settled."""

    deadline_at: str
    start_at: str | None
    ends_at: str
    settles_after: str


class BetWarning(AgentBody):
    code: CautionCode
    message: str


class Projected(AgentBody):
    """What a stake would be paid if its side won with the book as it then stands, and what is unwise about it."""

    projected_payout_usd: float
    projected_payout_per_share_usd: float | None
    warnings: list[BetWarning]


class AgentAnswer(AgentBody):
    """An answer, with what it says of itself."""

    meta: Meta


class ChainAnswer(AgentBody):
    """An answer made of what the chain says."""

    meta: ChainMeta
