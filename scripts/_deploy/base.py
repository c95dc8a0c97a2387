"""Deploying the Base side: the settlement wallet, our observation feeds, and the roles on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eth_utils.crypto import keccak

from core.deployments import Deployment
from scripts._deploy.record import Deployed

LISTER = keccak(text="LISTER")
RELAYER = keccak(text="RELAYER")
GUARDIAN = keccak(text="GUARDIAN")

SETTLEMENT_ROLE = "takes stakes, keeps every market's book, pays winners from the same balance; the Safe owns it"
MAX_LAG_SECONDS = 600  # an observation older than this cannot be posted


def contract_name(key: str) -> str:
    """What an observation feed is called in the deployment file: `ObservationFeed BNKR/market_cap`."""
    return f"ObservationFeed {key}"


def deploy(
    sender: Any,
    project: Any,
    facts: Deployment,
    safe: str,
    *,
    listers: Sequence[str],
    relayers: Sequence[str],
    publisher: str,
    feeds: Sequence[str],
) -> dict[str, Deployed]:
    """Deploy and give out the roles; ownership of everything is offered to the Safe, which has to accept it."""
    out: dict[str, Deployed] = {}

    def put(name: str, container: Any, **args: Any) -> Any:
        instance = sender.deploy(container, *args.values())
        out[name] = Deployed.of(instance, args)
        return instance

    token = facts.token("USDC").address
    settlement = put("SettlementWallet", project.SettlementWallet, token=token, owner=sender.address, treasury=safe)
    grants = [(LISTER, one) for one in listers] + [(RELAYER, one) for one in relayers] + [(GUARDIAN, safe)]
    for role, account in grants:
        settlement.setRole(role, account, True, sender=sender)
    settlement.transferOwnership(safe, sender=sender)
    for key in feeds:
        feed = put(
            contract_name(key),
            project.ObservationFeed,
            owner=sender.address,
            description=key,
            maxLag=MAX_LAG_SECONDS,
        )
        feed.setPublisher(publisher, sender=sender)
        feed.transferOwnership(safe, sender=sender)
    return out


def roles(feeds: Sequence[str]) -> dict[str, str]:
    """Each contract's role in a sentence, for the deployment file and the proof page."""
    observed = {contract_name(key): f"append-only record of {key}, written by the publisher" for key in feeds}
    return {"SettlementWallet": SETTLEMENT_ROLE, **observed}
