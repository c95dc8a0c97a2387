"""The chain with which every world begins. It is a genesis like that of other tests, deployed by the same scripts, but
the same on every machine: its days are given, and it makes one block a second for each transaction and none between."""

from __future__ import annotations

import asyncio
import functools
import shutil

from core.paths import REPOSITORY
from scripts._local.anvil import AnvilOptions, ask, start_anvil
from scripts._local.ports import free_port
from scripts._stack.ape import ape
from scripts._stack.deploying import deploy_all
from scripts._stack.parts import CHAIN_IDS, HISTORY_SECONDS, LocalChain
from scripts._stack.state import State
from tests.support.genesis import Genesis, built, sources_key

TODAY = 1_760_000_000


def origin(name: str) -> Genesis:
    """Return the origin for this chain and the present sources. Build it if there is none."""
    return built(f"{sources_key()}-{TODAY}-{name}", functools.partial(_build, name))


async def _build(name: str, state: State) -> None:
    options = AnvilOptions(
        chain_id=CHAIN_IDS[name],
        port=free_port(),
        timestamp=TODAY - HISTORY_SECONDS if name == "base" else TODAY,  # only pools have a past
        accounts=1,
        state=state.chain(name),
        # The least there is, so that it never changes: anvil reports a new one some time after its block.
        extra=("--quiet", "--block-base-fee-per-gas", "7"),
    )
    running = await asyncio.to_thread(start_anvil, options, state.logs / f"chain-{name}.log")
    try:
        await asyncio.to_thread(ask, options.url, "anvil_setBlockTimestampInterval", 1)
        chain = LocalChain(name, options.url, options.ws_url, fork=False, today=TODAY)
        with ape(state.ape) as started:
            await deploy_all([chain], state, started)
    finally:
        await asyncio.to_thread(running.stop, 30.0)
    for other_name in CHAIN_IDS.keys() - {name}:  # the API reads it; nothing of ours is on that chain
        other = state.deployment(other_name)
        shutil.copyfile(REPOSITORY / "deployments" / other.name, other)
