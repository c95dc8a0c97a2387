"""Events as bodies: the same bytes on every channel."""

from __future__ import annotations

from typing import Any

import orjson

from api.agent.render import Links
from core.agent_events.kinds import EventType, event_id, source_of
from core.agent_events.reading import Event
from core.iso import iso_micros

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


def event_body(event: Event, links: Links) -> dict[str, Any]:
    proven = event.trade_id is not None and event.type in PROVEN and NO_SIDE not in event.payload
    return {
        "eventId": event.id,
        "seq": event.seq,
        "type": event.type.value,
        "createdAt": iso_micros(event.at_micros),
        "wallet": "0x" + event.wallet.hex(),
        "marketId": event.market_id,
        "tradeId": None if event.trade_id is None else "0x" + event.trade_id.hex(),
        "payload": orjson.Fragment(event.payload),
        "proofUrl": links.proof(event.trade_id) if proven and event.trade_id is not None else None,
    }


def event_json(event: Event, links: Links) -> bytes:
    return orjson.dumps(event_body(event, links))


def stream_frame(event: Event, links: Links) -> bytes:
    """One message of a stream: no `event:` line, so that every reader's default handler gets it."""
    return b"id: %d\ndata: %b\n\n" % (event.seq, event_json(event, links))


def verification(webhook_id: str, wallet: bytes, challenge: str, seq: int, at_micros: int) -> Event:
    """The handshake. It is for one endpoint alone and takes no number: `seq` is that of the first event to come."""
    return Event(
        id=event_id(source_of(EventType.WEBHOOK_VERIFY, webhook_id, challenge), 0),
        wallet=wallet,
        seq=seq,
        type=EventType.WEBHOOK_VERIFY,
        market_id=None,
        trade_id=None,
        at_micros=at_micros,
        payload=orjson.dumps({"challenge": challenge}).decode(),
    )
