"""The chain that every world begins with: the same wherever and whenever it is made.

A genesis like that of other tests, deployed by the same scripts. But its days are given, and it makes a block for each
transaction, a second after the last one, and none between: nothing in it is of the machine that made it.
"""

from __future__ import annotations

import asyncio
import shutil

from core.local.anvil import AnvilOptions, ask, start_anvil
from core.local.ports import free_port
from scripts._stack.chains import CHAINS, PAST_SECONDS, LocalChain
from scripts._stack.deploying import deploy_all
from scripts._stack.state import State
from tests.support.genesis import ROOT, Genesis, built, sources_key

TODAY = 1_760_000_000
_BASE = next(chain for chain in CHAINS if chain.name == "base")


def origin() -> Genesis:
    """Of the sources as they stand; built when it is not there."""
    return built(f"{sources_key()}-{TODAY}", _build)


async def _build(state: State) -> None:
    options = AnvilOptions(
        chain_id=_BASE.chain_id,
        port=free_port(),
        timestamp=TODAY - PAST_SECONDS,
        accounts=1,
        state=state.chain(_BASE.name),
        # The least there is, so that it never changes: anvil tells of a new one some time after its block.
        extra=("--quiet", "--block-base-fee-per-gas", "7"),
    )
    running = await asyncio.to_thread(start_anvil, options, state.logs / "chain-base.log")
    try:
        await asyncio.to_thread(ask, options.url, "anvil_setBlockTimestampInterval", 1)
        await deploy_all({_BASE.name: LocalChain(_BASE, options.url, options.ws_url, fork=False, today=TODAY)}, state)
    finally:
        await asyncio.to_thread(running.stop, 30.0)
    stock = state.deployment("stock")  # the API reads it; nothing of ours is on that chain
    shutil.copyfile(ROOT / "deployments" / stock.name, stock)
