"""Finds the running local stack of this checkout, for commands that have no other settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.config import environment
from scripts._stack.options import DEFAULT_STATE
from scripts._stack.state import State, running

# If one of these settings is set, a command does not use the local stack.
NAMES = ("DATABASE_URL", "VPM_BASE_RPC_URLS", "VPM_STOCK_RPC_URLS", "VPM_DEPLOYMENTS_DIR")


@dataclass(frozen=True)
class Stack:
    """A running stack: its URL, and the settings with which a command uses it."""

    base_url: str
    variables: Mapping[str, str]


def local_stack(variables: Mapping[str, str], root: Path = DEFAULT_STATE) -> Stack | None:
    """Return the running local stack. Return None if none is running, if it is still starting, or if the settings name
    another service."""
    given = environment(variables)
    if any(name in given for name in NAMES) or not running(root):
        return None
    try:
        ready = json.loads(State(root).ready.read_text())
    except (OSError, ValueError):
        return None  # it is still starting
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
