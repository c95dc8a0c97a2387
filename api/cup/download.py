"""GET /api/cup/v1/export: the whole tournament as one file, streamed from one database snapshot.

A download holds a database connection and a snapshot until it ends. Both are scarce, so few downloads run at once. A
client that stalls or takes too long is disconnected.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import psycopg
from aiohttp import web
from limits import RateLimitItemPerMinute

from api.caching import NO_STORE
from api.cup.service import CupService
from api.limits import ConcurrencyLimiter, LimiterFull, RateLimits, caller_ip
from api.problems import unavailable
from core.config import Settings
from core.cup.export import lines
from core.db.engine import connect
from core.errors import DatabaseError
from core.log import get_logger

log = get_logger(__name__)

EACH_CALLER = RateLimitItemPerMinute(12)
# The most downloads of one process at once; an address gets one.
AT_ONCE = 2
# A reader that takes longer than this for one piece is cut off.
SLOW_SECONDS = 5.0
# The limit of a whole download: its snapshot keeps PostgreSQL from clearing away dead rows.
MAX_SECONDS = 300.0


class Download:
    """The export endpoint. Each download uses a connection of its own, so that slow downloads do not hold up trades."""

    def __init__(self, settings: Settings, service: CupService, limits: RateLimits, url: str) -> None:
        self._settings = settings
        self._service = service
        self._limits = limits
        self._url = url
        self._places = ConcurrencyLimiter(AT_ONCE, 1)

    async def get(self, request: web.Request) -> web.StreamResponse:
        self._service.require_open()
        caller = caller_ip(request, self._settings)
        await self._limits.take(EACH_CALLER, "cup_export", caller, "Too many exports from this address.")
        if request.method == "HEAD":  # without reading the whole ledger
            response = _response()
            await response.prepare(request)
            return response
        try:
            with self._places.place(caller):
                return await self._stream(request)
        except LimiterFull as none:
            raise none.refusal(
                "An export from this address or its network is still running; try again in a while.",
                "Too many exports are running; try again in a while.",
            ) from None

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        try:
            connection = await connect(self._url, application_name="vpm-cup-export")
        except DatabaseError:
            raise unavailable() from None
        response = _response()
        async with connection:
            try:
                async with asyncio.timeout(MAX_SECONDS), aclosing(lines(connection)) as pieces:
                    async for piece in pieces:
                        async with asyncio.timeout(SLOW_SECONDS):
                            if not response.prepared:
                                await response.prepare(request)
                            await response.write(piece)
            except TimeoutError:
                return _abort(request, response)
            except psycopg.Error as error:
                log.warning("aborted an export", action="cup.export_aborted", why=error)
                if not response.prepared:
                    raise unavailable() from None
                return _abort(request, response)
            except ConnectionError:
                return response  # the reader disconnected
        await response.write_eof()
        return response


def _abort(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection before the last line of the file is sent. Otherwise clients would treat the file as
    complete."""
    if request.transport is not None:
        request.transport.abort()
    return response


def _response() -> web.StreamResponse:
    return web.StreamResponse(
        headers={
            "Content-Type": "application/x-ndjson",
            "Content-Disposition": 'attachment; filename="cup-export.ndjson"',
            "Cache-Control": NO_STORE,
        }
    )
