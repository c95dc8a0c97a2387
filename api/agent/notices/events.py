"""The channels that wallets read: `/events` is a server-sent event stream; `/events/replay` and `/resolved` return
pages. A stream holds only the number of its next event. It reads events when it can send them, so slow clients cost no
memory. Streams that need the same page share one read."""

from __future__ import annotations

import asyncio
import contextlib
import re
import resource
from collections import defaultdict
from collections.abc import Collection, Iterator

from aiohttp import web

from api import streams
from api.agent.bodies.events import ReplayBody, ResolvedBody, event_body, stream_frame
from api.agent.bodies.parts import meta
from api.agent.errors import problem, storage
from api.agent.facts import Links
from api.agent.notices.dispatcher import Dispatcher
from api.agent.notices.sending import DeliverySigner, TargetResolver, WebhookSender
from api.agent.notices.webhooks import Webhooks
from api.agent.requests import LAST_EVENT_ID, EventsQuery, ReplayQuery, ResolvedQuery, checked_wallet
from api.caching import json_response
from api.context import Context
from api.database import DATABASE_ERRORS
from api.limits import ConcurrencyLimiter, LimiterFull, caller_ip
from api.problems import invalid_part
from api.requests import read_query
from core.agent.notices.log import next_seq, notices_from, resolutions_after
from core.chain import ChainClient
from core.db.channels import AGENT_EVENT, Resync, listen
from core.db.engine import ConnectionPool
from core.hexadecimal import bytes_of
from core.iso import iso_micros
from core.log import get_logger

log = get_logger(__name__)

RETRY_MS = 1_000
REPLAY_SECONDS = 5.0
PAGE = 200
MAX_STREAMS = 10_000
MAX_PER_CALLER = 100
OPEN_FILES = 65_536

# A stream's messages, each with its number.
Frames = list[tuple[int, bytes]]


class NoticeHub:
    """Wakes the process's streams and shares their reads. When `run` ends, the streams end."""

    def __init__(self, url: str, pool: ConnectionPool, links: Links) -> None:
        self.stopping = False
        self._url = url
        self._pool = pool
        self._links = links
        self._subscribers: dict[bytes, set[asyncio.Event]] = defaultdict(set)
        self._limiter = ConcurrencyLimiter(MAX_STREAMS, MAX_PER_CALLER)
        # Counts the signals of all wallets. A count per wallet would be lost with its last stream, and a read begun
        # before a signal would be taken for one begun after it.
        self._tick = 0
        self._reading: dict[tuple[object, ...], asyncio.Task[Frames]] = {}

    async def run(self) -> None:
        try:
            async with contextlib.aclosing(listen(self._url, AGENT_EVENT)) as signals:
                async for wallets in signals:
                    self._wake(list(self._subscribers) if isinstance(wallets, Resync) else wallets)
        finally:
            self.stopping = True
            self._wake(list(self._subscribers))

    def _wake(self, wallets: Collection[bytes]) -> None:
        # A read in progress may miss what this signal announces, even if the wallet has no open stream now.
        self._tick += 1
        for wallet in wallets:
            if wallet in self._subscribers:
                for event in self._subscribers[wallet]:
                    event.set()

    @contextlib.contextmanager
    def subscribe(self, wallet: bytes, caller: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the wallet may have news or the service stops. Raise 429 if there are too
        many."""
        with contextlib.ExitStack() as place:
            try:
                place.enter_context(self._limiter.place(caller))
            except LimiterFull as none:
                own = f"An address may have {MAX_PER_CALLER} open streams, and its network a third of all streams."
                message = own if none.own else "The service has reached its limit of open streams."
                raise problem("rate_limited", message, retry_after=5) from None
            changed = asyncio.Event()
            self._subscribers[wallet].add(changed)
            try:
                yield changed
            finally:
                self._subscribers[wallet].discard(changed)
                if not self._subscribers[wallet]:
                    del self._subscribers[wallet]

    async def read(self, wallet: bytes, seq: int, trade_id: bytes | None) -> Frames:
        """Return the next messages, starting with event number `seq`. Concurrent callers share one read."""
        key = (wallet, seq, trade_id, self._tick)
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(wallet, seq, trade_id))
            reading.add_done_callback(lambda _done: self._reading.pop(key, None))
        # A cancelled caller must not cancel the read that others share.
        return await asyncio.shield(reading)

    async def _read(self, wallet: bytes, seq: int, trade_id: bytes | None) -> Frames:
        async with asyncio.timeout(5), self._pool.connection() as connection:
            notices = await notices_from(connection, wallet, seq, PAGE, trade_id=trade_id)
        return [(each.seq, stream_frame(each, self._links)) for each in notices]


class EventChannels:
    """The channels for wallets' events: streams, pages, webhooks. `client` is None without an RPC URL."""

    def __init__(self, context: Context, links: Links, client: ChainClient | None) -> None:
        _raise_file_limit()
        settings, key = context.settings, context.secrets.attestation_key
        self._settings, self._pool, self._links = settings, context.pool, links
        self._hub = NoticeHub(context.write_url, context.pool, links)
        targets = TargetResolver(allow_private=settings.allow_private_webhooks)
        sender = WebhookSender(DeliverySigner(None if key is None else key.get_secret_value()), targets)
        self.webhooks = Webhooks(context, client, links, targets, sender)
        self._dispatcher = Dispatcher(context.write_url, context.pool, sender, links)

    def start(self, context: Context) -> None:
        context.spawn("agent event signals", self._hub.run())
        context.spawn("webhook dispatcher", self._dispatcher.run())
        context.spawn("webhook tidying", self._dispatcher.tidy())

    async def stream(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, EventsQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        trade_id = None if query.trade_id is None else bytes_of(query.trade_id)
        last = request.headers.get("Last-Event-ID", "").strip()
        seq = query.from_seq if not last else _after(last)
        response = web.StreamResponse(headers=streams.HEADERS)
        with self._hub.subscribe(wallet, caller_ip(request, self._settings)) as changed:
            await response.prepare(request)
            if request.method == "HEAD":
                return response
            with contextlib.suppress(ConnectionError):
                await self._send(request, response, changed, wallet, seq, trade_id)
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        changed: asyncio.Event,
        wallet: bytes,
        seq: int,
        trade_id: bytes | None,
    ) -> None:
        now = asyncio.get_running_loop().time
        ends = now() + self._settings.agent_stream_seconds
        if not await streams.write_chunk(request, response, b"retry: %d\n: next seq is %d\n\n" % (RETRY_MS, seq)):
            return
        written_at = now()
        while not self._hub.stopping:
            changed.clear()
            try:
                frames = await self._hub.read(wallet, seq, trade_id)
            except DATABASE_ERRORS as error:
                log.warning("failed to read events for a stream", action="agent.stream_unreadable", why=error)
                frames = None
            if frames:
                if not await streams.write_chunk(request, response, b"".join(frame for _, frame in frames)):
                    return
                seq, written_at = frames[-1][0] + 1, now()
                if len(frames) == PAGE and now() < ends:
                    continue  # there may be more; after a page that is not full, only a signal brings more
            if now() >= ends:
                await streams.write_chunk(request, response, b": the window ends; reconnect to continue\n\n")
                return
            # After a failed read, retry soon. Otherwise wait for a signal, which may concern another trade than this
            # stream's, so a heartbeat may still be due afterwards.
            silent_until = written_at + streams.HEARTBEAT_SECONDS
            again_at = now() + 1.0 if frames is None else ends
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min(silent_until, again_at, ends)):
                    await changed.wait()
            if now() >= silent_until:
                if not await streams.write_chunk(request, response, streams.HEARTBEAT):
                    return
                written_at = now()

    async def replay(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, ReplayQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        async with storage("The events", seconds=REPLAY_SECONDS), self._pool.connection() as connection:
            # The end is read first: events that come in between are on the page or lead to a next page.
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
        raise invalid_part("header", "Last-Event-ID", "must be the id of the last event received, a whole number")
    return int(last_event_id) + 1


def _raise_file_limit() -> None:
    """Raise the limit on open files. Each stream needs one, and the default limit of 1,024 is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
