"""The two chains of a stack: anvil with interval mining and saved state, or forks of the live chains."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Final

from scripts._local.anvil import AnvilOptions, anvil_answers, anvil_plan, ask
from scripts._stack.options import StackError
from scripts._stack.state import State
from scripts._stack.supervisor import Supervisor

SAVE_EVERY_SECONDS = 30
BLOCK_SECONDS = 1
HISTORY_SECONDS = 7_200
"""The age of a local Base's first block, so that its pools have a history."""


CHAIN_IDS: Final = {"base": 8453, "stock": 4663}
"""The two chains of the product."""


@dataclass(frozen=True)
class LocalChain:
    """A running chain of the stack."""

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
        raise StackError(f"{option}: {url} does not answer as an Ethereum node ({error}).") from None
    if served != chain_id:
        raise StackError(f"{option}: {url} serves chain {served}, not {chain_id}; give it a node of that chain.")


def _check_origin(name: str, fork_url: str | None, state: State, *, fresh: bool) -> None:
    """Refuse to use a forked chain's saved state for a local chain, or a local chain's state for a fork."""
    origin = "fork" if fork_url else "local"
    key = f"{name}_origin"
    remembered = state.remembered().get(key)
    if not fresh and remembered is not None and remembered != origin:
        raise StackError(
            f"the state folder {state.root} holds a {remembered} chain {CHAIN_IDS[name]}; "
            f"use another folder with --state DIR to run a {origin} one."
        )
    state.remember(**{key: origin})
