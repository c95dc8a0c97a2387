"""A node behind a load balancer, made from one real chain: receipts come late, each call is answered from another view
of the chain's end, and a nonce may be told wrongly once."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

_STATE = {"eth_call": 1, "eth_getTransactionCount": 1, "eth_getBalance": 1, "eth_getCode": 1, "eth_estimateGas": 1}
_NOT_THERE = {"code": -32000, "message": "header not found"}


@dataclass
class HazyNode:
    """receipt_delay: seconds from when a receipt exists until it is given, drawn for each transaction. views: how far
    behind the head the nodes behind it stand; each call meets one of them. lies: what to add to the next answers to
    `eth_getTransactionCount` of the newest block, one each."""

    target: str
    chance: random.Random
    receipt_delay: tuple[float, float] = (0.0, 0.0)
    views: tuple[int, ...] = (0,)
    lies: list[int] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)  # blocks it does not have when asked by number
    pruned: bool = False  # no state but the newest block's
    told_lies: int = 0
    withheld: int = 0
    port: int = 0
    _since: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        calls = asked if isinstance(asked, list) else [asked]
        async with aiohttp.ClientSession() as session:
            answers = [await self._answer(session, call) for call in calls]
        body = orjson.dumps(answers if isinstance(asked, list) else answers[0])
        return web.Response(body=body, content_type="application/json")

    async def _answer(self, session: aiohttp.ClientSession, call: dict[str, Any]) -> dict[str, Any]:
        method, params = call["method"], list(call.get("params", ()))
        end = await self._end(session)
        newest = _STATE.get(method) is not None and params[_STATE[method] :] == ["latest"]
        refused = self._shifted(method, params, end)
        if refused is not None:
            return {"jsonrpc": "2.0", "id": call["id"], **refused}
        answer = await _ask(session, self.target, {**call, "params": params})
        result: Any = answer.get("result")
        if method == "eth_getTransactionReceipt" and result and self._hidden(params[0], result, end):
            answer["result"] = None
            self.withheld += 1
        if method == "eth_getTransactionCount" and newest and self.lies:
            answer["result"] = hex(max(0, int(result, 16) + self.lies.pop(0)))
            self.told_lies += 1
        return answer

    async def _end(self, session: aiohttp.ClientSession) -> int:
        ask = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
        return max(0, int((await _ask(session, self.target, ask))["result"], 16) - self.chance.choice(self.views))

    def _shifted(self, method: str, params: list[Any], end: int) -> dict[str, Any] | None:
        """Puts this view's end in the place of "latest"; an answer when the view has no such block."""
        if method == "eth_blockNumber":
            return {"result": hex(end)}
        at = 0 if method in ("eth_getBlockByNumber", "eth_getBlockReceipts") else _STATE.get(method)
        if at is None or len(params) <= at or not isinstance(params[at], str):
            return None
        if params[at] == "latest":
            params[at] = hex(end)
        elif params[at].startswith("0x") and len(params[at]) < 66:
            if int(params[at], 16) > end:
                return {"result": None} if at == 0 else {"error": _NOT_THERE}
            if at == 0 and int(params[at], 16) in self.hidden:
                return {"result": None}
            if self.pruned and at == 1 and int(params[at], 16) < end - 1:
                return {"error": {"code": -32000, "message": "missing trie node"}}
        return None

    def _hidden(self, digest: str, receipt: dict[str, Any], end: int) -> bool:
        if int(receipt["blockNumber"], 16) > end:
            return True
        since, delay = self._since.setdefault(digest, (time.monotonic(), self.chance.uniform(*self.receipt_delay)))
        return time.monotonic() - since < delay


async def _ask(session: aiohttp.ClientSession, target: str, body: dict[str, Any]) -> dict[str, Any]:
    async with session.post(target, json=body) as response:
        answer: dict[str, Any] = orjson.loads(await response.read())
    return answer


@contextlib.asynccontextmanager
async def hazy_node(target: str, seed: int) -> AsyncIterator[HazyNode]:
    node = HazyNode(target, random.Random(seed))
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/", node.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    node.port = runner.addresses[0][1]
    try:
        yield node
    finally:
        await asyncio.shield(runner.cleanup())
