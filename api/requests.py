"""Parses the queries, paths and bodies of requests into models, and refuses invalid ones with a 400, 408, 413 or 415.
Unknown query parameters are reported in the response, so that a misspelt one is noticed."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any, TypeVar

import orjson
from aiohttp import web
from multidict import CIMultiDict
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails

from api.caching import Rendered, SharedAnswer
from api.limits import ConcurrencyLimiter, LimiterFull
from api.operations import Handler, Operation
from api.problems import Problem, invalid, invalid_part, part_message, too_large
from core.money import loads

M = TypeVar("M", bound=BaseModel)


def _whole(value: object) -> object:
    # Bounded by the range of fields: the integer of a large exponent would be huge.
    if isinstance(value, float | Decimal) and -(2**63) < value < 2**63 and value == int(value):
        return int(value)
    return value


# For strict integers: JSON does not distinguish `1.0` from `1`.
WHOLE = BeforeValidator(_whole)


def read_query(request: web.Request, model: type[M]) -> M:
    """Parse the query. Refuse repeated parameters; ignore unknown ones."""
    values: dict[str, str] = {}
    names = {field.alias or name for name, field in model.model_fields.items()}
    for name, value in request.query.items():
        if name not in names:
            continue
        if name in values:
            raise invalid_part("query parameter", name, "is given twice")
        values[name] = value
    return _validated(model, values, "query parameter")


def read_path(request: web.Request, model: type[M]) -> M:
    return _validated(model, dict(request.match_info), "path parameter")


async def read_json(request: web.Request, *, limit: int, exact: bool = False) -> Any:
    """Parse the body as JSON. Raise a 400 for invalid JSON or duplicate fields, or a refusal from `read_body`. `exact`:
    whether numbers keep their digits as written. Amounts need this, because they must not pass through binary floats.
    """
    body = await read_body(request, limit=limit)
    try:
        content = loads(body) if exact else orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The body is not JSON: {error}.", details=body_details("is not JSON")) from None
    except ValueError as error:
        raise invalid(f"The body is {error}.", details=body_details("is not JSON")) from None
    reject_duplicate_fields(body)
    return content


async def read_body(request: web.Request, *, limit: int) -> bytes:
    """Return a JSON body. Raise a 415 for another content type and a 413 for more than `limit` bytes."""
    if request.content_type != "application/json":
        raise Problem(
            415, "unsupported_media_type", "Send the body as JSON, with the header Content-Type: application/json."
        )
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(limit)
    body = await receive_body(request)
    if len(body) > limit:
        raise too_large(limit)
    return body


def reject_duplicate_fields(body: bytes) -> None:
    """Refuse JSON in which an object contains the same field twice, because parsers differ in which of the two they
    use."""
    try:
        json.loads(body, object_pairs_hook=_reject_duplicates, parse_int=str, parse_float=str)
    except RecursionError:
        raise invalid("The body is nested too deeply.", details=body_details("is nested too deeply")) from None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            details = [{"field": name[:64], "problem": "is given twice"}]
            raise invalid(f"The body has the field {name[:64]!r} twice.", details=details)
        names.add(name)


def body_details(problem: str) -> list[dict[str, str]]:
    return [{"field": "body", "problem": problem}]


def validated_body(model: type[M], content: Any, *, context: dict[str, Any] | None = None) -> M:
    """Validate parsed JSON. `context`: further input for the model's validators."""
    if not isinstance(content, dict):
        raise invalid("The body must be a JSON object.", details=body_details("must be a JSON object"))
    return _validated(model, content, "field", context)


def _validated(model: type[M], values: dict[str, Any], kind: str, context: dict[str, Any] | None = None) -> M:
    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        raise validation_problem(error, kind) from None


# The patterns of request models in words, for error messages.
PATTERNS = {
    r"^0x[0-9a-fA-F]{40}$": "must be 0x and 40 hexadecimal digits",
    r"^0x[0-9a-f]{40}$": "must be 0x and 40 hexadecimal digits",
    r"^0[xX][0-9a-fA-F]{40}$": "must be 0x and 40 hexadecimal digits",
    r"^0x[0-9a-fA-F]{64}$": "must be 0x and 64 hexadecimal digits",
    r"^(0[xX])?[0-9a-fA-F]{64}$": "must be 64 hexadecimal digits, with or without 0x",
    r"^(0[xX])?([0-9a-fA-F]{2}){1,2048}$": "must be bytes as hexadecimal digits, with or without 0x",
    r"^[A-Za-z0-9:_-]{1,32}$": "must be 1 to 32 letters, digits, colons, underscores and hyphens",
    r"^[!-~]{1,128}$": "must be 1 to 128 characters of ASCII without spaces",
    r"^[0-9A-Z:+. -]{10,40}$": "must be ISO-8601 with an offset, like 2026-11-21T12:00:00Z",
    r"^(0|[1-9][0-9]*)$": "must be a whole number without leading zeros, as text",
    r"^(0|[1-9][0-9]{0,77})$": "must be a whole number below 2^256 without leading zeros, as text",
    r"^[1-9][0-9]{0,18}$": "must be a whole number above 0 without leading zeros",
    r"^[1-9][0-9]{0,77}$": "must be a whole number above 0 without leading zeros, as text",
}


def validation_problem(error: ValidationError, kind: str) -> Problem:
    """Return a 400 that says what each invalid field must be. `kind`: the kind of the parts, such as "field"."""
    problems = [
        {"field": ".".join(str(part) for part in each["loc"]) or "body", "problem": _sentence(each)}
        for each in error.errors(include_url=False, include_input=False)
    ]
    first = problems[0]
    return invalid(part_message(kind, first["field"], first["problem"]), details=problems)


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "string_pattern_mismatch":
        return PATTERNS.get(error["ctx"]["pattern"], "does not match the documented format")
    text = error["msg"].removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]


# For a whole body; the largest that an operation accepts is 64 KiB.
BODY_SECONDS = 10.0
MAX_BODIES = 2_000
MAX_BODIES_EACH = 32


class BodyTimeout:
    """A limit on how long a request body may take to arrive, and on how many bodies are received at once. Announcing a
    body without sending it costs the sender nothing, but occupies a connection."""

    def __init__(self, caller: Callable[[web.Request], str]) -> None:
        self._caller = caller
        self._places = ConcurrencyLimiter(MAX_BODIES, MAX_BODIES_EACH)

    async def read(self, request: web.Request) -> bytes:
        try:
            with self._places.place(self._caller(request)):
                return await _in_time(request)
        except LimiterFull as full:
            raise full.refusal(
                f"At most {MAX_BODIES_EACH} request bodies may be in transit from one address, and at most a third of "
                "all bodies from one network.",
                "Too many request bodies are in transit.",
                code="unavailable",
                seconds=round(BODY_SECONDS),
            ) from None


BODY_TIMEOUT = web.AppKey("body_timeout", BodyTimeout)


async def receive_body(request: web.Request) -> bytes:
    """Return the body. Raise a 408 if it does not arrive in time, or a 429 if its caller has too many in transit."""
    if request.content.is_eof():  # nearly always
        return await request.read()
    limit = request.app.get(BODY_TIMEOUT)
    return await (_in_time(request) if limit is None else limit.read(request))


async def _in_time(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise Problem(408, "invalid_request", f"The body did not arrive within {BODY_SECONDS:g} s.") from None


# ---------------------------------------------------------------- unknown query parameters

_MAX_NAMES, _MAX_CHARACTERS = 10, 64
_META = b'{"meta":{'
_CONDITIONS = ("accept-encoding", "if-none-match")


def report_unknown_parameters(operation: Operation, handler: Handler) -> Handler:
    """Return a handler that reports unknown query parameters as `ignoredQuery` in its JSON body. The field goes into
    the body's `meta` object if there is one."""
    fields = {} if operation.query is None else operation.query.model_fields
    names = {field.alias or name for name, field in fields.items()}

    async def handle(request: web.Request) -> web.StreamResponse:
        if not request.query_string:  # the usual case
            return await handler(request)
        unknown = [each for each in dict.fromkeys(request.query) if each not in names]
        if not unknown:
            return await handler(request)
        # Ask for the whole, uncompressed body: it is about to be changed.
        whole = CIMultiDict(pair for pair in request.headers.items() if pair[0].lower() not in _CONDITIONS)
        return _add_unknown(request, await handler(request.clone(headers=whole)), unknown, names)

    return handle


def _add_unknown(
    request: web.Request, response: web.StreamResponse, unknown: list[str], names: Collection[str]
) -> web.StreamResponse:
    body = response.body if isinstance(response, web.Response | SharedAnswer) else None
    if not isinstance(body, bytes) or response.status != 200 or response.content_type != "application/json":
        return response
    ignored = [{"name": each[:_MAX_CHARACTERS], "nearest": _nearest(each, names)} for each in unknown[:_MAX_NAMES]]
    start = next((each for each in (_META, b"{") if body.startswith(each)), b"")
    if not start:
        return response
    # Inserted at the front, so that the digits of the rendered numbers stay as they are.
    added = b'"ignoredQuery":' + orjson.dumps(ignored) + (b"" if body[len(start) :].startswith(b"}") else b",")
    body = start + added + body[len(start) :]
    if "ETag" in response.headers:
        return Rendered(body, response.headers["Cache-Control"]).response(request)
    headers = {
        name: response.headers[name] for name in ("Cache-Control", "X-Content-Type-Options") if name in response.headers
    }
    return web.Response(body=body, headers=headers, content_type="application/json", charset="utf-8")


def _nearest(name: str, names: Collection[str]) -> str | None:
    lowered = {each.lower(): each for each in names}
    nearest = difflib.get_close_matches(name[:_MAX_CHARACTERS].lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[nearest[0]] if nearest else None
