"""Checks whether trading is on and whether a node of Base answers. Trading depends on the deployment, the setting, the
operator's switch, the contract's own pause and the age of the index."""

from __future__ import annotations

import asyncio
import time

from api.agent.facts import MarketsSnapshot
from api.caching import TimedValue
from core.chain import ChainClient, RpcError
from core.db.switches import TRADING_PAUSED, SwitchWatcher

NOT_DEPLOYED = "The settlement contract is not deployed yet."
ANSWERS_WITHIN_SECONDS = 3.0
# Callers are not limited, and all share the nodes' rate limit.
SHARED_SECONDS = 2.0


class Trading:
    """The switch of the agent markets. `deployed`: whether the settlement wallet is deployed. `blocks_are_regular`:
    whether the chain's blocks come at regular intervals."""

    def __init__(
        self, paused_by_setting: bool, watcher: SwitchWatcher, *, deployed: bool, blocks_are_regular: bool
    ) -> None:
        self._deployed = deployed
        self._paused_by_setting = paused_by_setting
        self._watcher = watcher
        self._blocks_are_regular = blocks_are_regular

    def why_off(self, snapshot: MarketsSnapshot | None) -> str | None:
        """Return a sentence that says why bets are refused. Return None while trading is on."""
        if not self._deployed:
            return NOT_DEPLOYED
        if self._paused_by_setting or self._watcher.is_on(TRADING_PAUSED):
            return "Trading is paused by the operator; payouts continue."
        if snapshot is None:
            return "The index is still empty."
        if snapshot.stakes_paused:
            return "New stakes are paused in the settlement contract; payouts continue."
        return snapshot.head.why_late(time.time(), blocks_are_regular=self._blocks_are_regular)


class ChainProbe:
    """A check whether Base answers. It runs at most every two seconds for all callers together."""

    def __init__(self, client: ChainClient | None) -> None:
        self._client = client
        self._shared = TimedValue(self._ask, SHARED_SECONDS)

    async def is_up(self) -> bool:
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
