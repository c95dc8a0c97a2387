"""The origin: all surfaces composed into one aiohttp application, and the server that runs it.

To add a surface, write a context manager that takes a `Context` and yields a `Surface`, and add it to `SURFACES`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from api.agent.surface import agent_surface
from api.caching import NO_STORE, json_response
from api.context import Context
from api.cup.surface import cup_surface
from api.limits import caller_ip
from api.openapi import docs_surface
from api.operations import ALLOWED_HEADERS, CORS, Handler, Surface
from api.problems import MAX_BODY_BYTES, Problem, fresh_request_id, invalid, problem_of, request_id
from api.requests import BODY_TIMEOUT, BodyTimeout, report_unknown_parameters
from api.stock.surface import stock_surface
from api.web.surface import pages_surface
from core.config import Settings
from core.errors import ConfigError
from core.log import get_logger

log = get_logger(__name__)

TITLE = "VPM"
SURFACES = (stock_surface, agent_surface, cup_surface)

# How long a browser may cache a preflight response.
PREFLIGHT_SECONDS = 86_400
# How long open requests may take after the stop signal; a relayed bet takes up to 10 s.
IDLE_SECONDS = 75.0
SHUTDOWN_SECONDS = 12.0
# How long to keep reading a body after responding, so that the client gets the response before a reset.
LINGERING_SECONDS = 1.0
BACKLOG = 1024
# The most a documented request needs: 4,500 characters of query in escaped UTF-8, and a payment header with a contract
# wallet's signature. aiohttp refuses longer ones before any of our code runs.
MAX_LINE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 40 * 1024  # each: a payment may have 32 KiB, and we explain why a longer one is refused


@asynccontextmanager
async def make_app(context: Context) -> AsyncIterator[web.Application]:
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(make(context)) for make in SURFACES]
        docs = docs_surface(made, title=TITLE, server=context.settings.public_url)
        pages = await pages_surface(context, [*made, docs])
        yield bounded(application([*made, docs, pages]), context.settings)


def bounded(app: web.Application, settings: Settings) -> web.Application:
    """Limit how many request bodies the application receives from one caller at a time."""
    app[BODY_TIMEOUT] = BodyTimeout(lambda request: caller_ip(request, settings))
    return app


# ---------------------------------------------------------------- the application


def application(surfaces: Sequence[Surface]) -> web.Application:
    """Build an application that serves these surfaces. The resources that its handlers use must outlive the
    application."""
    conventions = _Conventions(surfaces)
    app = web.Application(middlewares=[conventions.middleware], client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(conventions.prepare)
    methods: dict[str, set[str]] = {}
    for surface in surfaces:
        for operation in surface.operations:
            methods.setdefault(operation.path, set()).add(operation.method)
            handler = operation.measured()
            if operation.method == "GET":
                if operation.path.startswith("/api/"):
                    handler = report_unknown_parameters(operation, handler)
                app.router.add_get(_route(operation.path), handler)
            else:
                app.router.add_route(operation.method, _route(operation.path), handler)
    for path, allowed in methods.items():
        if "OPTIONS" not in allowed and "*" not in allowed:
            app.router.add_route("OPTIONS", _route(path), _preflight(allowed))
    return app


_PARAMETER = re.compile(r"\{(\w+)\}")


def _route(path: str) -> str:
    """Return the aiohttp route for an operation's path. Parameters in the route match any value, even one with braces,
    which aiohttp's default pattern would not match. The operation can then explain what is wrong with the value."""
    return _PARAMETER.sub(r"{\1:[^/]+}", path)


class _Conventions:
    """Middleware that renders each error in the form of its path's surface, and sets the common headers."""

    def __init__(self, surfaces: Sequence[Surface]) -> None:
        # Longest prefix first, so that the first match is the most specific.
        self._by_prefix = sorted(
            ((prefix, surface) for surface in surfaces for prefix in surface.prefixes), key=lambda pair: -len(pair[0])
        )

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _require_uncompressed(request)
            return await handler(request)
        except Exception as error:
            if isinstance(error, web.HTTPException) and error.status < 400:
                raise
            problem = problem_of(error, request)
            response = self.answer(request, problem)
            if problem.status in (413, 415):  # do not read the rest of the body
                response.force_close()
            return response

    def answer(self, request: web.Request, problem: Problem) -> web.StreamResponse:
        surface = next((surface for prefix, surface in self._by_prefix if request.path.startswith(prefix)), None)
        if surface is not None and surface.error_response is not None:
            return surface.error_response(request, problem)
        body = problem.body if surface is None else surface.error_body(problem, request_id(request))
        return json_response(body, problem.status, headers=problem.headers)

    async def prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        headers["X-Request-Id"] = request_id(request)
        headers.popall("Server", None)  # aiohttp's own, with its version and Python's
        headers.update(CORS)


def _require_uncompressed(request: web.Request) -> None:
    """Raise a 415 for a compressed body before any of the body is read. This applies to unknown paths, too."""
    encodings = request.headers.getall("Content-Encoding", ())
    if any(each.strip().lower() not in ("identity", "") for each in encodings):
        problem = "only uncompressed bodies are accepted; remove this header"
        details = [{"field": "Content-Encoding", "problem": problem}]
        raise Problem(415, "invalid_request", "The request body is compressed.", extra={"details": details})


def _preflight(methods: set[str]) -> Handler:
    allowed = ", ".join(sorted(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))
    headers = {
        "Allow": allowed,
        "Cache-Control": NO_STORE,
        "Access-Control-Allow-Methods": allowed,
        "Access-Control-Allow-Headers": ALLOWED_HEADERS,
        "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    }

    async def preflight(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=204, headers=headers)

    return preflight


# ---------------------------------------------------------------- the server


@asynccontextmanager
async def serve(
    app: web.Application, host: str, port: int, *, idle_seconds: float = IDLE_SECONDS
) -> AsyncIterator[int]:
    """Serve the application until the context exits. Yield the port, which the system chooses if `port` is 0.
    Connections without a request for `idle_seconds` are closed, including connections that never sent one."""
    # No access log: it would record which wallets people look up.
    runner = Runner(
        app,
        access_log=None,
        shutdown_timeout=SHUTDOWN_SECONDS,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        keepalive_timeout=idle_seconds,
        auto_decompress=False,  # a small compressed body can inflate to any size
        lingering_time=LINGERING_SECONDS,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=BACKLOG)
        try:
            await site.start()
        except OSError as error:
            raise ConfigError(
                f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint="Set VPM_HOST or VPM_PORT."
            ) from None
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


class Runner(web.AppRunner):
    def __init__(self, app: web.Application, *, shutdown_timeout: float, **settings: Any) -> None:
        super().__init__(app, shutdown_timeout=shutdown_timeout)
        self._settings = settings

    async def _make_server(self) -> web.Server:
        return _Server(await super()._make_server(), self._settings)


class _Server(web.Server):
    def __init__(self, made: web.Server, settings: dict[str, Any]) -> None:
        def request_factory(message: Any, payload: Any, protocol: Any, *others: Any) -> web.BaseRequest:
            protocol.first_request.cancel()
            return made.request_factory(message, payload, protocol, *others)

        super().__init__(made.request_handler, request_factory=request_factory)
        self._settings = settings

    def __call__(self) -> RequestHandler:
        return ClientConnection(self, loop=asyncio.get_running_loop(), **self._settings)


class ClientConnection(RequestHandler):
    """A client's connection. A request that is not valid HTTP is refused with JSON, and its content is not logged.
    aiohttp would respond in plain text and log the content, which may include the wallet that was looked up.

    `first_request`: the timer that closes the connection if its first request does not arrive in time. aiohttp itself
    closes only idle connections that have completed a request.
    """

    __slots__ = ("first_request",)

    def __init__(self, manager: web.Server, *, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        super().__init__(manager, loop=loop, **settings)
        self.first_request = loop.call_later(settings["keepalive_timeout"], self.force_close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.first_request.cancel()
        super().connection_lost(exc)

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
        log.info("refused a malformed HTTP request", action="http.malformed", kind=kind, request_id=request_id)
        reason = "A line or a header is too long." if isinstance(exc, LineTooLong) else "It is not HTTP/1.1."
        problem = invalid(f"The request is malformed. {reason}")
        # Set because aiohttp would send its version and Python's, as with every response without a route.
        headers = {"X-Request-Id": request_id, "Server": "VPM"}
        response = json_response(problem.body, problem.status, headers=headers)
        response.force_close()
        return response
