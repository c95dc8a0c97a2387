"""Whether the chain answers, asked for everybody who looks."""

from __future__ import annotations

import asyncio
import time

from core.chain import ChainClient, RpcError

ANSWERS_WITHIN_SECONDS = 3.0
# Anybody may look as often as he likes, and the nodes' rate is everybody's.
SHARED_SECONDS = 2.0


class Reach:
    """Whether Base can be reached: its head is asked for, once for all who look within two seconds."""

    def __init__(self, client: ChainClient | None) -> None:
        self._client = client
        self._asking: asyncio.Task[bool] | None = None
        self._asked_at = 0.0

    async def answers(self) -> bool:
        now = time.monotonic()
        if self._asking is None or (self._asking.done() and now - self._asked_at >= SHARED_SECONDS):
            self._asking, self._asked_at = asyncio.create_task(self._ask()), now
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bool:
        if self._client is None:
            return False
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_SECONDS):
                await self._client.head(timeout_seconds=ANSWERS_WITHIN_SECONDS)
        except (RpcError, TimeoutError):
            return False
        return True
