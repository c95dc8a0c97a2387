"""The parts of a stack: the daemons and two chains. The chains are either anvil with interval mining and saved state,
or forks of the live chains."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from core.paths import REPOSITORY
from scripts._local.anvil import AnvilOptions, anvil_answers, anvil_plan, ask
from scripts._local.ports import answers
from scripts._local.process import SpawnPlan, Supervisor, run_together
from scripts._stack.state import Options, StackError, State
from scripts._vpm.bootstrap import step

SAVE_EVERY_SECONDS = 30
BLOCK_SECONDS = 1
HISTORY_SECONDS = 7_200
"""The age of a local Base's first block, so that its pools have a history."""


CHAIN_IDS: Final = {"base": 8453, "stock": 4663}
"""The two chains of the product."""


@dataclass(frozen=True)
class LocalChain:
    name: str
    url: str
    ws_url: str
    fork: bool
    today: int | None = None  # when its history ends; None: now


async def start_chain(name: str, fork_url: str | None, state: State, supervisor: Supervisor) -> LocalChain:
    saved = state.chain(name)
    if fork_url is None and not _was_deployed(name, state):
        saved.unlink(missing_ok=True)  # after an interrupted first start: its history cannot be made later
    fresh = not saved.exists()
    _check_origin(name, fork_url, state, fresh=fresh)
    has_history = fresh and fork_url is None and name == "base"
    options = AnvilOptions(
        chain_id=CHAIN_IDS[name],
        port=state.port(name),  # not in a thread: another part may be saving its port
        block_time_seconds=BLOCK_SECONDS,
        fork_url=fork_url,
        state=saved,
        cache=saved.with_suffix(".cache"),
        timestamp=int(time.time()) - HISTORY_SECONDS if has_history else None,
        accounts=1,
        extra=("--state-interval", str(SAVE_EVERY_SECONDS), "--quiet"),
    )
    # Writing the state of a long-lived chain takes a while; it must not be cut short.
    plan = replace(anvil_plan(options), name=f"chain-{name}", stop_seconds=30)
    await supervisor.start(plan, lambda: anvil_answers(options))
    return LocalChain(name, options.url, options.ws_url, fork_url is not None)


def _was_deployed(name: str, state: State) -> bool:
    path = state.deployment(name)
    return path.exists() and json.loads(path.read_text())["status"] == "deployed"


def check_fork(name: str, url: str) -> None:
    """Check that the node to fork serves the right chain, because anvil accepts any chain id for a fork."""
    option, chain_id = f"--fork-{name}", CHAIN_IDS[name]
    try:
        served = int(ask(url, "eth_chainId"), 16)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StackError(f"{option}: {url} is not an Ethereum node ({error}).") from None
    if served != chain_id:
        raise StackError(f"{option}: {url} serves chain {served}, not {chain_id}; give it a node of that chain.")


def _check_origin(name: str, fork_url: str | None, state: State, *, fresh: bool) -> None:
    """Refuse to start a local chain from a fork's saved state, or a fork from a local chain's saved state."""
    origin = "fork" if fork_url else "local"
    key = f"{name}_origin"
    remembered = state.remembered().get(key)
    if not fresh and remembered is not None and remembered != origin:
        raise StackError(
            f"the state folder {state.root} was made with a {remembered} chain {CHAIN_IDS[name]}; "
            f"to use a {origin} chain, choose another folder with --state DIR."
        )
    state.remember(**{key: origin})


CUP_WINDOW = ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z")  # the local tournament is always open


DAEMONS = ("indexer", "relayer", "keeper", "api")
IMPORTS = {
    "core.db.migrate": ["core.db.migrate"],
    "indexer": ["indexer.cli"],
    "relayer": ["relayer.service"],
    "keeper": ["keeper.__main__"],
    "api": ["api.__main__"],
    "scripts._demo": ["scripts._demo"],
}
"""The modules to import before each program of a stack is forked. The API's are half of all and come late, so other
programs start earlier and do without them."""


def metrics_variable(daemon: str) -> str:
    return f"VPM_{daemon.upper()}_METRICS_PORT"


async def start_daemons(
    options: Options, state: State, database_url: str, chains: Mapping[str, LocalChain], supervisor: Supervisor
) -> dict[str, Any]:
    deployed: dict[str, Any] = json.loads(state.deployed.read_text())
    env = _environment(options, state, database_url, chains) | deployed.pop("keys")
    metrics: dict[str, str] = {}
    starting = []
    for daemon in DAEMONS:
        port = state.port(f"{daemon}_metrics")
        env[metrics_variable(daemon)] = str(port)
        metrics[daemon] = f"http://127.0.0.1:{port}/metrics"
        ready = partial(answers, f"http://127.0.0.1:{port}/ready", 2)
        starting.append((daemon, ready))
    with step(", ".join(DAEMONS)):  # started together: they only depend on the database
        await run_together(*(supervisor.start(_plan(name, env), ready) for name, ready in starting))
    if options.demo:
        base_url = f"http://127.0.0.1:{options.port}"
        demo = [base_url]
        if state.pools.exists():
            demo += ["--base-rpc", chains["base"].url, "--pools", str(state.pools)]
        await supervisor.start(module("demo", "scripts._demo", *demo))
    return {
        **deployed,
        "base_url": f"http://127.0.0.1:{options.port}",
        "database_url": database_url,
        "rpc": {name: chain.url for name, chain in chains.items()},
        "ws": {name: chain.ws_url for name, chain in chains.items()},
        "chains": {name: CHAIN_IDS[name] for name in chains},
        "deployments": str(state.deployments),
        "cron_secret": state.cron_secret(),
        "metrics": metrics,
        "logs": str(state.logs),
    }


def module(name: str, package: str, *arguments: str, env: Mapping[str, str] | None = None) -> SpawnPlan:
    """Return the plan that runs one of our packages. The variables in `env` are added to this process's environment."""
    argv = (sys.executable, "-m", package, *arguments)
    return SpawnPlan(name, argv, env={**os.environ, **(env or {})}, cwd=str(REPOSITORY), stop_seconds=15)


def _plan(daemon: str, env: Mapping[str, str]) -> SpawnPlan:
    return module(daemon, daemon, env=_only_its_keys(daemon, env))


def _only_its_keys(package: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without other programs' secrets, such as the relayer's keys."""
    of_api = dict.fromkeys(("VPM_ATTESTATION_KEY", "VPM_DEMO_WALLET_KEY", "CRON_SECRET"), "api")
    secret_of = {"VPM_RELAYER_KEYS": "relayer", **of_api}
    return {name: value for name, value in env.items() if secret_of.get(name, package) == package}


def _environment(options: Options, state: State, database_url: str, chains: Mapping[str, LocalChain]) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "VPM_BASE_RPC_URLS": chains["base"].url,
        "VPM_BASE_WS_URLS": chains["base"].ws_url,
        "VPM_STOCK_RPC_URLS": chains["stock"].url,
        "VPM_STOCK_WS_URLS": chains["stock"].ws_url,
        "VPM_DEPLOYMENTS_DIR": str(state.deployments),
        "VPM_PORT": str(options.port),
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{options.port}",
        "VPM_BASE_POLL_INTERVAL_MS": "200",
        "VPM_STOCK_POLL_INTERVAL_MS": "200",
        "VPM_ALLOW_PRIVATE_WEBHOOKS": "1",
        "VPM_CUP_OPENS_AT": CUP_WINDOW[0],
        "VPM_CUP_CLOSES_AT": CUP_WINDOW[1],
        "VPM_LOG_FORMAT": "console",
        "VPM_KEEPER_SWEEP_FROM_UNITS": "100000",  # a tenth of a dollar, so that a local stack shows sweeps
        "CRON_SECRET": state.cron_secret(),
    }
