"""A proxy of a node that misbehaves on demand, as bad RPC providers do."""

from __future__ import annotations

import asyncio
import random
from enum import StrEnum
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web


class Mood(StrEnum):
    FAITHFUL = "faithful"
    GONE = "gone"  # the connection is closed without an answer
    SILENT = "silent"  # no answer at all
    GARBAGE = "garbage"  # pages, cut JSON, answers of the wrong shape, missing logs, one of them each time
    FORGETFUL = "forgetful"  # right answers, but no logs in any range: a node whose search for them is behind


class FaultyProxy:
    """A proxy of a node that can be made to fail: `async with FaultyProxy(target) as proxy`. `proxy.url` serves the
    target's responses, with the faults of `proxy.mood`."""

    def __init__(self, target: str, seed: int = 7) -> None:
        self.target = target
        self.mood = Mood.FAITHFUL
        self.url = ""
        self._dice = random.Random(seed)
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/", self._serve)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        body = await request.read()
        if self.mood is Mood.GONE:
            return self._hang_up(request)
        if self.mood is Mood.SILENT:
            await asyncio.Event().wait()  # until its caller has had enough
        try:
            async with self._session.post(self.target, data=body, headers=_JSON) as answer:
                content = await answer.read()
        except aiohttp.ClientError:
            return self._hang_up(request)
        if self.mood is Mood.GARBAGE:
            content = self._spoiled(content)
        elif self.mood is Mood.FORGETFUL:
            content = self._without_ranges(body, content)
        return web.Response(body=content, content_type="application/json")

    def _hang_up(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.close()
        return web.Response(status=502)

    def _without_ranges(self, asked: bytes, content: bytes) -> bytes:
        requests, answers = orjson.loads(asked), orjson.loads(content)
        ranges = {
            one["id"]
            for one in (requests if isinstance(requests, list) else [requests])
            if one["method"] == "eth_getLogs" and "fromBlock" in one["params"][0]
        }
        for one in answers if isinstance(answers, list) else [answers]:
            if one.get("id") in ranges and one.get("result"):
                one["result"] = []
        return orjson.dumps(answers)

    def _spoiled(self, content: bytes) -> bytes:
        """Return a faulty body with status 200, as real providers send."""
        kind = self._dice.randrange(5)
        if kind == 0:
            return b"<html><body>upstream error</body></html>"
        if kind == 1:
            return content[: len(content) // 2]
        try:
            answer = orjson.loads(content)
        except orjson.JSONDecodeError:
            return b""
        answers: list[Any] = answer if isinstance(answer, list) else [answer]
        for one in answers:
            if kind == 2 and isinstance(one.get("result"), list):
                one["result"] = []  # logs left out
            elif kind == 3:
                one["result"] = None
            else:
                one.pop("result", None)
                one["error"] = {"code": -32000, "message": "header not found"}
        return orjson.dumps(answer)


_JSON = {"Content-Type": "application/json"}
