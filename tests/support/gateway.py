"""A gateway in front of a service: passes calls on and answers some itself, as proxies and firewalls do."""

from __future__ import annotations

import contextlib
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
    """What a gateway says instead of the service; CUT_OFF says nothing. passes_on: the service has had the call all the
    same."""

    status: int
    body: dict[str, Any] | str = "<html>a page of something else</html>"
    passes_on: bool = False


@dataclass
class Gateway:
    """A gateway before a service. `rule` is asked of each call: None where it is the service's to answer. `paid`: the
    payments that came by."""

    rule: Callable[[web.BaseRequest], Answer | None]
    url: str = ""
    paid: list[str] = field(default_factory=list)


@contextlib.asynccontextmanager
async def gateway(service: str, rule: Callable[[web.BaseRequest], Answer | None]) -> AsyncIterator[Gateway]:
    made = Gateway(rule)
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def pass_on(request: web.BaseRequest) -> web.Response:
            headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Content-Length")}
            content = await request.read()
            async with session.request(
                request.method, service + request.path_qs, data=content, headers=headers
            ) as answer:
                body = await answer.read()
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
            if instead is None:
                return await pass_on(request)
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
