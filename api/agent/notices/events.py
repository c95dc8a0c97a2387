"""The channels that wallets read: `/events`, a server-sent event stream; `/events/replay` and `/resolved`, in pages.

One LISTEN connection has the news for every stream of the process, and one read serves all streams that wait for it. A
stream holds nothing but its next number: what it sends it reads when it can send it, so a slow reader costs no memory.
One that does not read for some seconds is cut off, and resumes with `Last-Event-ID` where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from aiohttp import web

from api import streams
from api.agent.bodies.parts import meta
from api.agent.errors import problem
from api.agent.links import Links
from api.agent.notices.bodies import ReplayBody, ResolvedBody, event_body, stream_frame
from api.agent.notices.requests import LAST_EVENT_ID, EventsQuery, ReplayQuery, ResolvedQuery
from api.agent.requests import checked_wallet
from api.agent.storage import storage
from api.caching import json_response
from api.database import DATABASE_ERRORS
from api.limits import ConcurrencyLimiter, LimiterFull, caller_ip
from api.requests import read_query
from core.agent.notices.reading import next_seq, notices_from, resolutions_after
from core.config import Settings
from core.db.channels import AGENT_EVENT, Resync, listen
from core.db.engine import ConnectionPool
from core.hexadecimal import bytes_of
from core.iso import iso_micros
from core.log import get_logger
from core.metrics import counter, gauge

log = get_logger(__name__)

STREAMS = gauge("vpm_agent_event_streams", "Event streams open in this process")
ENDED = counter("vpm_agent_event_streams_ended", "Event streams that ended, by what ended them", ("why",))

RETRY_MS = 1_000
REPLAY_SECONDS = 5.0
PAGE = 200
MAX_STREAMS = 10_000
MAX_PER_CALLER = 100

_FULL = "There are too many open streams."

# Messages of a stream, each with its number.
Frames = list[tuple[int, bytes]]
_Key = tuple[bytes, int, bytes | None, int]


class NoticeHub:
    """The state that this process's streams share: the news, and each page of notices read once. `run` must run
    alongside the streams; when it ends, they end."""

    def __init__(self, url: str, pool: ConnectionPool, links: Links) -> None:
        self.stopping = False
        self._url = url
        self._pool = pool
        self._links = links
        self._subscribers: dict[bytes, set[asyncio.Event]] = defaultdict(set)
        self._places = ConcurrencyLimiter(MAX_STREAMS, MAX_PER_CALLER)
        # Which news of all was the last; of one wallet alone it would be forgotten with its last stream, and a read
        # begun before would pass for one begun after.
        self._tick = 0
        self._reading: dict[_Key, asyncio.Task[Frames]] = {}

    async def run(self) -> None:
        try:
            async with contextlib.aclosing(listen(self._url, AGENT_EVENT)) as signals:
                async for wallets in signals:
                    self._wake(list(self._subscribers) if isinstance(wallets, Resync) else wallets)
        finally:
            self.stopping = True
            self._wake(list(self._subscribers))

    def _wake(self, wallets: Collection[bytes]) -> None:
        # A read that has begun may not see what was announced after it, also where no stream of the wallet is open now.
        self._tick += 1
        for wallet in wallets:
            if wallet in self._subscribers:
                for news in self._subscribers[wallet]:
                    news.set()

    @contextlib.contextmanager
    def subscribe(self, wallet: bytes, caller: str) -> Iterator[asyncio.Event]:
        """One stream's place: its event is set when the wallet may have news, or the service stops. Problem 429 when
        there is no room."""
        with contextlib.ExitStack() as place:
            try:
                place.enter_context(self._places.place(caller))
            except LimiterFull as none:
                own = f"An address has at most {MAX_PER_CALLER} streams open, its network a third of all."
                message = own if none.own else _FULL
                raise problem("rate_limited", message, retry_after=5) from None
            news = asyncio.Event()
            self._subscribers[wallet].add(news)
            STREAMS.inc()
            try:
                yield news
            finally:
                STREAMS.dec()
                self._subscribers[wallet].discard(news)
                if not self._subscribers[wallet]:
                    del self._subscribers[wallet]

    async def read(self, wallet: bytes, seq: int, trade_id: bytes | None) -> Frames:
        """The next messages from a number on; those who ask for the same at once share one read."""
        key = (wallet, seq, trade_id, self._tick)
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(wallet, seq, trade_id))
            reading.add_done_callback(lambda _done: self._reading.pop(key, None))
        # A caller that gives up must not cancel the read that others share.
        return await asyncio.shield(reading)

    async def _read(self, wallet: bytes, seq: int, trade_id: bytes | None) -> Frames:
        async with asyncio.timeout(5), self._pool.connection() as connection:
            notices = await notices_from(connection, wallet, seq, PAGE, trade_id=trade_id)
        return [(each.seq, stream_frame(each, self._links)) for each in notices]


class Events:
    """The endpoints of the channels. Pages are read from the primary: what a stream has shown is there, too."""

    def __init__(self, settings: Settings, hub: NoticeHub, pool: ConnectionPool, links: Links) -> None:
        self._settings = settings
        self._hub = hub
        self._pool = pool
        self._links = links

    async def stream(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, EventsQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        trade_id = None if query.trade_id is None else bytes_of(query.trade_id)
        last = request.headers.get("Last-Event-ID", "").strip()
        seq = query.from_seq if not last else _after(last)
        response = web.StreamResponse(headers=streams.HEADERS)
        with self._hub.subscribe(wallet, caller_ip(request, self._settings)) as news:
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
        ends = now() + self._settings.agent_stream_seconds
        if not await streams.write_chunk(request, response, b"retry: %d\n: seq %d comes next\n\n" % (RETRY_MS, seq)):
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
                if not await streams.write_chunk(request, response, b"".join(frame for _, frame in frames)):
                    return "slow"
                seq, said_at = frames[-1][0] + 1, now()
                if len(frames) == PAGE and now() < ends:
                    continue  # there may be more; behind a page that is not full only news can come
            if now() >= ends:
                await streams.write_chunk(request, response, b": the window ends; reconnect to go on\n\n")
                return "window"
            # What cannot be read now is tried again soon; otherwise silence lasts until there are news. They may be of
            # another trade than the one asked for, and then nothing was said.
            silent_until = said_at + streams.HEARTBEAT_SECONDS
            again_at = now() + 1.0 if frames is None else ends
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(silent_until, again_at, ends)):
                    await news.wait()
            if now() >= silent_until:
                if not await streams.write_chunk(request, response, streams.HEARTBEAT):
                    return "slow"
                said_at = now()
        return "stopping"

    async def replay(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, ReplayQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        async with storage("The events", seconds=REPLAY_SECONDS), self._pool.connection() as connection:
            # The end first: what comes in between is on the page as well, and then there is a next one.
            end = await next_seq(connection, wallet)
            events = await notices_from(connection, wallet, query.from_seq, query.limit)
        last = max(end - 1, events[-1].seq if events else -1)
        more = bool(events) and events[-1].seq < last
        return json_response(
            ReplayBody(
                meta=meta(self._links),
                events=[event_body(each, self._links) for each in events],
                next_seq=events[-1].seq + 1 if more else None,
                last_seq=None if last < 0 else last,
            )
        )

    async def resolved(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, ResolvedQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        async with storage("The events", seconds=REPLAY_SECONDS), self._pool.connection() as connection:
            resolutions = await resolutions_after(connection, wallet, query.since, query.limit + 1)
        events = resolutions[: query.limit]
        return json_response(
            ResolvedBody(
                meta=meta(self._links),
                events=[event_body(each, self._links) for each in events],
                next_since=iso_micros(events[-1].at_micros) if len(resolutions) > len(events) else None,
            )
        )


def _after(last_event_id: str) -> int:
    if not re.fullmatch(LAST_EVENT_ID, last_event_id):
        raise problem(
            "invalid_request",
            "Last-Event-ID is not the id of an event of this stream.",
            issues=[{"field": "Last-Event-ID", "problem": "is not the id of an event of this stream"}],
            hint="Send the id of the last event received, a whole number, or leave the header out.",
        )
    return int(last_event_id) + 1
