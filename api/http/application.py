"""An aiohttp application made of surfaces: routes, request ids, CORS, and every error as JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aiohttp import web

from api.http.ignored_query import naming_ignored
from api.http.operation import Handler, Operation, Surface
from api.http.problem import Problem, not_found
from api.http.rendered import NO_STORE
from api.http.requests import request_id, too_large
from core.errors import VpmError
from core.log import get_logger, request_context
from core.metrics import counter, histogram
from core.money import to_json

log = get_logger(__name__)

REQUESTS = counter("vpm_http_requests", "Requests answered", ("operation", "status"))
SECONDS = histogram(
    "vpm_http_request_seconds", "Time to answer, for operations that wait for something", ("operation",)
)

# No operation takes a larger body.
MAX_BODY_BYTES = 1024 * 1024
# How long a browser may cache a preflight answer.
PREFLIGHT_SECONDS = 86_400


def application(surfaces: Sequence[Surface]) -> web.Application:
    """Build the application. The resources that its handlers use must outlive it."""
    wording = _Wording(surfaces)
    app = web.Application(middlewares=[wording.middleware], client_max_size=MAX_BODY_BYTES)
    app.on_response_prepare.append(wording.prepare)
    methods: dict[str, set[str]] = {}
    for surface in surfaces:
        for operation in surface.operations:
            methods.setdefault(operation.path, set()).add(operation.method)
            handler = instrumented(operation)
            if operation.method == "GET":
                if operation.path.startswith("/api/"):
                    handler = naming_ignored(operation, handler)
                app.router.add_get(_routed(operation.path), handler)
            else:
                app.router.add_route(operation.method, _routed(operation.path), handler)
    for path, allowed in methods.items():
        if "OPTIONS" not in allowed and "*" not in allowed:
            app.router.add_route("OPTIONS", _routed(path), _preflight(allowed, wording.surface_of(path)))
    return app


_PARAMETER = re.compile(r"\{(\w+)\}")


def _routed(path: str) -> str:
    """Return the route for a path. Parameters may contain braces, which aiohttp would not match: the operation
    explains what is wrong with a value."""
    return _PARAMETER.sub(r"{\1:[^/]+}", path)


def json_response(
    body: object, status: int = 200, *, cache_control: str = NO_STORE, headers: dict[str, str] | None = None
) -> web.Response:
    """Return a JSON answer for this request alone."""
    given = {"Cache-Control": cache_control, "X-Content-Type-Options": "nosniff", **(headers or {})}
    return web.Response(
        body=to_json(body), status=status, headers=given, content_type="application/json", charset="utf-8"
    )


def unavailable(message: str = "The service cannot answer this now; try again shortly.") -> Problem:
    return Problem(503, "unavailable", message, headers={"Retry-After": "2"})


class _Wording:
    """The middleware that renders errors as the path's surface does, and sets the headers of every answer."""

    def __init__(self, surfaces: Sequence[Surface]) -> None:
        # Longest prefix first, so that the first match is the most specific.
        self._by_prefix = sorted(
            ((prefix, surface) for surface in surfaces for prefix in surface.prefixes), key=lambda pair: -len(pair[0])
        )

    def surface_of(self, path: str) -> Surface | None:
        for prefix, surface in self._by_prefix:
            if path.startswith(prefix):
                return surface
        return None

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
        surface = self.surface_of(request.path)
        if surface is not None and surface.error_response is not None:
            return surface.error_response(request, problem)
        body = problem.body if surface is None else surface.error_body(problem, request_id(request))
        return json_response(body, problem.status, headers=problem.headers)

    async def prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        headers = response.headers
        headers["X-Request-Id"] = request_id(request)
        headers.popall("Server", None)  # aiohttp's own, with its version and Python's
        surface = self.surface_of(request.path)
        if surface is not None:
            headers.update(surface.cors.headers)


def _require_uncompressed(request: web.Request) -> None:
    """Raise 415 for a compressed body before reading any of it, on known and unknown paths."""
    given = request.headers.getall("Content-Encoding", ())
    if any(each.strip().lower() not in ("identity", "") for each in given):
        raise Problem(
            415,
            "invalid_request",
            "The request's body is compressed.",
            extra={
                "details": [
                    {"field": "Content-Encoding", "problem": "only uncompressed bodies are taken; leave the header out"}
                ]
            },
        )


def instrumented(operation: Operation) -> Handler:
    """Return the operation's handler, counted in the metrics."""
    return _traced(operation) if operation.timed else _counted(operation)


def problem_of(error: Exception, request: web.Request) -> Problem:
    """Turn what a handler raised into the refusal that the caller gets, and log unexpected errors."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, web.HTTPException):
        return _problem_of_http(error)
    if isinstance(error, VpmError) and error.retriable:
        log.warning(error.message, action="http.unavailable", path=request.path, code=error.code)
        return unavailable()
    with request_context(request_id(request)):
        log.error("a handler raised", action="http.crashed", path=request.path, exc=error)
    return Problem(500, "internal_error", "Something broke on our side; it has been recorded.")


def _problem_of_http(refusal: web.HTTPException) -> Problem:
    match refusal:
        case web.HTTPNotFound():
            return not_found()
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(refusal.allowed_methods))
            return Problem(
                405,
                "method_not_allowed",
                f"This path does not take {refusal.method}; it takes {allowed}.",
                headers={"Allow": allowed},
            )
        case web.HTTPRequestEntityTooLarge():
            return too_large(MAX_BODY_BYTES)
        case web.HTTPUnsupportedMediaType():
            return Problem(415, "unsupported_media_type", "Send the body as JSON.")
        case _:
            return Problem(refusal.status, "invalid_request", f"{refusal.reason}.")


def _counted(operation: Operation) -> Handler:
    handler, counts = operation.handler, {200: REQUESTS.labels(operation.id, "200")}

    async def counted(request: web.Request) -> web.StreamResponse:
        status = 500
        try:
            response = await handler(request)
            status = response.status
            return response
        except Problem as problem:
            status = problem.status
            raise
        finally:
            count = counts.get(status)
            if count is None:
                count = counts[status] = REQUESTS.labels(operation.id, str(status))
            count.inc()

    return counted


def _traced(operation: Operation) -> Handler:
    """Count and time a request, with its id in the log: for operations that wait for something."""
    counted, seconds = _counted(operation), SECONDS.labels(operation.id)

    async def traced(request: web.Request) -> web.StreamResponse:
        with request_context(request_id(request)), seconds.time():
            return await counted(request)

    return traced


def _preflight(methods: set[str], surface: Surface | None) -> Handler:
    allowed = ", ".join(sorted(methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())))
    headers = {"Allow": allowed, "Cache-Control": NO_STORE}
    if surface is not None:
        headers |= {
            "Access-Control-Allow-Methods": allowed,
            "Access-Control-Allow-Headers": ", ".join(surface.cors.allow_headers),
            "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
        }

    async def preflight(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=204, headers=headers)

    return preflight
