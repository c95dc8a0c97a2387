"""What a benchmark stands on while it runs: a folder and a database of its own; and how it keeps its figures."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eth_utils.address import to_checksum_address

from core.contracts.deployments import ContractInfo, Deployment, Token
from core.contracts.feeds import AgentFeed
from core.db.migrate import migrate
from core.local.ports import free_port
from core.local.postgres import PostgresServer, prepare_postgres, start_postgres
from core.local.process import RunningProcess, SpawnPlan, start_process, wait_until


@contextmanager
def ground(name: str) -> Iterator[Path]:
    """A folder for a benchmark, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"vpm-bench-{name}-") as folder:
        os.chmod(folder, 0o755)  # noqa: S103 - PostgreSQL may run as another user
        yield Path(folder)


@contextmanager
def postgres(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[tuple[PostgresServer, int]]:
    """A server with nothing in it, and its process id."""
    server = prepare_postgres(folder / "postgres", free_port(), settings=settings)
    running = start_postgres(server, folder / "postgres.log")
    try:
        yield server, running.pid
    finally:
        running.stop()


@contextmanager
def database(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """The URL of a database with this code's schema, on a server of its own."""
    with postgres(folder, settings) as (server, _):
        migrate(server.url())
        yield server.url()


@contextmanager
def started(
    plan: SpawnPlan, log: Path, ready: Callable[[], bool], seconds: float, what: str
) -> Iterator[RunningProcess]:
    """A program that is ready; stopped when this ends."""
    running = start_process(plan, log)
    try:
        wait_until(ready, running, seconds, what)
        yield running
    finally:
        running.stop()


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def network(
    name: str, chain_id: int, token: str, contracts: Mapping[str, str], feeds: Sequence[AgentFeed] = ()
) -> Deployment:
    """What the deployment file of a benchmark's chain says: its stablecoin, and our contracts by their addresses."""
    dollar = Token(
        symbol=token,
        address=to_checksum_address("0x" + "dd" * 20),
        decimals=6,
        domain_name=token,
        domain_version="2",
    )
    placed = {each: ContractInfo(address=to_checksum_address(at), role="A contract.") for each, at in contracts.items()}
    return Deployment(
        network=name,
        name="bench",
        chain_id=chain_id,
        kind="local",
        status="deployed" if contracts else "not-deployed",
        start_block=1,
        tokens={token: dollar},
        contracts=placed,
        feeds=tuple(feeds),
    )


def keep(path: Path | None, figures: Mapping[str, Any]) -> None:
    """Writes what was measured, where somebody asked for it."""
    if path is not None:
        path.write_text(json.dumps(figures, indent=2) + "\n")
