"""The daemons that exist, each as `python -m <package>`; and what the ready file says."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from core.paths import REPOSITORY
from scripts._local.direct import answers
from scripts._stack.chains import CHAIN_IDS, LocalChain
from scripts._stack.options import Options
from scripts._stack.state import State
from scripts._stack.supervisor import Child, Supervisor, together
from scripts._vpm.bootstrap import step

CUP_WINDOW = ("2026-01-01T00:00:00Z", "2036-01-01T00:00:00Z")  # the local tournament is always open


DAEMONS = ("indexer", "relayer", "keeper", "api")


def metrics_variable(daemon: str) -> str:
    """Where a daemon is told the port of its metrics."""
    return f"VPM_{daemon.upper()}_METRICS_PORT"


async def start_daemons(
    options: Options, state: State, database_url: str, chains: Mapping[str, LocalChain], supervisor: Supervisor
) -> dict[str, Any]:
    standing: dict[str, Any] = json.loads(state.standing.read_text())
    env = _environment(options, state, database_url, chains) | standing.pop("keys")
    metrics: dict[str, str] = {}
    children = []
    for daemon in DAEMONS:
        port = state.port(f"{daemon}_metrics")
        env[metrics_variable(daemon)] = str(port)
        metrics[daemon] = f"http://127.0.0.1:{port}/metrics"
        children.append(_child(daemon, env, port))
    with step(", ".join(DAEMONS)):
        await together(*map(supervisor.start, children))  # they meet in the database
    if options.demo:
        base_url = f"http://127.0.0.1:{options.port}"
        demo = [sys.executable, "-m", "scripts._demo", base_url]
        if state.pools.exists():
            demo += ["--base-rpc", chains["base"].url, "--pools", str(state.pools)]
        await supervisor.start(Child(name="demo", argv=demo, cwd=str(REPOSITORY)))
    return {
        **standing,
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


def _child(daemon: str, env: Mapping[str, str], port: int) -> Child:
    async def ready() -> None:
        while not await asyncio.to_thread(answers, f"http://127.0.0.1:{port}/ready", 2):
            await asyncio.sleep(0.1)

    return Child(
        name=daemon,
        argv=[sys.executable, "-m", daemon],
        env=_only_its_keys(daemon, env),
        cwd=str(REPOSITORY),
        stop_seconds=15.0,
        ready_seconds=120.0,  # all start at once, maybe on a busy machine
        ready=ready,
    )


def _only_its_keys(package: str, env: Mapping[str, str]) -> dict[str, str]:
    """Keys that move money live only in the relayer, and the API's own secrets only in the API."""
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
        "VPM_KEEPER_SWEEP_FROM_UNITS": "100000",  # a tenth of a dollar, so that a sweep is seen
        "CRON_SECRET": state.cron_secret(),
    }
