"""`python -m scripts._demo BASE_URL [--base-rpc URL --pools FILE]`: bets and trades until it is stopped."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from pathlib import Path

from scripts._demo import agent, pools, stock


async def play(base_url: str, base_rpc: str | None, saved_pools: Path | None) -> None:
    parts = [stock.play(base_url), agent.play(base_url)]
    if base_rpc is not None and saved_pools is not None:
        parts.append(pools.play(base_rpc, saved_pools))
    await asyncio.gather(*parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts._demo")
    parser.add_argument("base_url")
    parser.add_argument("--base-rpc")
    parser.add_argument("--pools", type=Path, help="the file in which the stack describes the local pools")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(play(options.base_url, options.base_rpc, options.pools))


if __name__ == "__main__":
    main()
