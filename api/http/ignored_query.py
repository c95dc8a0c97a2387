"""Reporting unknown query parameters in the answer, so that a misspelt one is noticed."""

from __future__ import annotations

import difflib
from collections.abc import Collection

import orjson
from aiohttp import web
from multidict import CIMultiDict

from api.http.operation import Handler, Operation
from api.http.rendered import Rendered, SharedAnswer

_MAX_NAMES, _MAX_CHARACTERS = 10, 64
_META = b'{"meta":{'
_CONDITIONS = ("accept-encoding", "if-none-match")


def naming_ignored(operation: Operation, handler: Handler) -> Handler:
    """Add `ignoredQuery` to a JSON answer, within `meta` if it has one, when the request has unknown parameters."""
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
        return _named(request, await handler(request.clone(headers=whole)), unknown, names)

    return handle


def _named(
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
    kept = {
        name: response.headers[name] for name in ("Cache-Control", "X-Content-Type-Options") if name in response.headers
    }
    return web.Response(body=body, headers=kept, content_type="application/json", charset="utf-8")


def _nearest(name: str, names: Collection[str]) -> str | None:
    lowered = {each.lower(): each for each in names}
    nearest = difflib.get_close_matches(name[:_MAX_CHARACTERS].lower(), list(lowered), n=1, cutoff=0.6)
    return lowered[nearest[0]] if nearest else None
