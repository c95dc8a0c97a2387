"""Deploys the stock markets: a settler with its resolver, lister and pauser. A Safe owns the lister and the pauser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hexbytes import HexBytes

from core.contracts.deployments import Deployment
from core.hexadecimal import hex_of
from scripts._deploy.safe import ZERO
from scripts._deploy.sending import Transactions

PAUSER_ROLE = "lets any guardian stop new bets at once; only the Safe, which owns it, can resume them"
ROLES = {
    "VestedMarkets": "holds the stakes of all stock markets and pays them out; it has no owner",
    "RoundResolver": "settles markets from two proven rounds of a price feed; it has no owner",
    "MarketLister": "lists markets within fixed bounds; the Safe owns it",
    "Pauser": PAUSER_ROLE,
}


def numbered(name: str, accounts: Sequence[str]) -> dict[str, str]:
    """Return the accounts of one role, keyed by their names in the deployment file: `opener`, `opener 1` and so on."""
    return {f"{name} {number}" if number else name: one for number, one in enumerate(accounts)}


def bounds_of(facts: Deployment) -> dict[str, int]:
    return {
        "kappa": facts.param("kappa"),
        "feeBps": facts.param("feeBps"),
        "voidDelay": facts.param("voidDelaySeconds"),
    }


AGGREGATOR = "0x245a7bfc"  # aggregator(), of a Chainlink proxy


def is_svr_aggregator(proxy: str, aggregator_code: bytes) -> bool:
    """Return whether this proxy is the aggregator's SVR proxy, which shows each round some seconds after the round was
    written. A dual aggregator serves a standard proxy and an SVR proxy. No view returns the SVR proxy's address, but
    that address is an immutable, so it is part of the aggregator's code."""
    return bytes(HexBytes(proxy)) in aggregator_code


def is_svr_proxy(provider: Any, proxy: str) -> bool:
    from ape.exceptions import ApeException  # noqa: PLC0415 - only the environment of the ape scripts has it

    try:
        answer = HexBytes(provider.make_request("eth_call", [{"to": proxy, "data": AGGREGATOR}, "latest"]))
    except ApeException:
        return False
    return len(answer) == 32 and is_svr_aggregator(proxy, bytes(provider.get_code(hex_of(answer[-20:]))))


def add(new: Transactions, facts: Deployment, safe: str, *, openers: Sequence[str], guardians: Sequence[str]) -> None:
    """Add the transactions that deploy and connect everything, and offer ownership of the lister and the pauser to the
    Safe. The Safe also becomes the treasury of the settler, and the pauser becomes its guardian. Both are permanent."""
    token = facts.token("USDG").address
    new.put("VestedMarkets", token=token, lister=new["MarketLister"], guardian=new["Pauser"], treasury=safe)
    new.put(
        "RoundResolver",
        settler=new["VestedMarkets"],
        lister=new["MarketLister"],
        sequencerFeed=facts.sequencer_feed or ZERO,
        settleDelay=facts.param("settleDelaySeconds"),
    )
    lister = new.put(
        "MarketLister",
        settler=new["VestedMarkets"],
        resolver=new["RoundResolver"],
        owner=new.deployer,
        **bounds_of(facts),
    )
    pauser = new.put("Pauser", target=new["VestedMarkets"], owner=new.deployer)
    for feed in facts.price_feeds:
        ages = (feed.max_strike_age_seconds, feed.max_final_age_seconds)
        named = (feed.proxy, feed.stock_token, feed.ticker)
        terms = (*ages, feed.side_cap_units, True)
        new.call(lister, f"allow {feed.ticker} with feed {feed.proxy}", "setFeed", *named, *terms)
    for opener in openers:
        new.call(lister, f"let {opener} list markets", "setOpener", opener, True)
    for guardian in guardians:
        new.call(pauser, f"let {guardian} stop new bets", "setGuardian", guardian, True)
    for name, owned in (("MarketLister", lister), ("Pauser", pauser)):
        new.call(owned, f"offer {name} to the Safe", "transferOwnership", safe)
