"""A wallet's events without gaps and without doubles, through every break of the stream."""

from __future__ import annotations

from dataclasses import dataclass

from vpm_client.call import PREFIX, Call, decoder, texts
from vpm_client.errors import Unreachable
from vpm_client.models import AgentEvent

SILENCE_SECONDS = 40.0
"""The service says something every 15 s; a stream that says nothing for so long is dead."""
PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 10.0


@dataclass(slots=True)
class Cursor:
    """Where a reader is in a wallet's events: `next_seq` is the first it has not had. Keep that, and go on from
    there."""

    next_seq: int = 0

    @property
    def headers(self) -> dict[str, str]:
        return {"Last-Event-ID": str(self.next_seq - 1)} if self.next_seq else {}

    def take(self, event: AgentEvent) -> bool:
        """Return whether this event is new, and mark it as received."""
        if event.seq < self.next_seq:
            return False
        self.next_seq = event.seq + 1
        return True


def streaming(wallet: str, trade_id: str | None, cursor: Cursor) -> Call[AgentEvent]:
    query = texts(wallet=wallet, tradeId=trade_id)
    return Call("GET", f"{PREFIX}/events", AgentEvent, query, headers=cursor.headers, seconds=SILENCE_SECONDS)


class Frames:
    """A stream's lines put together to events, as the HTML standard has it. What a break cut off is dropped. `whole`:
    the stream is of all the wallet's events, whose numbers have no gap."""

    def __init__(self, cursor: Cursor, *, whole: bool) -> None:
        self._cursor = cursor
        self._whole = whole
        self._data: list[str] = []
        self._has_begun = False

    def line(self, line: str) -> AgentEvent | None:
        """The event that this line ends, if it does and the event is new. Unreachable where some before it are missing:
        a stream that is opened anew begins with them."""
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return None
        text, self._data = "\n".join(self._data), []
        if not text:
            return None
        event = decoder(AgentEvent).decode(text)
        if self._whole and self._has_begun and event.seq > self._cursor.next_seq:
            raise Unreachable(f"The stream left out the events before {event.seq}.")
        self._has_begun = True
        return event if self._cursor.take(event) else None
