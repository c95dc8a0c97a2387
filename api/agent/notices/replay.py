"""`/events/replay` and `/resolved`: the log read in pages."""

from __future__ import annotations

from aiohttp import web

from api.agent.bodies.parts import meta
from api.agent.links import Links
from api.agent.notices.bodies import ReplayBody, ResolvedBody, event_body
from api.agent.notices.requests import ReplayQuery, ResolvedQuery
from api.agent.requests import checked_wallet
from api.agent.storage import storage
from api.http.application import json_response
from api.http.requests import read_query
from core.agent.notices.reading import next_seq, notices_from, resolutions_after
from core.db.engine import ConnectionPool
from core.hexadecimal import bytes_of
from core.iso import iso_exact

SECONDS = 5.0


class Replay:
    """The pages of a wallet's past events, read from the primary: what a stream has shown is there, too."""

    def __init__(self, pool: ConnectionPool, links: Links) -> None:
        self._pool = pool
        self._links = links

    async def replay(self, request: web.Request) -> web.StreamResponse:
        query = read_query(request, ReplayQuery)
        wallet = bytes_of(checked_wallet(query.wallet))
        async with storage("The events", seconds=SECONDS), self._pool.connection() as connection:
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
        async with storage("The events", seconds=SECONDS), self._pool.connection() as connection:
            resolutions = await resolutions_after(connection, wallet, query.since, query.limit + 1)
        events = resolutions[: query.limit]
        return json_response(
            ResolvedBody(
                meta=meta(self._links),
                events=[event_body(each, self._links) for each in events],
                next_since=iso_exact(events[-1].at_micros) if len(resolutions) > len(events) else None,
            )
        )
