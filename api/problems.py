"""Refusals: the exception that handlers raise, the conversion of other exceptions to it, and request ids. Each surface
renders the body of a refusal in its own format."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from core.errors import VpmError
from core.log import get_logger, request_context

log = get_logger(__name__)

# No operation accepts a larger body.
MAX_BODY_BYTES = 1024 * 1024
# The Retry-After of a 429 that sets none itself.
RETRY_SECONDS = 10


class Problem(Exception):
    """A refusal. `message`: a sentence that a person can act on. `retry_after`: seconds. `extra`: further fields of the
    body."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
        if retry_after is not None or status == 429:
            self.headers.setdefault("Retry-After", str(retry_after or RETRY_SECONDS))
        self.extra = dict(extra or {})

    @property
    def body(self) -> dict[str, Any]:
        return {"error": self.code, "message": self.message, **self.extra}


def not_found(message: str = "There is nothing at this path.") -> Problem:
    return Problem(404, "not_found", message)


def invalid(message: str, **extra: Any) -> Problem:
    return Problem(400, "invalid_request", message, extra=extra)


def invalid_part(kind: str, name: str, problem: str) -> Problem:
    """Return a 400 that names a part of a request. `kind`: the kind of the part, such as "query parameter"."""
    return invalid(part_message(kind, name, problem), details=[{"field": name, "problem": problem}])


def part_message(kind: str, name: str, problem: str) -> str:
    return f"The {kind} {name} is invalid: {problem}."


def too_large(limit: int) -> Problem:
    return Problem(413, "payload_too_large", f"The body is larger than {limit} bytes.")


def unavailable(message: str = "The service is unavailable; try again shortly.") -> Problem:
    return Problem(503, "unavailable", message, retry_after=2)


def problem_of(error: Exception, request: web.Request) -> Problem:
    """Turn an exception that a handler raised into a refusal. Unexpected errors are logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, web.HTTPException):
        return _from_aiohttp(error)
    if isinstance(error, VpmError) and error.retriable:
        log.warning(error.message, action="http.unavailable", path=request.path, code=error.code)
        return unavailable()
    with request_context(request_id(request)):
        log.error("a request handler crashed", action="http.crashed", path=request.path, exc=error)
    return Problem(500, "internal_error", "An internal error occurred and was logged; try again later.")


def _from_aiohttp(error: web.HTTPException) -> Problem:
    match error:
        case web.HTTPNotFound():
            return not_found()
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            message = f"{error.method} is not supported on this path; use {allowed}."
            return Problem(405, "method_not_allowed", message, headers={"Allow": allowed})
        case web.HTTPRequestEntityTooLarge():
            return too_large(MAX_BODY_BYTES)
        case web.HTTPUnsupportedMediaType():
            return Problem(415, "unsupported_media_type", "Send the body as JSON.")
        case _:
            return Problem(error.status, "invalid_request", f"{error.reason}.")


REQUEST_ID = web.RequestKey("request_id", str)

_prefix = secrets.token_hex(8)
_counter = itertools.count(1)


def request_id(request: web.Request) -> str:
    """Return the request's id: a random prefix for the process, followed by a counter."""
    assigned = request.get(REQUEST_ID)
    if assigned is None:
        assigned = request[REQUEST_ID] = fresh_request_id()
    return assigned


def fresh_request_id() -> str:
    return f"{_prefix}{next(_counter):08x}"
