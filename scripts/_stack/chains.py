"""The two chains of a stack: anvil with interval mining, their state saved between runs, or forks of live ones."""

from __future__ import annotations

import asyncio
import gzip
import time
from dataclasses import dataclass
from pathlib import Path

from core.contracts.deployments import load_deployment
from core.local.anvil import AnvilOptions, anvil_answers, anvil_plan, ask
from core.local.ports import free_port
from scripts._stack.options import StackError
from scripts._stack.plans import child
from scripts._stack.state import State, write_whole
from scripts._stack.supervisor import Supervisor

SAVE_EVERY_SECONDS = 30
BLOCK_SECONDS = 1
PAST_SECONDS = 7_200
"""So long ago a local Base begins, which leaves its pools a past to be read from."""


@dataclass(frozen=True)
class ChainKind:
    """One of the two chains of the product, before anything runs."""

    name: str
    chain_id: int


@dataclass(frozen=True)
class LocalChain:
    """A chain of the stack that runs."""

    chain: ChainKind
    url: str
    ws_url: str
    fork: bool
    today: int | None = None  # when its past ends; None: now


CHAINS = (ChainKind("base", 8453), ChainKind("stock", 4663))


async def start_chain(chain: ChainKind, fork_url: str | None, state: State, supervisor: Supervisor) -> LocalChain:
    saved = state.chain(chain.name)
    if fork_url is None and not _was_deployed_on(chain, state):
        saved.unlink(missing_ok=True)  # a first start that was interrupted begins anew: a past cannot be laid later
    fresh = not saved.exists()
    _same_origin(chain, fork_url, state, fresh=fresh)
    has_past = fresh and fork_url is None and chain.name == "base"
    remembered = state.remembered().get(f"{chain.name}_port")
    options = AnvilOptions(
        chain_id=chain.chain_id,
        port=free_port(int(remembered) if remembered else None),
        block_time_seconds=BLOCK_SECONDS,
        fork_url=fork_url,
        state=saved,
        past=saved.with_suffix(".past"),
        timestamp=int(time.time()) - PAST_SECONDS if has_past else None,
        accounts=1,
        extra=("--state-interval", str(SAVE_EVERY_SECONDS), "--quiet"),
    )
    # Writing the state of a long-lived chain takes a while; it must not be cut short.
    plan = child(anvil_plan(options), lambda: anvil_answers(options), name=f"chain-{chain.name}", stop_seconds=30)
    await supervisor.start(plan)
    state.remember(**{f"{chain.name}_port": str(options.port)})  # not in a thread: another part may be remembering
    return LocalChain(chain, options.url, options.ws_url, fork_url is not None)


async def save_chain(local: LocalChain, state: State) -> None:
    """Before anything is stored of a chain's contracts, they are on the disk. anvil saves every so often; a stack that
    was killed before that found its contracts gone, and its database full of them."""
    await asyncio.to_thread(_write_dump, local.url, state.chain(local.chain.name))


def _write_dump(url: str, saved: Path) -> None:
    dump = gzip.decompress(bytes.fromhex(ask(url, "anvil_dumpState", timeout_seconds=60).removeprefix("0x")))
    write_whole(saved, dump)


def _was_deployed_on(chain: ChainKind, state: State) -> bool:
    path = state.deployment(chain.name)
    return path.exists() and load_deployment(path).is_deployed


def check_fork(chain: ChainKind, url: str) -> None:
    """anvil would give a fork any chain id it is told to; ours must be of the right chain."""
    option = f"--fork-{chain.name}"
    try:
        served = int(ask(url, "eth_chainId"), 16)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StackError(f"{option}: {url} does not answer as an Ethereum node ({error}).") from None
    if served != chain.chain_id:
        raise StackError(f"{option}: {url} serves chain {served}, not {chain.chain_id}; give it a node of that chain.")


def _same_origin(chain: ChainKind, fork_url: str | None, state: State, *, fresh: bool) -> None:
    """A state folder made of forks cannot go on as a local chain, nor the other way round."""
    origin = "fork" if fork_url else "local"
    key = f"{chain.name}_origin"
    remembered = state.remembered().get(key)
    if not fresh and remembered is not None and remembered != origin:
        raise StackError(
            f"the state folder {state.root} holds a {remembered} chain {chain.chain_id}; "
            f"use another folder with --state DIR to run a {origin} one."
        )
    state.remember(**{key: origin})
