"""Whether the chain answers, asked for everybody who looks."""

from __future__ import annotations

import asyncio

from api.cache import TimedValue
from core.chain import ChainClient, RpcError

ANSWERS_WITHIN_SECONDS = 3.0
# Anybody may look as often as he likes, and the nodes' rate is everybody's.
SHARED_SECONDS = 2.0


class Reach:
    """Whether Base can be reached: its head is asked for, once for all who look within two seconds."""

    def __init__(self, client: ChainClient | None) -> None:
        self._client = client
        self._shared = TimedValue(self._ask, SHARED_SECONDS)

    async def answers(self) -> bool:
        return await self._shared.get()

    async def _ask(self) -> bool:
        if self._client is None:
            return False
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_SECONDS):
                await self._client.head(timeout_seconds=ANSWERS_WITHIN_SECONDS)
        except (RpcError, TimeoutError):
            return False
        return True
