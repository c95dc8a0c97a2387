"""The chains drills start from: everything deployed by the real scripts, once, and kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts._stack import contracts
from scripts._stack.chains import CHAIN_IDS, start_chain
from scripts._stack.deploying import deploy_all
from scripts._stack.state import State
from scripts._stack.supervisor import Supervisor

DONE = "complete"


async def genesis(folder: Path) -> State:
    """Deploys into `folder` unless that was done for these contracts; takes about a minute the first time."""
    made_of = contracts.sources_hash()
    state, done = State(folder), folder / DONE
    if done.exists() and done.read_text() == made_of:
        return state
    shutil.rmtree(folder, ignore_errors=True)
    for part in (state.logs, state.deployments, folder / "chains"):
        part.mkdir(parents=True, exist_ok=True)
    if not contracts.compiled():
        await contracts.compile_all()
    supervisor = Supervisor(state.logs)
    try:
        chains = {name: await start_chain(name, None, state, supervisor) for name in CHAIN_IDS}
        await deploy_all(chains, state)
    finally:
        await supervisor.stop()
    done.write_text(made_of)
    return state
