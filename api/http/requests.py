"""Parsing requests into their models, and the 400, 408, 413 and 415 for those that do not fit."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic_core import ErrorDetails

from api.http.limits import ConcurrencyLimiter, NoPlace
from api.http.problem import Problem, invalid, invalid_part
from core.money import loads

M = TypeVar("M", bound=BaseModel)


def _whole(value: object) -> object:
    # Bounded to what fields take: the integer of a large exponent would be huge.
    if isinstance(value, float | Decimal) and -(2**63) < value < 2**63 and value == int(value):
        return int(value)
    return value


# For strict integers: JSON does not distinguish `1.0` from `1`.
WHOLE = BeforeValidator(_whole)

REQUEST_ID = web.RequestKey("request_id", str)

_prefix = secrets.token_hex(8)
_counter = itertools.count(1)


def request_id(request: web.Request) -> str:
    """Return the request's id: a random prefix for the process, then a counter."""
    assigned = request.get(REQUEST_ID)
    if assigned is None:
        assigned = request[REQUEST_ID] = fresh_request_id()
    return assigned


def fresh_request_id() -> str:
    return f"{_prefix}{next(_counter):08x}"


def read_query(request: web.Request, model: type[M]) -> M:
    """Parse the query string. A repeated parameter is refused, an unknown one ignored."""
    given: dict[str, str] = {}
    names = {field.alias or name for name, field in model.model_fields.items()}
    for name, value in request.query.items():
        if name not in names:
            continue
        if name in given:
            raise invalid_part("query parameter", name, "it is given twice")
        given[name] = value
    return _validated(model, given, "query parameter")


def read_path(request: web.Request, model: type[M]) -> M:
    return _validated(model, dict(request.match_info), "path parameter")


async def read_json(request: web.Request, *, limit: int, exact: bool = False) -> Any:
    """Parse the body as JSON. 415 for another content type, 413 beyond `limit` bytes, 400 for invalid JSON.
    exact: keep numbers as written, since an amount must not pass through a binary float."""
    body = await read_body(request, limit=limit)
    try:
        content = loads(body) if exact else orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The body is not JSON: {error}.", details=in_body("is not JSON")) from None
    except ValueError as error:
        raise invalid(f"The body is {error}.", details=in_body("is not JSON")) from None
    check_named_once(body)
    return content


async def read_body(request: web.Request, *, limit: int) -> bytes:
    """Return a JSON body unparsed. 415 for another content type, 413 beyond `limit` bytes."""
    if request.content_type != "application/json":
        raise Problem(
            415, "unsupported_media_type", "Send the body as JSON, with the header Content-Type: application/json."
        )
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(limit)
    body = await whole_body(request)
    if len(body) > limit:
        raise too_large(limit)
    return body


def check_named_once(body: bytes) -> None:
    """Refuse JSON in which an object has a field twice, since parsers differ in which of the two they use."""
    try:
        json.loads(body, object_pairs_hook=_pairs, parse_int=str, parse_float=str)
    except _NamedTwice as twice:
        raise invalid(
            f"The body names {twice.name!r} twice.", details=[{"field": twice.name, "problem": "is given twice"}]
        ) from None
    except RecursionError:
        raise invalid("The body is nested too deeply.", details=in_body("is nested too deeply")) from None


class _NamedTwice(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name[:64]


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise _NamedTwice(name)
        values[name] = value
    return values


def in_body(what: str) -> list[dict[str, str]]:
    """Return a list of problems with one that concerns the whole body."""
    return [{"field": "body", "problem": what}]


def validated_body(model: type[M], content: Any, *, context: dict[str, Any] | None = None) -> M:
    """Validate parsed JSON as the model; the refusal names the field and what is wrong. context: further input for the
    model's validators."""
    if not isinstance(content, dict):
        raise invalid("The body must be a JSON object.", details=in_body("must be a JSON object"))
    return _validated(model, content, "field", context)


def too_large(limit: int) -> Problem:
    return Problem(413, "payload_too_large", f"The body is larger than {limit} bytes.")


def _validated(model: type[M], values: dict[str, Any], what: str, context: dict[str, Any] | None = None) -> M:
    try:
        return model.model_validate(values, context=context)
    except ValidationError as error:
        raise unfit(error, what) from None


# The patterns of the request models in words, for error messages.
FORMS = {
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


def unfit(error: ValidationError, what: str) -> Problem:
    """Return a 400 that names each invalid field and what it must be. `what`: the kind of part, such as "field"."""
    problems = [
        {"field": ".".join(str(part) for part in each["loc"]) or "body", "problem": _sentence(each)}
        for each in error.errors(include_url=False, include_input=False)
    ]
    first = problems[0]
    return invalid(f"The {what} {first['field']} is wrong: {first['problem']}.", details=problems)


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "string_pattern_mismatch":
        return FORMS.get(error["ctx"]["pattern"], "does not match the documented format")
    text = error["msg"].removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]


# For a whole body; the largest that an operation takes is 64 KiB.
BODY_SECONDS = 10.0
MAX_BODIES = 2_000
MAX_BODIES_EACH = 32


class BodyTimeout:
    """The time limit for request bodies, and the limit on how many are awaited at once.

    Announcing a body and not sending it costs the sender nothing, and us a connection and the bytes received. caller:
    returns who sent a request.
    """

    def __init__(self, caller: Callable[[web.Request], str]) -> None:
        self._caller = caller
        self._places = ConcurrencyLimiter(MAX_BODIES, MAX_BODIES_EACH)

    async def read(self, request: web.Request) -> bytes:
        try:
            with self._places.taken(self._caller(request)):
                return await _in_time(request)
        except NoPlace as none:
            raise none.refusal(
                f"At most {MAX_BODIES_EACH} unfinished request bodies are accepted from one address, and a third of "
                "all from one network.",
                "Too many request bodies are unfinished.",
                code="unavailable",
                seconds=round(BODY_SECONDS),
            ) from None


BODY_TIMEOUT = web.AppKey("arriving", BodyTimeout)


async def whole_body(request: web.Request) -> bytes:
    """Return the body of a request. 408 if it does not arrive, 429 if too many of the caller's are unfinished."""
    if request.content.is_eof():  # nearly always
        return await request.read()
    arriving = request.app.get(BODY_TIMEOUT)
    return await (_in_time(request) if arriving is None else arriving.read(request))


async def _in_time(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise Problem(408, "invalid_request", f"The body did not arrive within {BODY_SECONDS:g} s.") from None
