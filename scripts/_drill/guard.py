"""Drills break things: they run only on chains that are certainly local, and this is what certain means."""

from __future__ import annotations

from urllib.parse import urlsplit

from core.contracts.deployments import Deployment
from core.errors import VpmError
from core.local.anvil import ask
from scripts._stack.chains import CHAIN_IDS

LOCAL = ("127.0.0.1", "::1", "localhost")


class NotLocal(VpmError):
    """The refusal to drill here: one sentence that says why."""


def require_local(name: str, url: str, deployment: Deployment) -> None:
    """NotLocal unless it is an anvil on this machine, not a fork, with a deployment file that says local."""
    if urlsplit(url).hostname not in LOCAL:
        raise NotLocal(f"{url} is not on this machine; drills run on the local stack only.")
    if deployment.kind != "local":
        raise NotLocal(f"{deployment.network}.json describes {deployment.name}, a {deployment.kind} network.")
    try:
        chain_id = int(ask(url, "eth_chainId"), 16)
        node = ask(url, "anvil_nodeInfo")
    except (OSError, ValueError, KeyError):
        raise NotLocal(f"The node at {url} is not anvil; drills run on the local stack only.") from None
    if chain_id != CHAIN_IDS[name] or deployment.chain_id != chain_id:
        raise NotLocal(f"The node at {url} serves chain {chain_id}, not the local {CHAIN_IDS[name]}.")
    if (node.get("forkConfig") or {}).get("forkUrl"):
        raise NotLocal(f"The chain at {url} is a fork of a live one; drills run on the local genesis only.")
