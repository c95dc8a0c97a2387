"""A node behind a load balancer, simulated over one real chain: receipts come late, each call sees another view of the
chain's end, logs are left out, and a nonce may be wrong once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from tests.support.faulty_proxy import FaultyProxy

_STATE = {"eth_call": 1, "eth_getTransactionCount": 1, "eth_getBalance": 1, "eth_getCode": 1, "eth_estimateGas": 1}
_NOT_THERE = {"code": -32000, "message": "header not found"}


class InconsistentNode(FaultyProxy):
    """A proxy whose responses are true, but late and not always consistent.

    receipt_delay: seconds from when a receipt exists until it is returned, drawn for each transaction. views: how far
    behind the head the nodes behind it are; each call meets one of them. lag_of: how far behind the node of a certain
    call is, by its method and parameters; None: any of the views. logs_lost: the share of logs left out of a response
    to eth_getLogs, drawn anew each time. lies: what to add to each of the next responses to `eth_getTransactionCount`
    of the newest block. head_seconds: for how long a head is reused, since many calls come at once; 0 where a test
    counts the blocks between views.
    """

    def __init__(self, target: str, seed: int) -> None:
        super().__init__(target, seed)
        self.receipt_delay = (0.0, 0.0)
        self.views: tuple[int, ...] = (0,)
        self.lag_of: Callable[[str, list[Any]], int | None] = lambda _method, _params: None
        self.logs_lost = 0.0
        self.lies: list[int] = []
        self.head_seconds = 0.05
        self._missing: set[int] = set()
        self.pruned = False  # no state but the newest block's
        self.deaf = False  # a transaction sent to it is neither passed on nor answered
        self.false_answers = 0
        self.withheld = 0
        self.lost = 0
        self._since: dict[str, tuple[float, float]] = {}
        self._head = (0.0, 0)
        self._numbers: dict[str, int] = {}

    def hide(self, number: int) -> None:
        """Hide this block by number from now on, also as the head."""
        self._missing.add(number)
        self._head = (0.0, 0)

    def show(self) -> None:
        self._missing.clear()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        calls = asked if isinstance(asked, list) else [asked]
        answers = [await self._answer(call) for call in calls]
        body = orjson.dumps(answers if isinstance(asked, list) else answers[0])
        return web.Response(body=body, content_type="application/json")

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        method, params = call["method"], list(call.get("params", ()))
        if self.deaf and method == "eth_sendRawTransaction":
            await asyncio.sleep(3600)
        end = await self._end(method, params)
        newest = _STATE.get(method) is not None and params[_STATE[method] :] == ["latest"]
        refused = await self._unknown(method, params, end) or self._shifted(method, params, end)
        if refused is not None:
            return {"jsonrpc": "2.0", "id": call["id"], **refused}
        answer = await self._ask({**call, "params": params})
        result: Any = answer.get("result")
        if method == "eth_getTransactionReceipt" and result and self._hidden(params[0], result, end):
            answer["result"] = None
            self.withheld += 1
        if method == "eth_getTransactionCount" and newest and self.lies:
            answer["result"] = hex(max(0, int(result, 16) + self.lies.pop(0)))
            self.false_answers += 1
        if method == "eth_getLogs" and result and self.logs_lost:
            answer["result"] = [log for log in result if self._dice.random() >= self.logs_lost]
            self.lost += len(result) - len(answer["result"])
        return answer

    async def _end(self, method: str, params: list[Any]) -> int:
        looked, head = self._head
        if time.monotonic() - looked > self.head_seconds:
            ask = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
            head = int((await self._ask(ask))["result"], 16)
            self._head = (time.monotonic(), head)
        lag = self.lag_of(method, params)
        return max(0, head - (self._dice.choice(self.views) if lag is None else lag))

    async def _unknown(self, method: str, params: list[Any], end: int) -> dict[str, Any] | None:
        at = _STATE.get(method)
        if at is None or len(params) <= at or not isinstance(params[at], dict):
            return None
        digest = params[at]["blockHash"]
        if digest not in self._numbers:
            ask = {"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByHash", "params": [digest, False]}
            block = (await self._ask(ask)).get("result")
            self._numbers[digest] = int(block["number"], 16) if block else 0
        return {"error": _NOT_THERE} if self._numbers[digest] > end else None

    def _shifted(self, method: str, params: list[Any], end: int) -> dict[str, Any] | None:
        """Replace "latest" by this view's end, or return a response if the view does not have the block."""
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
            if at == 0 and int(params[at], 16) in self._missing:
                return {"result": None}
            if self.pruned and at == 1 and int(params[at], 16) < end - 1:
                return {"error": {"code": -32000, "message": "missing trie node"}}
        return None

    def _hidden(self, digest: str, receipt: dict[str, Any], end: int) -> bool:
        if int(receipt["blockNumber"], 16) > end:
            return True
        since, delay = self._since.setdefault(digest, (time.monotonic(), self._dice.uniform(*self.receipt_delay)))
        return time.monotonic() - since < delay

    async def _ask(self, body: dict[str, Any]) -> dict[str, Any]:
        assert self._session is not None
        async with self._session.post(self.target, json=body) as response:
            answer: dict[str, Any] = orjson.loads(await response.read())
        return answer
