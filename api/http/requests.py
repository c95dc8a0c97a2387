"""Reading a request into the models that describe it; what does not fit is a 400, 413 or 415 with a usable sentence."""

from __future__ import annotations

import itertools
import secrets
from typing import Any, TypeVar

import orjson
from aiohttp import web
from pydantic import BaseModel, ValidationError

from api.http.problem import Problem, invalid

M = TypeVar("M", bound=BaseModel)

REQUEST_ID = web.RequestKey("request_id", str)

_prefix = secrets.token_hex(8)
_counter = itertools.count(1)


def request_id(request: web.Request) -> str:
    """This request's id: random per process, counted within it."""
    known = request.get(REQUEST_ID)
    if known is None:
        known = request[REQUEST_ID] = fresh_request_id()
    return known


def fresh_request_id() -> str:
    return f"{_prefix}{next(_counter):08x}"


def read_query(request: web.Request, model: type[M]) -> M:
    """The query string; a parameter given twice is refused, one nobody asked for is ignored."""
    given: dict[str, str] = {}
    for name, value in request.query.items():
        if name in given and name in model.model_fields:
            raise invalid(f"The query parameter {name} is given twice.")
        given[name] = value
    known = {field.alias or name for name, field in model.model_fields.items()}
    return _validated(model, {name: value for name, value in given.items() if name in known}, "query parameter")


def read_path(request: web.Request, model: type[M]) -> M:
    return _validated(model, dict(request.match_info), "path parameter")


async def read_json(request: web.Request, *, limit: int) -> Any:
    """The body as parsed JSON. 415 for another content type, 413 beyond `limit` bytes, 400 for what is not JSON."""
    if request.content_type != "application/json":
        raise Problem(
            415, "unsupported_media_type", "Send the body as JSON, with the header Content-Type: application/json."
        )
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(limit)
    body = await request.read()
    if len(body) > limit:
        raise too_large(limit)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The body is not JSON: {error}.") from None


def validated_body(model: type[M], content: Any) -> M:
    """Parsed JSON as the model; an object that does not fit names the field and what is wrong with it."""
    if not isinstance(content, dict):
        raise invalid("The body must be a JSON object.")
    return _validated(model, content, "field")


def too_large(limit: int) -> Problem:
    return Problem(413, "payload_too_large", f"The body is larger than {limit} bytes.")


def _validated(model: type[M], values: dict[str, Any], what: str) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [
            {"field": ".".join(str(part) for part in each["loc"]), "problem": _sentence(each["msg"])}
            for each in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        first = problems[0]
        raise invalid(
            f"The {what} {first['field'] or 'given'} is wrong: {first['problem']}.", details=problems
        ) from None


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]
