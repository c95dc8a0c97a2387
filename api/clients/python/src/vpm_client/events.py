"""A wallet's events without gaps or duplicates, however often the stream breaks."""

from __future__ import annotations

from dataclasses import dataclass

from vpm_client.call import PREFIX, Call, decoder, query_of
from vpm_client.errors import Unreachable
from vpm_client.models import AgentEvent

SILENCE_SECONDS = 40.0
"""A stream that is silent for this long is dead: the service sends a heartbeat every 15 s."""
PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0


@dataclass(slots=True)
class Cursor:
    """A reader's place in a wallet's events. `next_seq` is the first event not yet received: save it to resume."""

    next_seq: int = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": str(self.next_seq - 1)} if self.next_seq else {}

    def take(self, event: AgentEvent) -> bool:
        """Mark an event as received, and return whether it is new."""
        if event.seq < self.next_seq:
            return False
        self.next_seq = event.seq + 1
        return True


def stream_call(wallet: str, trade_id: str | None, cursor: Cursor) -> Call[AgentEvent]:
    query = query_of(wallet=wallet, tradeId=trade_id)
    return Call("GET", f"{PREFIX}/events", AgentEvent, query, headers=cursor.headers, seconds=SILENCE_SECONDS)


class EventParser:
    """A parser of server-sent events. An event that is cut off when the connection breaks is dropped. `contiguous`:
    whether the stream has all the wallet's events, with no gap in their numbers."""

    def __init__(self, cursor: Cursor, *, contiguous: bool) -> None:
        self._cursor = cursor
        self._contiguous = contiguous
        self._data: list[str] = []
        self._has_begun = False

    def line(self, line: str) -> AgentEvent | None:
        """Return the new event that this line completes, if there is one. Raise Unreachable if the stream skipped
        events. A reopened stream begins with the skipped events."""
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return None
        text, self._data = "\n".join(self._data), []
        if not text:
            return None
        event = decoder(AgentEvent).decode(text)
        if self._contiguous and self._has_begun and event.seq > self._cursor.next_seq:
            raise Unreachable(f"The stream skipped events before {event.seq}.")
        self._has_begun = True
        return event if self._cursor.take(event) else None
