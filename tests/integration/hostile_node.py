"""A JSON-RPC node that misbehaves on demand: each request is answered by the next entry of a script."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.serving import serving

Reply = Callable[[Any], "web.StreamResponse | Any"]


@dataclass
class HostileNode:
    """A node that answers `eth_chainId` truthfully by default, everything else by `replies`, the last one
    repeating."""

    chain_id: int = 31337
    replies: list[Any] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    url: str = ""

    @property
    def methods(self) -> list[str]:
        asked = [item["method"] if isinstance(item, dict) else "batch" for item in self.seen]
        return [method for method in asked if method != "eth_chainId"]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.seen.append(body)
        if isinstance(body, dict) and body["method"] == "eth_chainId":
            return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": hex(self.chain_id)})
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        answer = reply(body) if callable(reply) else reply
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        return web.json_response({"jsonrpc": "2.0", "id": body["id"], "result": answer})


def refuse(code: int, message: str, data: Any = None) -> Reply:
    error = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return lambda body: web.json_response({"jsonrpc": "2.0", "id": _id(body), "error": error})


def status(code: int, text: str = "", headers: dict[str, str] | None = None) -> Reply:
    return lambda body: web.Response(status=code, text=text, headers=headers)


def raw(text: str) -> Reply:
    return lambda body: web.Response(text=text, content_type="application/json")


def silence(seconds: float) -> Reply:
    async def answer(body: Any) -> Any:
        await asyncio.sleep(seconds)
        return "0x1"

    return answer


def each(answer: Callable[[dict[str, Any]], dict[str, Any]], *, shuffled: bool = False) -> Reply:
    """A batch, item by item: `answer(request)` gives {"result": ...} or {"error": ...}, or {} to leave it out."""

    def reply(body: Any) -> web.Response:
        items = [{"jsonrpc": "2.0", "id": request["id"], **found} for request in body if (found := answer(request))]
        return web.json_response(list(reversed(items)) if shuffled else items)

    return reply


def hang_up(body: Any) -> Any:
    async def answer() -> web.StreamResponse:
        response = web.Response(headers={"Content-Length": "1000"}, text="{")
        response.force_close()
        return response

    return answer()


def _id(body: Any) -> Any:
    return body["id"] if isinstance(body, dict) else None


@asynccontextmanager
async def hostile_node(*replies: Any, chain_id: int = 31337) -> AsyncIterator[HostileNode]:
    node = HostileNode(chain_id=chain_id, replies=list(replies))
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/", node.handle)
    async with serving(app) as node.url:
        yield node
