"""GET /live: tells an open page that something it shows has changed, so that it asks for itself again.

A server-sent event stream that carries no content: one beat, a number, for each change. A page that cannot hold one
asks every few seconds instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping

from aiohttp import web

from api.http.event_stream import HEADERS, HEARTBEAT, HEARTBEAT_SECONDS, written
from api.http.limits import ConcurrencyLimiter, NoPlace
from api.http.problem import invalid

LOOK_SECONDS = 0.25
WINDOW_SECONDS = 300.0
MAX_STREAMS = 2_000
MAX_PER_CALLER = 100


class Pulse:
    """What open pages watch: `stamps` is, for each kind of page, what changes when its content may have; `caller` tells
    who asks, so that one address does not take every place."""

    def __init__(
        self,
        stamps: Mapping[str, Callable[[], Hashable]],
        caller: Callable[[web.Request], str],
        *,
        most: int = MAX_STREAMS,
        most_each: int = MAX_PER_CALLER,
        heartbeat_seconds: float = HEARTBEAT_SECONDS,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._stamps = stamps
        self._caller = caller
        self._most_each = most_each
        self._places = ConcurrencyLimiter(most, most_each)
        self._heartbeat_seconds = heartbeat_seconds
        self._window_seconds = window_seconds
        self._beats = dict.fromkeys(stamps, 0)
        self._changed = asyncio.Condition()
        self._ended = False

    async def run(self) -> None:
        """Looks for changes until it is cancelled, which ends every stream."""
        seen: dict[str, Hashable] = {}
        try:
            while True:
                now = {kind: stamp() for kind, stamp in self._stamps.items()}
                changed = [kind for kind, stamp in now.items() if seen.get(kind) != stamp]
                seen = now
                if changed:
                    async with self._changed:
                        for kind in changed:
                            self._beats[kind] += 1
                        self._changed.notify_all()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._ended = True
            async with self._changed:
                self._changed.notify_all()

    async def stream(self, request: web.Request) -> web.StreamResponse:
        kind = request.query.get("of", "")
        if kind not in self._stamps:
            raise invalid(f"The query parameter of is one of {', '.join(self._stamps)}.")
        response = web.StreamResponse(headers=HEADERS)
        try:
            with self._places.taken(self._caller(request)):
                await response.prepare(request)
                if request.method == "GET":
                    await self._write_beats(request, response, kind)
        except ConnectionError:
            pass  # the page was closed
        except NoPlace as none:
            raise none.refusal(
                f"At most {self._most_each} pages of one address listen at once, and a third of all of one network.",
                "Too many pages listen already; ask again in a while.",
            ) from None
        return response

    async def _write_beats(self, request: web.Request, response: web.StreamResponse, kind: str) -> None:
        clock = asyncio.get_running_loop().time
        ends = clock() + self._window_seconds
        beat = self._beats[kind]

        def news() -> bool:
            return self._ended or self._beats[kind] != beat

        await response.write(b"retry: 2000\n\n")
        while not self._ended and clock() < ends:
            line = HEARTBEAT
            try:
                async with asyncio.timeout(self._heartbeat_seconds), self._changed:
                    await self._changed.wait_for(news)
                beat = self._beats[kind]
                line = b"data: %d\n\n" % beat
            except TimeoutError:
                pass
            if not await written(request, response, line):
                return
