"""A trader who moves the prices of the agents' tokens along a random walk, with a swap in each pool every 20 s. Feeds
and markets only read the pools."""

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
    """Trade until stopped; try again later after a failed swap."""
    node = LocalNode(rpc_url)
    walk = Walk(await asyncio.to_thread(trader, node), AgentPools.load(saved))
    while True:
        with contextlib.suppress(OSError, ValueError, StackError):
            await asyncio.to_thread(trade_once, node, walk, int(time.time()))
        await asyncio.sleep(PAUSE_SECONDS)
