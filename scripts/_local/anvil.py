"""Runs a local chain with anvil and waits until it responds with the right chain id."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from core.errors import ProcessError
from scripts._local.packages import foundry_binary
from scripts._local.ports import DIRECT, listens
from scripts._local.process import RunningProcess, SpawnPlan, start_process, wait_until

MAX_PERSISTED_STATES: Final = 600
"""How many blocks' states a chain keeps on disk besides those in memory. anvil's default is 3,600, half a megabyte
each, in the user's home, where it leaves them."""
HOST: Final = "127.0.0.1"
MNEMONIC: Final = "test test test test test test test test test test test junk"


@dataclass(frozen=True, slots=True)
class AnvilOptions:
    """A local chain's options.

    block_time_seconds: the interval between blocks. Under load, only mining at an interval is reliable.
    mine_on_demand: if no interval is set, mine only on `evm_mine`.

    With neither option, each transaction is mined at once in its own block. This suits light tests only.
    """

    chain_id: int
    port: int
    block_time_seconds: float | None = None
    mine_on_demand: bool = False
    fork_url: str | None = None
    state: Path | None = None  # loaded when it exists, written on exit
    cache: Path | None = None  # for states of past blocks, removed with the process; a temporary folder if None
    timestamp: int | None = None
    accounts: int = 10
    balance_ether: int = 10_000
    gas_limit: int = 60_000_000
    extra: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def ws_url(self) -> str:
        return f"ws://{HOST}:{self.port}"


def anvil_plan(options: AnvilOptions) -> SpawnPlan:
    cache = options.cache or Path(tempfile.gettempdir(), f"vpm-anvil-{secrets.token_hex(8)}")
    flags: dict[str, object | None] = {
        "--host": HOST,
        "--port": options.port,
        "--chain-id": options.chain_id,
        "--accounts": options.accounts,
        "--balance": options.balance_ether,
        "--mnemonic": MNEMONIC,
        "--gas-limit": options.gas_limit,
        "--block-time": options.block_time_seconds,
        "--fork-url": options.fork_url,
        "--state": options.state,
        "--timestamp": options.timestamp,
        "--cache-path": cache,
        "--max-persisted-states": MAX_PERSISTED_STATES,
    }
    argv = [str(foundry_binary("anvil"))]
    for flag, value in flags.items():
        if value is not None:
            argv += [flag, str(value)]
    if options.mine_on_demand:
        argv.append("--no-mining")
    return SpawnPlan(f"anvil {options.chain_id}", (*argv, *options.extra), env=_environment(), scratch=cache)


def start_anvil(options: AnvilOptions, log_path: Path) -> RunningProcess:
    """Start the chain and wait until it responds. Raise ProcessError if another program is using its port."""
    if listens(options.port):
        raise ProcessError(f"Port {options.port} is in use.", hint="Stop the other process or choose another port.")
    running = start_process(anvil_plan(options), log_path)
    try:
        wait_until(lambda: anvil_answers(options), running, 30.0, f"anvil on port {options.port}")
    except BaseException:
        running.stop()
        raise
    return running


def anvil_answers(options: AnvilOptions) -> bool:
    """Return whether the chain responds. Raise ProcessError if a different chain responds on its port."""
    try:
        chain_id = int(ask(options.url, "eth_chainId", timeout_seconds=2.0), 16)
    except (OSError, ValueError, KeyError):
        return False
    if chain_id != options.chain_id:
        raise ProcessError(
            f"Port {options.port} is in use by another chain ({chain_id} instead of {options.chain_id}).",
            hint="Stop the other process or choose another port.",
        )
    return True


def ask(url: str, method: str, *params: object, timeout_seconds: float = 10.0) -> Any:
    """Make one blocking JSON-RPC request to a local chain. For an async client, see core.chain."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310 - local only
    with DIRECT.open(request, timeout=timeout_seconds) as response:
        answer = json.load(response)
    if "error" in answer:
        raise ValueError(f"{method}: {answer['error'].get('message')}")
    return answer["result"]


def _environment() -> dict[str, str]:
    # Local connections must not go through the machine's proxy, but a fork's RPC may need it.
    passed = ("PATH", "HOME", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "SSL_CERT_FILE")
    return {name: os.environ[name] for name in passed if name in os.environ} | {"NO_PROXY": "127.0.0.1,localhost"}
