"""Who listens while the drills run: a wallet's event stream, its webhook, and tests of that asked for too often.

What agents do beside betting, so that this part of the service is under load too. The webhook takes its time, so that
deliveries queue up; the tests come faster than their rate limit allows.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from datetime import UTC, datetime

import aiohttp
from aiohttp import web
from eth_account import Account
from eth_account.messages import encode_defunct

from api.agent.notices.ownership import registration_message
from core.hexadecimal import hex_of
from scripts._drill.load import Load
from scripts._stack.wallets import wallet as wallet_of

API = "/api/agent/v1"
TAKES_SECONDS = 5.0
TEST_SECONDS = 1.5
STREAM_SECONDS = 8.0
PAUSE_SECONDS = 2.0


class Audience:
    """A wallet that listens during a drill, by webhook and by stream: `async with Audience(load)`, for as long as the
    load goes on."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._who = wallet_of("drill audience")

    async def __aenter__(self) -> Audience:
        app = web.Application()
        app.router.add_post("/hook", _take)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._load.also(self._webhook)
        self._load.also(self._stream)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _webhook(self) -> None:
        url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/hook"
        made = None
        while made is None:
            service = self._load.fleet.base_urls[0]
            message = registration_message(service, self._who.address.lower(), url, datetime.now(UTC).isoformat())
            signed = Account.sign_message(encode_defunct(text=message), self._who.private_key).signature
            body = {"wallet": self._who.address, "url": url, "message": message, "signature": hex_of(signed)}
            status, answer = await self._load.call("POST", f"{API}/webhooks", body)
            made = answer["webhook"]["id"] if status == 201 else None
            await asyncio.sleep(PAUSE_SECONDS)
        while True:
            await self._load.call("POST", f"{API}/webhooks/{made}/test")
            await asyncio.sleep(TEST_SECONDS)

    async def _stream(self) -> None:
        """Reads for a while, goes away, comes back to another process."""
        for number in itertools.count():
            doors = self._load.fleet.base_urls
            url = f"{doors[number % len(doors)]}{API}/events?wallet={self._who.address}"
            patience = aiohttp.ClientTimeout(total=STREAM_SECONDS)
            try:
                async with self._load.fleet.session.get(url, timeout=patience) as answer:
                    await answer.read()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(PAUSE_SECONDS)


async def _take(request: web.Request) -> web.Response:
    event = json.loads(await request.read())
    if event["type"] == "webhook.verify":
        return web.json_response({"challenge": event["payload"]["challenge"]})
    await asyncio.sleep(TAKES_SECONDS)
    return web.Response()
