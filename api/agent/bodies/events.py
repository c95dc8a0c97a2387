"""The response bodies of the event channels. An event has the same bytes on every channel."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Raw

from api.agent.bodies.parts import AgentAnswer
from api.agent.facts import Links
from api.agent.notices.endpoints import Status
from api.operations import Body, body_from
from core.agent.notices.log import EventType, Notice, event_id, source_of
from core.hexadecimal import hex_of
from core.iso import iso_micros
from core.money import to_json

# Types with a proof: their trade is on the chain. A payment that came too late to be a stake has no side.
PROVEN = frozenset(each for each in EventType if each.startswith(("bet.placed", "position.", "payout.")))
NO_SIDE = '"side":null'


class AgentEvent(Body):
    """A wallet's event. `payload` has the keys documented for its type and, in a correction, also `undone` and
    `corrects`."""

    event_id: str
    seq: Annotated[
        int,
        Meta(
            ge=0,
            description="The event's number among the wallet's events. `webhook.verify` and `test` go to one endpoint "
            "only and repeat the number of the wallet's newest event, or 0 if it has none.",
        ),
    ]
    type: EventType
    created_at: str
    wallet: str | None
    market_id: str | None
    trade_id: str | None
    payload: Annotated[Raw, Meta(extra_json_schema={"type": "object", "additionalProperties": True})]
    proof_url: str | None


def event_body(event: Notice, links: Links) -> AgentEvent:
    """Return an event's body. The payload was stored as JSON text, so every channel sends the same bytes."""
    proven = event.trade_id is not None and event.type in PROVEN and NO_SIDE not in event.payload
    return body_from(
        AgentEvent,
        event,
        event_id=event.id,
        created_at=iso_micros(event.at_micros),
        wallet=hex_of(event.wallet),
        trade_id=None if event.trade_id is None else hex_of(event.trade_id),
        payload=Raw(event.payload),
        proof_url=links.proof(event.trade_id) if proven and event.trade_id is not None else None,
    )


def stream_frame(event: Notice, links: Links) -> bytes:
    """Return an event as a stream message, without an `event:` line so that clients' default handlers receive it."""
    return b"id: %d\ndata: %b\n\n" % (event.seq, to_json(event_body(event, links)))


def endpoint_event(
    kind: EventType, webhook_id: str, wallet: bytes, token: str, seq: int, at_micros: int, payload: dict[str, Any]
) -> AgentEvent:
    """Build an event for a single endpoint. `token` makes its id unique. `seq`: that of the wallet's newest event."""
    return AgentEvent(
        event_id=event_id(source_of(kind, webhook_id, token), 0),
        seq=seq,
        type=kind,
        created_at=iso_micros(at_micros),
        wallet=hex_of(wallet),
        market_id=None,
        trade_id=None,
        payload=Raw(to_json(payload)),
        proof_url=None,
    )


class ReplayBody(AgentAnswer):
    """A page of a wallet's events. `lastSeq`: the number of the wallet's newest event, null if it has none."""

    events: list[AgentEvent]
    next_seq: int | None
    last_seq: int | None


class ResolvedBody(AgentAnswer):
    events: list[AgentEvent]
    next_since: str | None


class AgentWebhookRegistration(Body):
    """A registered webhook. Public events name it by `ref`, never by its id, which is all that deleting it requires."""

    id: str
    wallet: str
    url: str
    status: Status
    secret: str | None
    created_at: str
    ref: str
    next_seq: int
    failed_attempts: int
    failing_since: str | None
    last_error: str | None


class WebhookBody(AgentAnswer):
    webhook: AgentWebhookRegistration


class DeletedBody(AgentAnswer):
    id: str
    deleted: bool


class TestBody(AgentAnswer):
    """A test event. `note`: why the event was not sent or not accepted, null if it was accepted."""

    __test__ = False

    event: AgentEvent
    webhook: AgentWebhookRegistration
    note: str | None
