"""The local stack that runs in this checkout, for commands that were given no settings of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config import environment
from scripts._stack.options import DEFAULT_STATE
from scripts._stack.state import State, running

# Where a command finds the service; if one of them is set, the local stack is not meant.
NAMES = ("DATABASE_URL", "VPM_BASE_RPC_URLS", "VPM_STOCK_RPC_URLS", "VPM_DEPLOYMENTS_DIR")


@dataclass(frozen=True)
class Stack:
    """A stack that runs: where it is, and the variables that lead a command to it."""

    base_url: str
    variables: Mapping[str, str]


def local_stack(variables: Mapping[str, str], root: Path = DEFAULT_STATE) -> Stack | None:
    """Return the local stack; None when something else is set, or none runs."""
    given = environment(variables)
    if any(name in given for name in NAMES) or not running(root):
        return None
    try:
        ready = json.loads(State(root).ready.read_text())
    except (OSError, ValueError):
        return None  # it is just starting
    return Stack(
        ready["base_url"],
        {
            "DATABASE_URL": ready["database_url"],
            "VPM_BASE_RPC_URLS": ready["rpc"]["base"],
            "VPM_STOCK_RPC_URLS": ready["rpc"]["stock"],
            "VPM_DEPLOYMENTS_DIR": ready["deployments"],
            "VPM_PUBLIC_URL": ready["base_url"],
        },
    )
