"""Handing ownership to the Safe: each contract was offered to it, and now it has to accept."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import click

from core.contracts.deployments import Deployment
from scripts._deploy import safe as safes

OWNER_KEYS_VARIABLE = "VPM_SAFE_OWNER_KEYS"  # local stacks only; on a live network owners sign in their own wallets


def owner_keys() -> list[str]:
    return [key for key in os.environ.get(OWNER_KEYS_VARIABLE, "").split(",") if key]


def pending(contract: Any, deployment: Deployment) -> Iterator[tuple[str, safes.SafeCall]]:
    """What the Safe still has to accept, by contract name. `contract(address)` binds one of ours with its ABI."""
    assert deployment.safe is not None
    for name, info in deployment.contracts.items():
        bound = contract(name, info.address)
        if not hasattr(bound, "pendingOwner"):
            continue
        if bound.pendingOwner() == deployment.safe.address:
            data = bytes(bound.acceptOwnership.encode_input())
            yield name, safes.SafeCall(info.address, data, f"accept the ownership of {name}")


def accept_all(sender: Any, safe: Any, calls: Sequence[tuple[str, safes.SafeCall]], keys: Sequence[str]) -> None:
    """Execute the acceptances with the owners' keys, or print what the owners have to sign."""
    for _, call in calls:
        if keys:
            safes.execute(sender, safe, call, keys)
            click.echo(f"the Safe did: {call.what}")
        else:
            click.echo(call.payload(safe.address))
