"""Answers of the event channels, described as those in `api/agent/bodies/` are; `render.py` makes the events."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from api.agent.bodies.parts import AgentAnswer, AgentBody
from core.agent.notices.kinds import EventType


class AgentEvent(AgentBody):
    """One event of a wallet. `payload` has the keys documented for its type; a correction has `undone` and `corrects`
    in it."""

    event_id: str
    seq: int = Field(
        ge=0,
        description="Its number among the wallet's events. `webhook.verify` and `test`, which go to one endpoint, take "
        "none: they carry that of the newest event, 0 where there is none.",
    )
    type: EventType
    created_at: str
    wallet: str | None
    market_id: str | None
    trade_id: str | None
    payload: dict[str, Any]
    proof_url: str | None


class ReplayBody(AgentAnswer):
    """A page of a wallet's events. `lastSeq`: the wallet's newest event, null before the first."""

    events: list[AgentEvent]
    next_seq: int | None
    last_seq: int | None


class ResolvedBody(AgentAnswer):
    events: list[AgentEvent]
    next_since: str | None


class AgentWebhookRegistration(AgentBody):
    """A registered webhook. `ref` names it in public events; its id, which allows to delete it, never is in one."""

    id: str
    wallet: str
    url: str
    status: Literal["pending_verification", "active", "disabled"]
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
    """A test on its way. `note` says what it waits for: null for an active webhook."""

    __test__ = False

    event: AgentEvent
    webhook: AgentWebhookRegistration
    note: str | None
