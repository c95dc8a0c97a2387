"""`python -m scripts._demo BASE_URL`: bets until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import sys

from scripts._demo import agent, stock


async def play(base_url: str) -> None:
    await asyncio.gather(stock.play(base_url), agent.play(base_url))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(sys.argv[1]))
