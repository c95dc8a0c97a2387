"""Requests of the event channels."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from api.agent.requests import WITHOUT_NUL, WalletAddress, WalletQuery, line

HIGHEST_SEQ = 2**53 - 1
REPLAY_PAGE = 500
RESOLVED_PAGE, RESOLVED_MAX = 100, 500
# Fits the longest fields with every character escaped, so that a field that is too long is named in the refusal.
BODY_LIMIT = 128 * 1024
TRADE_ID = r"^0x[0-9a-fA-F]{64}$"
# Short enough to be below HIGHEST_SEQ.
LAST_EVENT_ID = r"^[0-9]{0,15}$"

Seq = Annotated[int, Field(ge=0, le=HIGHEST_SEQ)]


def _moment(value: Any) -> Any:
    """Convert an ISO-8601 time to microseconds since 1970; without a zone it is UTC."""
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
    """Remove the default, which is a number and not a time: the beginning of all events."""
    schema.pop("default", None)


class EventsQuery(WalletQuery):
    from_seq: Seq = Field(
        default=0, alias="fromSeq", description="The first event to send, unless `Last-Event-ID` is set."
    )
    trade_id: Annotated[str, Field(pattern=TRADE_ID)] | None = Field(
        default=None, alias="tradeId", description="Only events of this trade."
    )


class EventsHeaders(BaseModel):
    last_event_id: Annotated[str, WithJsonSchema({"type": "string", "pattern": LAST_EVENT_ID})] | None = Field(
        default=None,
        alias="Last-Event-ID",
        description="The seq of the last event received; the stream resumes after it. Empty means absent.",
    )


class ReplayQuery(WalletQuery):
    from_seq: Seq = Field(default=0, alias="fromSeq", description="The first event to return.")
    limit: Annotated[int, Field(ge=1, le=REPLAY_PAGE, description=f"Page size, 1 to {REPLAY_PAGE}.")] = REPLAY_PAGE


class ResolvedQuery(WalletQuery):
    since: Annotated[int, BeforeValidator(_moment), WithJsonSchema({"type": "string", "format": "date-time"})] = Field(
        default=0,
        description="Results after this time: `nextSince` of the previous page, or `createdAt` of the last event.",
        json_schema_extra=_without_default,
    )
    limit: Annotated[int, Field(ge=1, le=RESOLVED_MAX, description=f"Page size, 1 to {RESOLVED_MAX}.")] = RESOLVED_PAGE


class WebhookRequest(BaseModel):
    """The body of a webhook registration. Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    wallet: WalletAddress = Field(description="The wallet whose events are pushed.")
    url: Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(line)] = Field(
        description="The https URL to push to.", json_schema_extra={"format": "uri", **WITHOUT_NUL}
    )
    message: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="Five lines: `Service webhook registration`, `Service: <origin of this service>`, "
        "`Wallet: <lower-case>`, `URL: <url>`, "
        "`Issued: <ISO-8601>`, at most 10 minutes from now."
    )
    signature: Annotated[str, Field(min_length=1, max_length=4096)] = Field(
        description="The wallet's EIP-191 signature of `message` in hex, or one that its contract accepts (ERC-1271)."
    )


class WebhookPath(BaseModel):
    """The id in a webhook's path. Any text is accepted; one that is not an id is unknown."""

    id: str = Field(description="The id from the registration, `wh_` followed by 32 hexadecimal digits.")
