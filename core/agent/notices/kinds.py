"""Event types and event ids of the agent API."""

from __future__ import annotations

import hashlib
from enum import StrEnum

SOURCE_BYTES = 16


class EventType(StrEnum):
    """The types of events that wallets receive."""

    BET_SUBMITTED = "bet.settlement_submitted"
    BET_PLACED = "bet.placed"
    MARKET_RESOLVED = "market.resolved"
    POSITION_WON = "position.won"
    POSITION_LOST = "position.lost"
    PAYOUT_SUBMITTED = "payout.submitted"
    PAYOUT_PAID = "payout.paid"
    PAYOUT_FAILED = "payout.failed"
    WEBHOOK_VERIFY = "webhook.verify"
    DELIVERY_FAILED = "webhook.delivery_failed"
    TEST = "test"


# The types that `/resolved` lists.
RESOLUTIONS = (EventType.MARKET_RESOLVED, EventType.POSITION_WON, EventType.POSITION_LOST)


def source_of(event_type: EventType, *parts: bytes | int | str) -> bytes:
    """Return 16 bytes that identify what an event reports. They are the same in every database."""
    digest = hashlib.sha256(event_type.value.encode())
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(2) + raw)
    return digest.digest()[:SOURCE_BYTES]


def correction_source(source: bytes) -> bytes:
    """Return the source of the event that corrects the event with the given source."""
    return hashlib.sha256(b"undone" + source).digest()[:SOURCE_BYTES]


def event_id(source: bytes, occurrence: int) -> str:
    """Return the public id of an event. If a reorganization undoes an event and it occurs again, the second occurrence
    has a different id."""
    return f"evt_{source.hex()}" + (f"_{occurrence}" if occurrence else "")
