"""Deploying the Base side: the settlement wallet with its resolver, lister and pauser, our observation feeds, and who
may do what on them.

A feed is not allowed here: it needs a fresh reading first, which its publisher posts once the service runs. After that
the Safe allows it; see `feeds.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_utils.crypto import keccak

from core.contracts.deployments import Deployment
from scripts._deploy.journal import Journal
from scripts._deploy.record import deployed, numbered
from scripts._deploy.siblings import Siblings
from scripts._deploy.stock import PAUSER_ROLE

RELAYER = keccak(text="RELAYER")
CREDITOR = keccak(text="CREDITOR")

ROLES = {
    "SettlementWallet": "holds the stakes of all agent markets, keeps their books and pays winners; the Safe owns it",
    "FeedResolver": "settles agent markets from the readings of their feeds; it has no owner",
    "AgentLister": "lists agent markets within the Safe's bounds, on feeds of the Safe's list; the Safe owns it",
    "Pauser": PAUSER_ROLE,
}


@dataclass(frozen=True)
class Holders:
    """The holders of powers from the deployment on."""

    listers: Sequence[str]
    relayers: Sequence[str]
    creditors: Sequence[str]
    guardians: Sequence[str]
    publisher: str

    def steps(self) -> list[str]:
        """In words, for whoever confirms."""
        return [
            *(f"let {one} list agent markets" for one in self.listers),
            *(f"let {one} settle x402 payments (RELAYER)" for one in self.relayers),
            *(f"let {one} book payments that came by themselves (CREDITOR)" for one in self.creditors),
            *(f"let {one} stop new stakes" for one in self.guardians),
            f"let {self.publisher} post observations",
        ]

    def wallets(self) -> dict[str, str]:
        """As the deployment file names them."""
        relays = {f"relay {number}": one for number, one in enumerate(self.relayers)}
        return {
            "publisher": self.publisher,
            **numbered("lister", self.listers),
            **numbered("creditor", self.creditors),
            **numbered("guardian", self.guardians),
            **relays,
        }


def contract_name(key: str) -> str:
    """What an observation feed is called in the deployment file: `ObservationFeed BNKR/market_cap`."""
    return f"ObservationFeed {key}"


def bounds_of(facts: Deployment) -> dict[str, int]:
    """The Safe's bounds of agent markets, as IAgentLister.Bounds names them."""
    return {
        "feeBps": facts.param("feeBps"),
        "minWeight": facts.param("minWeightUnits"),
        "maxWeight": facts.param("maxWeightUnits"),
        "disputeWindow": facts.param("disputeWindowSeconds"),
        "voidDelay": facts.param("voidDelaySeconds"),
    }


def deploy(
    sender: Any,
    project: Any,
    facts: Deployment,
    safe: str,
    journal: Journal,
    *,
    holders: Holders,
    feeds: Sequence[str],
    max_lag_seconds: int,
) -> None:
    """Deploy and give out the powers; ownership of everything is offered to the Safe, which has to accept it.

    `safe` becomes the treasury of the settlement wallet and the pauser its guardian, both for good.
    """
    new = Siblings(sender, project, ROLES, journal)
    wallet = new.put(
        "SettlementWallet",
        token=facts.token("USDC").address,
        lister=new["AgentLister"],
        resolver=new["FeedResolver"],
        guardian=new["Pauser"],
        treasury=safe,
        owner=sender.address,
    )
    new.put("FeedResolver", settler=new["SettlementWallet"], lister=new["AgentLister"])
    lister = new.put(
        "AgentLister",
        settler=new["SettlementWallet"],
        resolver=new["FeedResolver"],
        owner=sender.address,
        bounds=bounds_of(facts),
    )
    pauser = new.put("Pauser", target=new["SettlementWallet"], owner=sender.address)
    for role, accounts in ((RELAYER, holders.relayers), (CREDITOR, holders.creditors)):
        for account in accounts:
            wallet.setRole(role, account, True, sender=sender)
    for account in holders.listers:
        lister.setLister(account, True, sender=sender)
    for account in holders.guardians:
        pauser.setGuardian(account, True, sender=sender)
    for owned in (wallet, lister, pauser):
        owned.transferOwnership(safe, sender=sender)
    for key in feeds:
        args = {"owner": sender.address, "description": key, "maxLag": max_lag_seconds}
        feed = sender.deploy(project.ObservationFeed, *args.values())
        purpose = f"append-only record of {key}, written by the publisher"
        journal.stands(contract_name(key), deployed(feed, purpose, args))
        feed.setPublisher(holders.publisher, sender=sender)
        feed.transferOwnership(safe, sender=sender)
