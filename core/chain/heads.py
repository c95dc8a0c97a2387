"""Heads of a chain: waiting for new heads, and deciding whether the head is current and which blocks are final.

Waiting polls, and also listens to a WebSocket subscription if a URL is configured. A subscription may fall silent
without closing, so it only supplements polling.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Sequence

import aiohttp
import orjson

from core.log import get_logger, redact_url

MAX_LAG_SECONDS = 60  # the maximum age of a head on which decisions about the present may rest


def final_block(indexed: int, finalized: int | None, depth: int) -> int:
    """Return the newest indexed block that is final, or a negative number if no indexed block is final.

    The final block is the node's finalized block or, if the node reports none, the block that is `depth` blocks below
    `indexed`. A finalized block above `indexed` proves nothing, since the indexed blocks may have been replaced after
    they were indexed.
    """
    return finalized if finalized is not None and finalized <= indexed else indexed - depth


def why_head_is_late(head_time: int, now: float, *, blocks_are_regular: bool) -> str | None:
    """Return a sentence if the head is too old, by our clock, to tell the chain's current time; otherwise return None.

    After a halt, a chain may give its next blocks times within the halt. An old head indicates a halt only on a chain
    whose blocks come at regular intervals.
    """
    if blocks_are_regular and now - head_time > MAX_LAG_SECONDS:
        return "The chain has produced no block for a minute."
    return None


log = get_logger(__name__)

SUBSCRIBE = {"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]}
MAX_PAUSE_SECONDS = 10.0
HEARTBEAT_SECONDS = 10.0
SUBSCRIBED_POLL_SECONDS = 2.0
"""The shortest polling interval while subscribed, in case the subscription has fallen silent."""


class Heads:
    def __init__(self, ws_urls: Sequence[str], poll_seconds: float) -> None:
        self.subscribed = False
        self._ws_urls = tuple(ws_urls)
        self._poll_seconds = poll_seconds
        self._announced = asyncio.Event()

    async def wait(self) -> bool:
        """Return True as soon as a node announces a head, or False after the polling interval."""
        seconds = max(self._poll_seconds, SUBSCRIBED_POLL_SECONDS) if self.subscribed else self._poll_seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._announced.wait()
        arrived = self._announced.is_set()
        self._announced.clear()
        return arrived

    async def listen(self) -> None:
        """Keep a subscription open forever. Without a WebSocket URL, wait forever."""
        if not self._ws_urls:
            await asyncio.Event().wait()
        pause = 0.2
        for url in itertools.cycle(self._ws_urls):
            try:
                await self._subscribe(url)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                log.warning(
                    "lost the head subscription; polling continues",
                    action="heads.lost",
                    url=redact_url(url),
                    why=f"{type(error).__name__}: {error}",
                )
            finally:
                pause = 0.2 if self.subscribed else min(pause * 2, MAX_PAUSE_SECONDS)
                self.subscribed = False
            await asyncio.sleep(pause)

    async def _subscribe(self, url: str) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, heartbeat=HEARTBEAT_SECONDS, timeout=aiohttp.ClientWSTimeout(ws_close=2)) as socket,
        ):
            await socket.send_str(orjson.dumps(SUBSCRIBE).decode())
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                content = orjson.loads(message.data)
                if not isinstance(content, dict):
                    raise ValueError("the node sent an invalid subscription message")
                if "error" in content:
                    raise ValueError(f"the node refused the subscription: {content['error']}")
                if not self.subscribed:
                    self.subscribed = True
                    log.info("subscribed to new heads", action="heads.subscribed", url=redact_url(url))
                if content.get("method") == "eth_subscription":
                    self._announced.set()
        raise ValueError("the node closed the subscription")
