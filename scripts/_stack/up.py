"""`./vpm up`: starts the parts in order, shows their addresses, and stops everything at the end. This process runs as
long as the stack and stays small. Work that needs large libraries runs in short-lived processes
(`scripts/_stack/__main__.py`)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.errors import ProcessError, VpmError
from scripts._local import forking
from scripts._local.postgres import is_ready, prepare_postgres, remove_stale_lock
from scripts._local.process import Supervisor, run_together
from scripts._stack.parts import CHAIN_IDS, LocalChain, check_fork, module, start_chain, start_daemons
from scripts._stack.state import Options, StackError, State, write_json
from scripts._vpm.bootstrap import step


async def run(options: Options, state: State) -> int:
    """Run until Ctrl-C or SIGTERM. Return 0 if stopped after the start, 130 if stopped during the start, or 1 if the
    stack cannot start or a part fails."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    try:
        return await _until_stopped(options, state, Supervisor(state.logs), stop)
    except VpmError as error:
        print(f"\nvpm: {error.sentence()}", file=sys.stderr)
    return 1


async def _until_stopped(options: Options, state: State, supervisor: Supervisor, stop: asyncio.Event) -> int:
    starting = asyncio.create_task(_bring_up(options, state, supervisor))
    stopped = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(supervisor.wait_for_exit())
    try:
        await asyncio.wait({starting, stopped, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            if stopped.done():
                return 130
            raise ProcessError(ended.result())
        starting.result()
        await asyncio.wait({stopped, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise ProcessError(ended.result())
        return 0
    finally:
        for task in (starting, stopped, ended):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
        for path in _ready_files(options, state):
            path.unlink(missing_ok=True)
        if supervisor.names:
            print("\n  stopping ...", end="", flush=True)
            await supervisor.stop()
            print(" everything has stopped.", flush=True)


async def _bring_up(options: Options, state: State, supervisor: Supervisor) -> None:
    began = time.monotonic()
    print("\n  vpm: starting the local stack\n", flush=True)
    await asyncio.to_thread(_check_options, options)
    database_url, chains = await run_together(_database(state, supervisor), _chains(options, state, supervisor))
    ready = await start_daemons(options, state, database_url, chains, supervisor)
    forking.close_servers()
    for path in _ready_files(options, state):
        _write_ready(path, ready)
    print(_summary_screen(ready, supervisor, state, time.monotonic() - began), flush=True)


def _check_options(options: Options) -> None:
    check_database_url()
    for name in CHAIN_IDS:
        if (fork := options.forks[name]) is not None:
            check_fork(name, fork)


async def _start_database(state: State, supervisor: Supervisor) -> tuple[str, str]:
    """Start a database if none is configured. Return the database's URL and a note for the user, possibly empty."""
    given = os.environ.get("DATABASE_URL")
    if given:
        return given, ""
    server = await asyncio.to_thread(prepare_postgres, state.postgres, state.port("postgres"), max_connections=200)
    remove_stale_lock(server)
    await supervisor.start(server.plan, lambda: is_ready(server))
    return server.url(), server.note


def check_database_url() -> None:
    url = os.environ.get("DATABASE_URL")
    if not url:
        return
    import psycopg  # noqa: PLC0415 - 10 MB that a stack with its own server does without

    try:
        with psycopg.connect(url, connect_timeout=5):
            return
    except psycopg.ProgrammingError:
        reason = "it is not a PostgreSQL URL (postgresql://user:password@host:port/name)"
    except psycopg.OperationalError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = lines[0].removeprefix("connection failed: ") if lines else "no response"
    raise StackError(f"DATABASE_URL cannot be used: {reason}. Correct it, or unset it for an embedded PostgreSQL.")


async def _database(state: State, supervisor: Supervisor) -> str:
    with step("PostgreSQL"):
        url, note = await _start_database(state, supervisor)
    if note:
        print(f"    {note}")
    with step("database schema"):
        await supervisor.run_to_completion(module("migrate", "core.db.migrate", env={"DATABASE_URL": url}))
    return url


async def _chains(options: Options, state: State, supervisor: Supervisor) -> dict[str, LocalChain]:
    async def one(name: str) -> LocalChain:
        fork = options.forks[name]
        with step(f"chain {CHAIN_IDS[name]} ({name}{', a fork' if fork else ''})"):
            return await start_chain(name, fork, state, supervisor)

    chains = {started.name: started for started in await run_together(*map(one, CHAIN_IDS))}
    with step("contracts (a first start deploys them with ape)"):
        described = json.dumps([asdict(each) for each in chains.values()])
        await supervisor.run_to_completion(module("deploy", "scripts._stack", str(state.root), described))
    return chains


def _ready_files(options: Options, state: State) -> list[Path]:
    """Return the paths of the ready files to write: one in the state folder, where other commands find it, and the one
    the user asked for."""
    return [state.ready, *([options.ready_file] if options.ready_file else [])]


def _write_ready(path: Path, ready: dict[str, Any]) -> None:
    try:
        write_json(path, ready)
    except OSError as error:
        raise StackError(f"cannot write the ready file {path}: {error.strerror}.") from None


def _summary_screen(ready: dict[str, Any], supervisor: Supervisor, state: State, seconds: float) -> str:
    rpc, addresses = ready["rpc"], ready["addresses"]
    rows = [
        ("service", ready["base_url"]),
        ("chain 8453 (base)", f"{rpc['base']}  SettlementWallet {addresses['base']['SettlementWallet']}"),
        ("chain 4663 (stock)", f"{rpc['stock']}  VestedMarkets {addresses['stock']['VestedMarkets']}"),
        ("database", ready["database_url"]),
        ("running", ", ".join(supervisor.names)),
        ("state and logs", str(state.root)),
    ]
    wallet = ready["dev_wallets"][0]["address"]
    tries = [
        f"curl {ready['base_url']}/api/health",
        f"curl {ready['base_url']}/api/markets",
        f"open {ready['base_url']}/docs",
        "source .vpm/env/activate",
        f"cast call {addresses['stock']['USDG']} 'balanceOf(address)(uint256)' {wallet} --rpc-url {rpc['stock']}",
        f"ape console --network {rpc['stock']}",
    ]
    width = max(len(name) for name, _ in rows)
    lines = ["", f"  VPM is up ({seconds:.1f} s)", ""]
    lines += [f"    {name:<{width}}  {value}" for name, value in rows]
    lines += ["", "  Try:", "", *(f"    {one}" for one in tries), "", "  Ctrl-C stops everything.", ""]
    return "\n".join(lines)
