"""A trader who moves the prices of the agents' tokens, as the walk of the other local prices goes: a swap in each pool
now and then. Feeds and markets know nothing of it; they read the pools."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from scripts._stack.agent_pools import AgentPools, Walk, trade_once, trader
from scripts._stack.chain_setup import LocalNode
from scripts._stack.options import StackError

PAUSE_SECONDS = 20.0


async def play(rpc_url: str, saved: Path) -> None:
    """Trade until stopped; a swap that fails only means another try later."""
    node = LocalNode(rpc_url)
    walk = Walk(await asyncio.to_thread(trader, node), AgentPools.load(saved))
    while True:
        with contextlib.suppress(OSError, ValueError, StackError):
            await asyncio.to_thread(trade_once, node, walk, int(time.time()))
        await asyncio.sleep(PAUSE_SECONDS)
