"""A local genesis: both chains with tokens, feeds, Safes and our contracts, deployed by the real ape scripts.

It is built for each state of the sources and kept in .vpm/build/genesis, because deploying takes half a minute; every
test module then starts its own chains from the saved state. The chains use the present time, in which feeds' readings
grow old, so after FRESH_SECONDS another is built. With VPM_TEST_FORK_BASE and VPM_TEST_FORK_STOCK the genesis is
deployed on forks of the live chains, with the genuine tokens and feeds.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import math
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from core.contracts.deployments import Deployment, load_deployment
from core.errors import ProcessError
from core.paths import REPOSITORY
from scripts._deploy import build
from scripts._local.anvil import AnvilOptions, start_anvil
from scripts._local.ports import free_port
from scripts._local.process import RunningProcess, Supervisor
from scripts._stack.ape import ape
from scripts._stack.deploying import deploy_all
from scripts._stack.parts import CHAIN_IDS, start_chain
from scripts._stack.state import State

CACHE = REPOSITORY / ".vpm" / "build" / "genesis"
DAY = 86_400
# Nothing is listed on a feed whose reading is an hour old, and a test module goes on for minutes.
FRESH_SECONDS = 2_400
FORKS = {"base": os.environ.get("VPM_TEST_FORK_BASE"), "stock": os.environ.get("VPM_TEST_FORK_STOCK")}


@dataclass(frozen=True)
class Genesis:
    state: State

    @property
    def deployments(self) -> Path:
        return self.state.deployments

    def deployment(self, name: str) -> Deployment:
        return load_deployment(self.state.deployment(name))


@dataclass(frozen=True)
class RunningChain:
    name: str
    url: str
    ws_url: str
    process: RunningProcess
    deployment: Deployment


def genesis() -> Genesis:
    return built(sources_key(), _build, fresh_seconds=FRESH_SECONDS)


def built(name: str, build: Callable[[State], Awaitable[None]], *, fresh_seconds: float = math.inf) -> Genesis:
    """Return the genesis of this name. If none is so fresh, build it, one process at a time. Older ones stay for a day,
    because a running test may still start chains from them."""
    kept, now = CACHE / name, int(time.time())
    kept.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = {int(each.name): each for each in kept.iterdir() if each.name.isdigit()}
        newest = max((at for at, folder in made.items() if (folder / "complete").exists()), default=-math.inf)
        if now - newest < fresh_seconds:
            return Genesis(State(made[int(newest)]))
        for at, folder in made.items():
            if now - at > DAY:
                shutil.rmtree(folder, ignore_errors=True)
        folder = kept / str(now)
        asyncio.run(_made(State(folder), build))
        (folder / "complete").touch()
        return Genesis(State(folder))


@contextmanager
def chain(
    known: Genesis,
    name: str,
    log: Path,
    *,
    block_seconds: float | None = None,
    mine_on_demand: bool = False,
    extra: tuple[str, ...] = (),
) -> Iterator[RunningChain]:
    """Run a private chain from the genesis; it automines by default."""
    process, options = started(known, name, log, block_seconds, mine_on_demand, extra)
    try:
        yield RunningChain(name, options.url, options.ws_url, process, known.deployment(name))
    finally:
        process.stop()


def started(
    known: Genesis, name: str, log: Path, block_seconds: float | None, mine_on_demand: bool, extra: tuple[str, ...]
) -> tuple[RunningProcess, AnvilOptions]:
    options = AnvilOptions(
        chain_id=CHAIN_IDS[name],
        port=0,
        block_time_seconds=block_seconds,
        mine_on_demand=mine_on_demand,
        fork_url=FORKS[name],
        accounts=1,
        extra=("--load-state", str(known.state.chain(name)), "--quiet", *extra),
    )
    for attempt in range(3):
        chosen = replace(options, port=free_port())
        try:
            return start_anvil(chosen, log), chosen
        except ProcessError:  # the free port may be taken between finding and using it
            if attempt == 2:
                raise
    raise AssertionError("unreachable")


async def _made(state: State, build: Callable[[State], Awaitable[None]]) -> None:
    for folder in (state.logs, state.deployments, state.root / "chains"):
        folder.mkdir(parents=True, exist_ok=True)
    await build(state)


async def _build(state: State) -> None:
    supervisor = Supervisor(state.logs)
    try:
        chains = [await start_chain(name, FORKS[name], state, supervisor) for name in CHAIN_IDS]
        with ape(state.ape) as deployer:
            await deploy_all(chains, state, deployer)
    finally:
        await supervisor.stop()


def sources_key() -> str:
    """Hash the inputs of the genesis: contracts, deployment facts, scripts, and which chains are forked."""
    digest = hashlib.sha256(build.sources_hash().encode() + repr(FORKS).encode())
    for folder in ("deployments", "scripts/_deploy", "scripts/_stack"):
        for path in sorted((REPOSITORY / folder).glob("*")):
            if path.suffix in (".py", ".json"):
                digest.update(path.name.encode() + path.read_bytes())
    for path in sorted((REPOSITORY / "scripts").glob("deploy_*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
