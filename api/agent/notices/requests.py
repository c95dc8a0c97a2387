"""What is asked of the event channels."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from api.agent.requests import WITHOUT_NUL, WalletAddress, WalletQuery, line

HIGHEST_SEQ = 2**53 - 1
REPLAY_PAGE = 500
RESOLVED_PAGE, RESOLVED_MAX = 100, 500
# Holds the longest fields, every character escaped: what is too long is then named, field by field.
BODY_LIMIT = 128 * 1024
TRADE_ID = r"^0x[0-9a-fA-F]{64}$"
# So short that it is a number below the highest.
LAST_EVENT_ID = r"^[0-9]{0,15}$"

Seq = Annotated[int, Field(ge=0, le=HIGHEST_SEQ)]


def _moment(value: Any) -> Any:
    """Microseconds since 1970 of an ISO-8601 time; one without a zone is UTC."""
    if not isinstance(value, str) or not re.match(r"\d{4}-\d{2}-\d{2}", value):
        raise ValueError("must be a time like 2026-11-21T16:00:00Z")
    try:
        # A plus sign in a query means a space.
        moment = datetime.fromisoformat(value.replace(" ", "+") if "T" in value else value)
    except ValueError:
        raise ValueError("must be a time like 2026-11-21T16:00:00Z") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _without_default(schema: dict[str, Any]) -> None:
    """The default is no text: it is the beginning of all events."""
    schema.pop("default", None)


class EventsQuery(WalletQuery):
    from_seq: Seq = Field(default=0, alias="fromSeq", description="The first event wanted; `Last-Event-ID` wins.")
    trade_id: Annotated[str, Field(pattern=TRADE_ID)] | None = Field(
        default=None, alias="tradeId", description="Only events that name this trade."
    )


class EventsHeaders(BaseModel):
    last_event_id: Annotated[str, WithJsonSchema({"type": "string", "pattern": LAST_EVENT_ID})] | None = Field(
        default=None,
        alias="Last-Event-ID",
        description="The seq of the last event received: resume after it. Empty is as if left out.",
    )


class ReplayQuery(WalletQuery):
    from_seq: Seq = Field(default=0, alias="fromSeq", description="The first event wanted, inclusive.")
    limit: Annotated[int, Field(ge=1, le=REPLAY_PAGE, description=f"How many, 1 to {REPLAY_PAGE}.")] = REPLAY_PAGE


class ResolvedQuery(WalletQuery):
    since: Annotated[int, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})] = Field(
        default=0,
        description="Resolutions after this moment: `nextSince` of the page before, or `createdAt` of the last event.",
        json_schema_extra=_without_default,
    )
    limit: Annotated[int, Field(ge=1, le=RESOLVED_MAX, description=f"How many, 1 to {RESOLVED_MAX}.")] = RESOLVED_PAGE


class WebhookRequest(BaseModel):
    """A webhook's registration as a wallet asks for it. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    wallet: WalletAddress = Field(description="Whose events are pushed.")
    url: Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(line)] = Field(
        description="Where to, an https URL.", json_schema_extra={"format": "uri", **WITHOUT_NUL}
    )
    message: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="Five lines: `Service webhook registration`, `Service: <origin of this service>`, "
        "`Wallet: <lower-case>`, `URL: <url>`, "
        "`Issued: <ISO-8601>` within 10 minutes."
    )
    signature: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="EIP-191 of `message` by the wallet, as hex; or what its contract takes (ERC-1271)."
    )


class WebhookPath(BaseModel):
    """The id in a webhook's path: any text, since what is no id is unknown."""

    id: str = Field(description="The id that the registration gave, `wh_` and 32 hexadecimal digits.")
