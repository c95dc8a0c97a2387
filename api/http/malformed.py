"""Requests that are not valid HTTP: refused in JSON like any other, without logging their content.

aiohttp would answer in plain text and log what was sent, which may contain the wallet that was looked up.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from api.http.application import json_response
from api.http.problem import invalid
from api.http.requests import fresh_request_id
from core.log import get_logger

log = get_logger(__name__)


class RefusingRunner(web.AppRunner):
    """A runner whose connections answer malformed requests in JSON."""

    def __init__(self, app: web.Application, *, shutdown_timeout: float, **settings: Any) -> None:
        super().__init__(app, shutdown_timeout=shutdown_timeout)
        self._settings = settings

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        handler = made.request_handler

        async def counted(request: web.BaseRequest) -> web.StreamResponse:
            connection = request.protocol
            assert isinstance(connection, ClientConnection)
            connection.is_asking = True
            try:
                return await handler(request)
            finally:
                connection.is_asking = False
                connection.asked_at = asyncio.get_running_loop().time()

        return _RefusingServer(counted, made.request_factory, self._settings)


class _RefusingServer(web.Server):
    """The server that creates these connections."""

    def __init__(self, handler: Any, request_factory: Any, settings: dict[str, Any]) -> None:
        super().__init__(handler, request_factory=request_factory)
        self._settings = settings

    def __call__(self) -> RequestHandler:
        return ClientConnection(self, loop=asyncio.get_running_loop(), **self._settings)


class ClientConnection(RequestHandler):
    """A client's connection. It answers malformed requests, and knows when it was last used.

    is_asking: whether a request is being answered. asked_at: when the last answer ended, or the connection opened, by
    the loop's clock.
    """

    __slots__ = ("asked_at", "is_asking")

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        super().__init__(manager, loop=loop, **settings)
        self.is_asking = False
        self.asked_at = loop.time()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        kind, request_id = type(exc).__name__, fresh_request_id()
        log.info("refused a request that is not HTTP", action="http.malformed", kind=kind, request_id=request_id)
        what = "A line or a header of it is too long." if isinstance(exc, LineTooLong) else "It is not HTTP/1.1."
        problem = invalid(f"The request cannot be read. {what}")
        # Set because aiohttp would send its version and Python's, as with every answer without a route.
        headers = {"X-Request-Id": request_id, "Server": "VPM"}
        response = json_response(problem.body, problem.status, headers=headers)
        response.force_close()
        return response
