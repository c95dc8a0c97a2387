"""GET /api/cup/v1/export: the whole tournament as one file, streamed from one snapshot."""

from __future__ import annotations

from aiohttp import web
from limits import RateLimitItemPerMinute

from api.cup.desk import Desk
from api.http.application import NO_STORE, unavailable
from api.http.caller import caller_ip
from api.http.limits import RateLimits
from core.config import Settings
from core.cup.export import lines
from core.db.engine import connect
from core.errors import DatabaseError

EACH_CALLER = RateLimitItemPerMinute(12)


class Download:
    """Each download has a connection of its own: it may take long, and must not hold up trades."""

    def __init__(self, settings: Settings, desk: Desk, limits: RateLimits, url: str) -> None:
        self._settings = settings
        self._desk = desk
        self._limits = limits
        self._url = url

    async def get(self, request: web.Request) -> web.StreamResponse:
        self._desk.require_open()
        await self._limits.take(
            EACH_CALLER, "cup_export", caller_ip(request, self._settings), "Too many exports from this address."
        )
        try:
            connection = await connect(self._url, application_name="vpm-cup-export")
        except DatabaseError:
            raise unavailable() from None
        response = web.StreamResponse(
            headers={
                "Content-Type": "application/x-ndjson",
                "Content-Disposition": 'attachment; filename="cup-export.ndjson"',
                "Cache-Control": NO_STORE,
            }
        )
        async with connection:
            await response.prepare(request)
            async for piece in lines(connection):
                await response.write(piece)
        await response.write_eof()
        return response
