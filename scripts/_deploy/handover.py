"""Handing ownership to the Safe: each contract was offered to it, and now it has to accept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click

from core.contracts.deployments import Deployment
from scripts._deploy import safe as safes
from scripts._deploy.session import DeploySession

OWNER_KEYS_VARIABLE = "VPM_SAFE_OWNER_KEYS"  # local stacks only; on a live network owners sign in their own wallets


def owner_keys() -> list[str]:
    return [key for key in os.environ.get(OWNER_KEYS_VARIABLE, "").split(",") if key]


def pending(contract: Any, deployment: Deployment) -> Iterator[safes.SafeCall]:
    """Return what the Safe still has to accept. `contract(name, address)` binds one of ours with its ABI."""
    assert deployment.safe is not None
    for name, info in deployment.contracts.items():
        bound = contract(name, info.address)
        if not hasattr(bound, "pendingOwner"):
            continue
        if bound.pendingOwner() == deployment.safe.address:
            data = bytes(bound.acceptOwnership.encode_input())
            yield safes.SafeCall(info.address, data, f"accept the ownership of {name}")


def put_to_safe(session: DeploySession, bind: Any, safe: str, calls: Iterable[safes.SafeCall]) -> None:
    """Executes what the Safe is to do with the owners' keys, or prints what the owners have to sign. `bind` is ape's
    Contract."""
    bound, keys = bind(safe, abi=safes.safe_abi()), owner_keys() if session.send else []
    for call in calls:
        if keys:
            safes.execute(session.sender, bound, call, keys)
            click.echo(f"the Safe did: {call.what}")
        else:
            click.echo(call.payload(bound.address))
