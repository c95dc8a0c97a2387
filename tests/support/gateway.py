"""A gateway in front of a service, which passes calls on, or responds itself or changes responses, as proxies do."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from tests.support.serving import serving

CUT_OFF = 599
"""The connection ends instead of an answer."""


@dataclass(frozen=True)
class Answer:
    """A response that the gateway gives instead of the service; CUT_OFF gives none. passes_on: whether the service
    still gets the call."""

    status: int
    body: dict[str, Any] | str = "<html>a page of something else</html>"
    passes_on: bool = False


@dataclass(frozen=True)
class Change:
    status: int
    change: Callable[[Any], object]


# The gateway's action for a call; None passes it on unchanged.
Rule = Callable[[web.BaseRequest], Answer | Change | None]


@dataclass
class Gateway:
    """A running gateway. `paid`: the payments that passed through it."""

    url: str = ""
    paid: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def gateway(service: str, rule: Rule) -> AsyncIterator[Gateway]:
    made = Gateway()
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def pass_on(request: web.BaseRequest, changed: Change | None = None) -> web.Response:
            headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Content-Length")}
            content = await request.read()
            async with session.request(
                request.method, service + request.path_qs, data=content, headers=headers
            ) as answer:
                body = await answer.read()
                if changed is not None and answer.status == changed.status:
                    content = json.loads(gzip.decompress(body) if "Content-Encoding" in answer.headers else body)
                    changed.change(content)
                    return web.json_response(content, status=answer.status)
                kept = {
                    name: value
                    for name, value in answer.headers.items()
                    if name not in ("Content-Length", "Transfer-Encoding", "Date", "Server")
                }
                return web.Response(status=answer.status, body=body, headers=kept)

        async def answered(request: web.BaseRequest) -> web.Response:
            if "X-PAYMENT" in request.headers:
                made.paid.append(request.headers["X-PAYMENT"])
            instead = rule(request)
            if instead is None or isinstance(instead, Change):
                return await pass_on(request, instead)
            if instead.passes_on:
                await pass_on(request)
            if instead.status == CUT_OFF:
                assert request.transport is not None
                request.transport.abort()
            if isinstance(instead.body, str):
                return web.Response(status=instead.status, text=instead.body, content_type="text/html")
            return web.Response(status=instead.status, text=json.dumps(instead.body), content_type="application/json")

        async with serving(web.Server(answered, access_log=None)) as made.url:
            yield made
