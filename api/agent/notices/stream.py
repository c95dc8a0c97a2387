"""`GET /events`: a wallet's events as a server-sent event stream.

A stream holds nothing but its next number: what it sends it reads when it can send it, so a slow reader costs no
memory. One that does not read for some seconds is cut off, and resumes with `Last-Event-ID` where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import re

from aiohttp import web

from api.agent.errors import problem
from api.agent.notices.hub import ENDED, PAGE, NoticeHub
from api.agent.notices.requests import LAST_EVENT_ID, EventsQuery
from api.agent.requests import checked_wallet
from api.database import DATABASE_ERRORS
from api.http import event_stream
from api.http.caller import caller_ip
from api.http.requests import read_query
from core.config import Settings
from core.hexadecimal import bytes_of
from core.log import get_logger

log = get_logger(__name__)

RETRY_MS = 1_000


class Events:
    """The streams of events to wallets. `window_seconds`: how long a stream stays open."""

    def __init__(
        self,
        settings: Settings,
        hub: NoticeHub,
        *,
        window_seconds: float,
    ) -> None:
        self._settings = settings
        self._hub = hub
        self._window_seconds = window_seconds

    async def stream(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, EventsQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        trade_id = None if query.trade_id is None else bytes_of(query.trade_id)
        last = request.headers.get("Last-Event-ID", "").strip()
        seq = query.from_seq if not last else _after(last)
        response = web.StreamResponse(headers=event_stream.HEADERS)
        with self._hub.seat(wallet, caller_ip(request, self._settings)) as news:
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            why = "disconnected"
            with contextlib.suppress(ConnectionError):
                why = await self._send(request, response, news, wallet, seq, trade_id)
            ENDED.labels(why).inc()
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        news: asyncio.Event,
        wallet: bytes,
        seq: int,
        trade_id: bytes | None,
    ) -> str:
        """Until something ends it; says what."""
        now = asyncio.get_running_loop().time
        ends = now() + self._window_seconds
        if not await event_stream.written(request, response, b"retry: %d\n: seq %d comes next\n\n" % (RETRY_MS, seq)):
            return "slow"
        said_at = now()
        while not self._hub.stopping:
            news.clear()
            try:
                frames = await self._hub.read(wallet, seq, trade_id)
            except DATABASE_ERRORS as error:
                log.warning("a stream cannot read", action="agent.stream_unreadable", why=error)
                frames = None
            if frames:
                if not await event_stream.written(request, response, b"".join(frame for _, frame in frames)):
                    return "slow"
                seq, said_at = frames[-1][0] + 1, now()
                if len(frames) == PAGE and now() < ends:
                    continue  # there may be more; behind a page that is not full only news can come
            if now() >= ends:
                await event_stream.written(request, response, b": the window ends; reconnect to go on\n\n")
                return "window"
            # What cannot be read now is tried again soon; otherwise silence lasts until there are news. They may be of
            # another trade than the one asked for, and then nothing was said.
            silent_until = said_at + event_stream.HEARTBEAT_SECONDS
            again_at = now() + 1.0 if frames is None else ends
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(silent_until, again_at, ends)):
                    await news.wait()
            if now() >= silent_until:
                if not await event_stream.written(request, response, event_stream.HEARTBEAT):
                    return "slow"
                said_at = now()
        return "stopping"


def _after(last_event_id: str) -> int:
    if not re.fullmatch(LAST_EVENT_ID, last_event_id):
        raise problem(
            "invalid_request",
            "Last-Event-ID is not the id of an event of this stream.",
            issues=[{"field": "Last-Event-ID", "problem": "is not the id of an event of this stream"}],
            hint="Send the id of the last event received, a whole number, or leave the header out.",
        )
    return int(last_event_id) + 1
