"""Deploys the Base side: the settlement wallet, its resolver, lister and pauser, our observation feeds, and the roles.
The Safe allows the feeds later (see `feeds.py`). A feed first needs a fresh reading, and its publisher only posts
readings while the service runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eth_utils.crypto import keccak

from core.contracts.deployments import Deployment
from scripts._deploy.sending import Transactions
from scripts._deploy.stock import PAUSER_ROLE, numbered

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
    listers: Sequence[str]
    relayers: Sequence[str]
    creditors: Sequence[str]
    guardians: Sequence[str]
    publisher: str

    def wallets(self) -> dict[str, str]:
        relays = {f"relay {number}": one for number, one in enumerate(self.relayers)}
        return {
            "publisher": self.publisher,
            **numbered("lister", self.listers),
            **numbered("creditor", self.creditors),
            **numbered("guardian", self.guardians),
            **relays,
        }


def contract_name(key: str) -> str:
    return f"ObservationFeed {key}"


def bounds_of(facts: Deployment) -> dict[str, int]:
    return {
        "feeBps": facts.param("feeBps"),
        "minWeight": facts.param("minWeightUnits"),
        "maxWeight": facts.param("maxWeightUnits"),
        "disputeWindow": facts.param("disputeWindowSeconds"),
        "voidDelay": facts.param("voidDelaySeconds"),
    }


def add(
    new: Transactions,
    facts: Deployment,
    safe: str,
    *,
    holders: Holders,
    feeds: Sequence[str],
    max_lag_seconds: int,
) -> None:
    """Add the transactions that deploy everything, grant the roles, and offer ownership to the Safe. The Safe also
    becomes the treasury of the settlement wallet, and the pauser becomes its guardian. Both are permanent."""
    wallet = new.put(
        "SettlementWallet",
        token=facts.token("USDC").address,
        lister=new["AgentLister"],
        resolver=new["FeedResolver"],
        guardian=new["Pauser"],
        treasury=safe,
        owner=new.deployer,
    )
    new.put("FeedResolver", settler=new["SettlementWallet"], lister=new["AgentLister"])
    lister = new.put(
        "AgentLister",
        settler=new["SettlementWallet"],
        resolver=new["FeedResolver"],
        owner=new.deployer,
        bounds=bounds_of(facts),
    )
    pauser = new.put("Pauser", target=new["SettlementWallet"], owner=new.deployer)
    for account in holders.relayers:
        new.call(wallet, f"let {account} settle x402 payments (RELAYER)", "setRole", RELAYER, account, True)
    for account in holders.creditors:
        new.call(wallet, f"let {account} book payments sent directly (CREDITOR)", "setRole", CREDITOR, account, True)
    for account in holders.listers:
        new.call(lister, f"let {account} list agent markets", "setLister", account, True)
    for account in holders.guardians:
        new.call(pauser, f"let {account} stop new stakes", "setGuardian", account, True)
    for name, owned in (("SettlementWallet", wallet), ("AgentLister", lister), ("Pauser", pauser)):
        new.call(owned, f"offer {name} to the Safe", "transferOwnership", safe)
    for key in feeds:
        args = {"owner": new.deployer, "description": key, "maxLag": max_lag_seconds}
        purpose = f"append-only record of {key}, written by the publisher"
        feed = new.create("ObservationFeed", contract_name(key), purpose, args)
        new.call(feed, f"let {holders.publisher} post {key}", "setPublisher", holders.publisher)
        new.call(feed, f"offer {contract_name(key)} to the Safe", "transferOwnership", safe)
