"""News of the event log for every stream of this process: one LISTEN connection, one read for all who wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Collection, Iterator

from api.agent.errors import problem
from api.agent.links import Links
from api.agent.notices.bodies import stream_frame
from api.http.limits import ConcurrencyLimiter, NoPlace
from core.agent.notices.reading import notices_from
from core.db.channels import AGENT_EVENT, Resync, listen
from core.db.engine import ConnectionPool
from core.metrics import counter, gauge

STREAMS = gauge("vpm_agent_event_streams", "Event streams open in this process")
ENDED = counter("vpm_agent_event_streams_ended", "Event streams that ended, by what ended them", ("why",))

PAGE = 200
MAX_STREAMS = 10_000
MAX_PER_CALLER = 100

_FULL = "There are too many open streams."

# Messages of a stream, each with its number.
Frames = list[tuple[int, bytes]]
_Key = tuple[bytes, int, bytes | None, int]


class NoticeHub:
    """What the streams of this process share: the news, and each page of notices read once. `run` must run beside the
    streams; when it ends, they end."""

    def __init__(self, url: str, pool: ConnectionPool, links: Links) -> None:
        self.stopping = False
        self._url = url
        self._pool = pool
        self._links = links
        self._seats: dict[bytes, set[asyncio.Event]] = defaultdict(set)
        self._places = ConcurrencyLimiter(MAX_STREAMS, MAX_PER_CALLER)
        # Which news of all was the last; of one wallet alone it would be forgotten with its last stream, and a read
        # begun before would pass for one begun after.
        self._tick = 0
        self._reading: dict[_Key, asyncio.Task[Frames]] = {}

    async def run(self) -> None:
        try:
            async with contextlib.aclosing(listen(self._url, AGENT_EVENT)) as signals:
                async for wallets in signals:
                    self._wake(list(self._seats) if isinstance(wallets, Resync) else wallets)
        finally:
            self.stopping = True
            self._wake(list(self._seats))

    def _wake(self, wallets: Collection[bytes]) -> None:
        # A read that has begun may not see what was announced after it, also where no stream of the wallet is open now.
        self._tick += 1
        for wallet in wallets:
            if wallet in self._seats:
                for news in self._seats[wallet]:
                    news.set()

    @contextlib.contextmanager
    def seat(self, wallet: bytes, caller: str) -> Iterator[asyncio.Event]:
        """One stream's place: its event is set when the wallet may have news, or the service stops. Problem 429 when
        there is no room."""
        with contextlib.ExitStack() as place:
            try:
                place.enter_context(self._places.taken(caller))
            except NoPlace as none:
                own = f"An address has at most {MAX_PER_CALLER} streams open, its network a third of all."
                message = own if none.own else _FULL
                raise problem("rate_limited", message, retry_after=5) from None
            news = asyncio.Event()
            self._seats[wallet].add(news)
            STREAMS.inc()
            try:
                yield news
            finally:
                STREAMS.dec()
                self._seats[wallet].discard(news)
                if not self._seats[wallet]:
                    del self._seats[wallet]

    async def read(self, wallet: bytes, seq: int, trade_id: bytes | None) -> Frames:
        """The next messages from a number on; those who ask for the same at once share one read."""
        key = (wallet, seq, trade_id, self._tick)
        reading = self._reading.get(key)
        if reading is None:
            reading = self._reading[key] = asyncio.create_task(self._read(wallet, seq, trade_id))
            reading.add_done_callback(lambda _done: self._reading.pop(key, None))
        # Whoever gives up does not take the others' read with it.
        return await asyncio.shield(reading)

    async def _read(self, wallet: bytes, seq: int, trade_id: bytes | None) -> Frames:
        async with asyncio.timeout(5), self._pool.connection() as connection:
            notices = await notices_from(connection, wallet, seq, PAGE, trade_id=trade_id)
        return [(each.seq, stream_frame(each, self._links)) for each in notices]
