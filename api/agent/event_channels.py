"""The event channels, assembled: streams, replay, polling."""

from __future__ import annotations

import resource

from api.agent import answers
from api.agent import event_models as models
from api.agent.event_hub import EventHub
from api.agent.events import Events
from api.agent.render import Links
from api.agent.replay import Replay
from api.context import Context
from api.http.operation import Answer, Operation

STREAM = """\
A server-sent event stream of one wallet's events: each `data:` is one event, the `id` its `seq`. It starts at `fromSeq`
(0 by default), or after `Last-Event-ID`, with what was missed and goes on with what happens. A comment every 15 s shows
that it lives; after 300 s it closes: reconnect with `Last-Event-ID` and nothing is missed. A reader that takes nothing
for 5 s is cut off."""
REPLAY = """\
A wallet's events in order from `fromSeq` on, at most 500 a page; `nextSeq` is null when there are no more. `seq` counts
from 0 without a gap. An event is never changed: one that a reorganization undid is followed by a correction, the same
type with `undone: true` and `corrects` in its payload."""
RESOLVED = """\
`market.resolved`, `position.won` and `position.lost` of a wallet after an instant, oldest first. `nextSince` is null
when there are no more; then go on later from the `createdAt` of the last one: no two of a wallet have the same."""

_MANY_FILES = 65_536


class EventChannels:
    def __init__(self, context: Context, links: Links) -> None:
        _raise_file_limit()
        self._hub = EventHub(context.write_url, context.pool, links)
        self._events = Events(context.settings, self._hub)
        self._replay = Replay(context.pool, links)

    def run_beside(self, context: Context) -> None:
        context.spawn("agent event news", self._hub.run())

    def operations(self, prefix: str) -> tuple[Operation, ...]:
        bad = _error("`invalid_request`, with `issues`")
        wallet = _error("`invalid_wallet`")
        unreadable = _error("`internal_error`: retry shortly.")
        rate = Answer("`rate_limited`", answers.ErrorBody, {"Retry-After": "Seconds until there is room again."})
        return (
            Operation(
                "GET",
                f"{prefix}/events",
                self._events.stream,
                "Stream a wallet's events",
                {
                    200: Answer("The stream.", content_type="text/event-stream"),
                    400: bad,
                    422: wallet,
                    429: rate,
                },
                description=STREAM,
                query=models.EventsQuery,
                headers=models.EventsHeaders,
                from_memory=True,
            ),
            Operation(
                "GET",
                f"{prefix}/events/replay",
                self._replay.replay,
                "A wallet's events in order",
                {200: Answer("A page of events.", models.ReplayBody), 400: bad, 422: wallet, 500: unreadable},
                description=REPLAY,
                query=models.ReplayQuery,
            ),
            Operation(
                "GET",
                f"{prefix}/resolved",
                self._replay.resolved,
                "How a wallet's markets ended",
                {200: Answer("A page of events.", models.ResolvedBody), 400: bad, 422: wallet, 500: unreadable},
                description=RESOLVED,
                query=models.ResolvedQuery,
            ),
        )


def _error(description: str) -> Answer:
    return Answer(description, answers.ErrorBody)


def _raise_file_limit() -> None:
    """Each stream is an open file, and the usual limit of 1,024 was made for other programs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
