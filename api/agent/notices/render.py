"""Events as they go out: the same bytes on every channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from api.agent.links import Links
from core.agent.notices.kinds import EventType, event_id, source_of
from core.agent.notices.reading import Notice
from core.hexadecimal import hex_of
from core.iso import iso_exact

# What has a proof: a trade that is on the chain. A payment that came too late to be a stake names no side.
PROVEN = frozenset(
    {
        EventType.BET_PLACED,
        EventType.POSITION_WON,
        EventType.POSITION_LOST,
        EventType.PAYOUT_SUBMITTED,
        EventType.PAYOUT_PAID,
        EventType.PAYOUT_FAILED,
    }
)
NO_SIDE = '"side":null'


def event_body(event: Notice, links: Links) -> dict[str, Any]:
    proven = event.trade_id is not None and event.type in PROVEN and NO_SIDE not in event.payload
    return {
        "eventId": event.id,
        "seq": event.seq,
        "type": event.type.value,
        "createdAt": iso_exact(event.at_micros),
        "wallet": hex_of(event.wallet),
        "marketId": event.market_id,
        "tradeId": None if event.trade_id is None else hex_of(event.trade_id),
        "payload": orjson.Fragment(event.payload),
        "proofUrl": links.proof(event.trade_id) if proven and event.trade_id is not None else None,
    }


def event_json(event: Notice, links: Links) -> bytes:
    return orjson.dumps(event_body(event, links))


def stream_frame(event: Notice, links: Links) -> bytes:
    """One message of a stream: no `event:` line, so that every reader's default handler gets it."""
    return b"id: %d\ndata: %b\n\n" % (event.seq, event_json(event, links))


@dataclass(frozen=True, slots=True)
class Addressed:
    """An event for one endpoint alone. It takes no number of its own: `seq` is that of the wallet's newest event."""

    id: str
    seq: int
    type: EventType
    wallet: bytes
    at_micros: int
    payload: Mapping[str, Any]

    def body(self) -> dict[str, Any]:
        return {
            "eventId": self.id,
            "seq": self.seq,
            "type": self.type.value,
            "createdAt": iso_exact(self.at_micros),
            "wallet": hex_of(self.wallet),
            "marketId": None,
            "tradeId": None,
            "payload": self.payload,
            "proofUrl": None,
        }


def addressed(
    kind: EventType, webhook_id: str, wallet: bytes, token: str, seq: int, at_micros: int, payload: Mapping[str, Any]
) -> Addressed:
    """Build an event whose id `token` makes different from the endpoint's others of its kind."""
    return Addressed(event_id(source_of(kind, webhook_id, token), 0), seq, kind, wallet, at_micros, payload)
