"""Deploying the stock markets: three contracts that know each other from construction, owned by a Safe.

The settler names its lister and the resolver names both, while the lister names the other two; none has a setter. So
the three addresses are computed from the deployer's nonce first and each deployment is checked against its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlp
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.crypto import keccak

from core.deployments import Deployment
from scripts._deploy.record import Deployed

ROLES = {
    "VestedMarkets": "holds the stakes of all stock markets and pays them out; it has no owner",
    "RoundResolver": "settles markets from two proven rounds of a price feed; it has no owner",
    "MarketLister": "lists markets within fixed bounds; the Safe owns it",
}


class AddressMoved(Exception):
    """A contract landed on another address than its siblings were told; nothing of this run may be used."""


def create_address(deployer: str, nonce: int) -> str:
    """The address of the contract that `deployer` creates with `nonce`."""
    return str(to_checksum_address(keccak(rlp.encode([to_canonical_address(deployer), nonce]))[12:]))


def deploy(sender: Any, project: Any, facts: Deployment, safe: str, openers: Sequence[str]) -> dict[str, Deployed]:
    """Deploy and wire everything; the lister's ownership is offered to the Safe, which has to accept it.

    `safe` becomes guardian and treasury of the settler, both for good.
    """
    first = int(sender.nonce)
    settler_at, resolver_at, lister_at = (create_address(sender.address, first + n) for n in range(3))
    out: dict[str, Deployed] = {}

    def put(name: str, expected: str, **args: Any) -> Any:
        instance = sender.deploy(getattr(project, name), *args.values())
        if instance.address != expected:
            raise AddressMoved(
                f"{name} is at {instance.address}, but its siblings expect {expected}: another transaction of "
                f"{sender.address} came in between. Nothing is wired; run the deployment again."
            )
        out[name] = Deployed.of(instance, args)
        return instance

    token = facts.token("USDG").address
    put("VestedMarkets", settler_at, token=token, lister=lister_at, guardian=safe, treasury=safe)
    put("RoundResolver", resolver_at, settler=settler_at, lister=lister_at)
    lister = put(
        "MarketLister",
        lister_at,
        settler=settler_at,
        resolver=resolver_at,
        owner=sender.address,
        kappa=facts.param("kappa"),
        feeBps=facts.param("feeBps"),
        voidDelay=facts.param("voidDelaySeconds"),
    )
    for feed in facts.feeds:
        ages = (feed.max_strike_age_seconds, feed.max_final_age_seconds)
        lister.setFeed(feed.proxy, feed.stock_token, feed.ticker, *ages, True, sender=sender)
    for opener in openers:
        lister.setOpener(opener, True, sender=sender)
    lister.transferOwnership(safe, sender=sender)
    return out
