"""A node as a provider sells it: the chain's responses over HTTP, which are late, behind, missing or wrong at times."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web
from eth_utils.crypto import keccak

from tests.simulator.chain import SimulatedChain
from tests.simulator.loop import NOTE

# Where a method's block stands among its parameters.
_AT = {
    "eth_call": 1,
    "eth_getTransactionCount": 1,
    "eth_getBalance": 1,
    "eth_getCode": 1,
    "eth_estimateGas": 1,
    "eth_getBlockByNumber": 0,
    "eth_getBlockReceipts": 0,
}
_BLOCKS = ("eth_getBlockByNumber", "eth_getBlockReceipts")
_NOT_THERE = {"code": -32000, "message": "header not found"}
_UNWELL = (
    {"code": -32603, "message": "Internal error"},
    {"code": -32005, "message": "limit exceeded"},
    {"code": -32000, "message": "request timed out"},
)


@dataclass
class Mood:
    """How a node behaves for a while. The numbers are shares of all calls, except `lag`, in blocks."""

    lag: int = 0
    error: float = 0.0  # an error object in place of an answer
    refuse: float = 0.0  # HTTP 503 or 429 to the whole request
    silent: float = 0.0  # the request is taken, and never answered
    cut: float = 0.0  # the connection breaks after the request was served
    swallow: float = 0.0  # a broadcast is answered with its hash and not passed on
    unsaid: float = 0.0  # a broadcast is passed on and answered with an error
    no_receipt: float = 0.0  # "not found" about a receipt that exists
    logs_lost: float = 0.0  # a log is left out of an answer


WELL = Mood()


def moody(dice: random.Random, roughness: float) -> Mood:
    if dice.random() > roughness:
        return Mood(lag=dice.choice((0, 0, 0, 1)))
    made = Mood(lag=dice.choice((0, 0, 1, 2, 3)))
    for name in dice.sample(
        ("error", "refuse", "silent", "cut", "swallow", "unsaid", "no_receipt", "logs_lost"), dice.randint(1, 2)
    ):
        setattr(made, name, dice.choice((0.02, 0.1, 0.3)))
    return made


class SimulatedNode:
    def __init__(self, chain: SimulatedChain, dice: random.Random, *, is_whole: bool = True) -> None:
        self._is_whole = is_whole
        self.chain = chain
        self.mood = WELL
        self._dice = dice
        self.counts: dict[str, int] = {}

    async def start(self, port: int) -> str:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/", self._serve)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{port}"

    async def change(self, roughness: float) -> None:
        while True:
            await asyncio.sleep(self._dice.uniform(2, 20))
            self.mood = moody(self._dice, roughness)
            if self._is_whole:
                self.mood.logs_lost = 0.0

    def _happens(self, what: str) -> bool:
        share = getattr(self.mood, what)
        if share and self._dice.random() < share:
            self.counts[what] = self.counts.get(what, 0) + 1
            return True
        return False

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        asked = orjson.loads(await request.read())
        if self._happens("refuse"):
            return web.Response(status=self._dice.choice((503, 429, 502)), text="busy")
        if self._happens("silent"):
            await asyncio.sleep(3600)
        calls = asked if isinstance(asked, list) else [asked]
        await asyncio.sleep(self._dice.uniform(0.001, 0.03))
        answers = [self._answer(call) for call in calls]
        if self._happens("cut"):
            assert request.transport is not None
            request.transport.abort()
        body = orjson.dumps(answers if isinstance(asked, list) else answers[0])
        return web.Response(body=body, content_type="application/json")

    def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        NOTE[0]("chain", call["method"])
        said = self._said(call["method"], list(call.get("params", ())))
        return {"jsonrpc": "2.0", "id": call["id"], **said}

    def _said(self, method: str, params: list[Any]) -> dict[str, Any]:
        if self._happens("error"):
            return {"error": self._dice.choice(_UNWELL)}
        end = max(0, self.chain.head - self.mood.lag)
        if method == "eth_blockNumber":
            return {"result": hex(end)}
        if method == "eth_sendRawTransaction":
            return self._sent(params)
        refused = self._shifted(method, params, end)
        if refused is not None:
            return refused
        answer = self.chain.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        if "error" in answer:
            return {"error": answer["error"]}
        return {"result": self._seen(method, answer["result"], end)}

    def _sent(self, params: list[Any]) -> dict[str, Any]:
        if self._happens("swallow"):
            return {"result": "0x" + keccak(bytes.fromhex(params[0][2:])).hex()}
        answer = self.chain.broadcast({"jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": params})
        if self._happens("unsaid"):
            return {"error": self._dice.choice(_UNWELL)}
        return {"error": answer["error"]} if "error" in answer else {"result": answer["result"]}

    def _shifted(self, method: str, params: list[Any], end: int) -> dict[str, Any] | None:
        """Replace "latest" by this node's head, or return a response if the node does not have the block."""
        if method == "eth_getLogs":
            for key in ("fromBlock", "toBlock"):
                if str(params[0].get(key, "")).startswith("0x") and int(params[0][key], 16) > end:
                    return {"error": _NOT_THERE}
            if "blockHash" in params[0] and self._beyond(params[0]["blockHash"], end):
                return {"error": _NOT_THERE}
            return None
        if method == "eth_getBlockByHash":
            return {"result": None} if self._beyond(params[0], end) else None
        at = _AT.get(method)
        if at is None or len(params) <= at:
            return None
        block = params[at]
        missing: dict[str, Any] = {"result": None} if method in _BLOCKS else {"error": _NOT_THERE}
        if block == "latest" or (block == "pending" and self.mood.lag):
            params[at] = hex(end)
        elif isinstance(block, dict) or (isinstance(block, str) and len(block) == 66):
            if self._beyond(block["blockHash"] if isinstance(block, dict) else block, end):
                return missing
        elif isinstance(block, str) and block.startswith("0x") and int(block, 16) > end:
            return missing
        return None

    def _beyond(self, digest: str, end: int) -> bool:
        if not self.mood.lag:
            return False
        block = self.chain.ask("eth_getBlockByHash", digest, False)
        return block is not None and int(block["number"], 16) > end

    def _seen(self, method: str, result: Any, end: int) -> Any:
        if method == "eth_getTransactionReceipt" and result:
            return None if int(result["blockNumber"], 16) > end or self._happens("no_receipt") else result
        if method == "eth_getTransactionByHash" and result and result["blockNumber"]:
            return None if int(result["blockNumber"], 16) > end else result
        if method == "eth_getLogs" and self.mood.logs_lost:
            return [log for log in result if not self._happens("logs_lost")]
        return result
