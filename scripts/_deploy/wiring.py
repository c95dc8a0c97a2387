"""What must be true of a deployment, asked of the contracts themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from core.deployments import Deployment
from scripts._deploy import base, safe
from scripts._deploy.flow import binder


@dataclass(frozen=True)
class Finding:
    ok: bool
    what: str


def check(provider: Any, project: Any, bind: Any, deployment: Deployment) -> list[Finding]:
    """Every fact of the file that the chain can confirm, in the order a reader would ask."""
    found = [_equal("chain id", provider.chain_id, deployment.chain_id)]
    if not deployment.is_deployed:
        return [*found, Finding(False, f"{deployment.network} is not deployed, says its file")]
    for name, info in deployment.contracts.items():
        found.append(Finding(len(provider.get_code(info.address)) > 0, f"{name} has code at {info.address}"))
    if not all(one.ok for one in found):
        return found
    contract = binder(project)
    assert deployment.safe is not None
    found += _safe(bind(deployment.safe.address, abi=safe.safe_abi()), deployment)
    if "MarketLister" in deployment.contracts:
        found += _stock(contract, deployment)
    if "SettlementWallet" in deployment.contracts:
        found += _base(contract, deployment)
    return found


def _equal(what: str, found: Any, wanted: Any) -> Finding:
    if found == wanted:
        return Finding(True, f"{what} is {wanted}")
    return Finding(False, f"{what} is {found}, the file says {wanted}")


def _safe(bound: Any, deployment: Deployment) -> Iterator[Finding]:
    assert deployment.safe is not None
    yield _equal("Safe threshold", int(bound.getThreshold()), deployment.safe.threshold)
    yield _equal("Safe owners", tuple(sorted(bound.getOwners())), tuple(sorted(deployment.safe.owners)))


def _stock(contract: Any, deployment: Deployment) -> Iterator[Finding]:
    at = {name: info.address for name, info in deployment.contracts.items()}
    settler = contract("VestedMarkets", at["VestedMarkets"])
    resolver = contract("RoundResolver", at["RoundResolver"])
    lister = contract("MarketLister", at["MarketLister"])
    assert deployment.safe is not None
    treasury = deployment.safe.address
    yield _equal("VestedMarkets token", settler.token(), deployment.token("USDG").address)
    yield _equal("VestedMarkets lister", settler.lister(), at["MarketLister"])
    yield _equal("VestedMarkets guardian", settler.guardian(), treasury)
    yield _equal("VestedMarkets treasury", settler.treasury(), treasury)
    yield _equal("RoundResolver settler", resolver.settler(), at["VestedMarkets"])
    yield _equal("RoundResolver lister", resolver.lister(), at["MarketLister"])
    yield _equal("MarketLister settler", lister.settler(), at["VestedMarkets"])
    yield _equal("MarketLister resolver", lister.resolver(), at["RoundResolver"])
    yield _equal("MarketLister owner", lister.owner(), treasury)
    yield _equal("MarketLister kappa", lister.kappa(), deployment.param("kappa"))
    yield _equal("MarketLister fee (bps)", lister.feeBps(), deployment.param("feeBps"))
    yield _equal("MarketLister void delay (s)", lister.voidDelay(), deployment.param("voidDelaySeconds"))
    for feed in deployment.feeds:
        known = lister.feed(feed.proxy)
        yield Finding(bool(known.allowed), f"{feed.ticker} is allowed with feed {feed.proxy}")
        yield _equal(f"{feed.ticker} stock token", known.stockToken, feed.stock_token)
    for name, wallet in deployment.operator_wallets.items():
        if name.startswith("opener"):
            yield Finding(bool(lister.isOpener(wallet)), f"{name} {wallet} may list")


def _base(contract: Any, deployment: Deployment) -> Iterator[Finding]:
    assert deployment.safe is not None
    treasury = deployment.safe.address
    wallet = contract("SettlementWallet", deployment.contract("SettlementWallet").address)
    yield _equal("SettlementWallet token", wallet.token(), deployment.token("USDC").address)
    yield _equal("SettlementWallet treasury", wallet.treasury(), treasury)
    yield _equal("SettlementWallet owner", wallet.owner(), treasury)
    yield Finding(bool(wallet.hasRole(base.GUARDIAN, treasury)), "the Safe may pause new stakes")
    for name, account in deployment.operator_wallets.items():
        role = {"lister": base.LISTER, "relay": base.RELAYER}.get(name.split(" ")[0])
        if role is not None:
            yield Finding(bool(wallet.hasRole(role, account)), f"{name} {account} has its role")
    publisher = deployment.operator_wallets.get("publisher")
    for source in deployment.observation_feeds:
        feed = contract("ObservationFeed", source.address)
        yield _equal(f"{source.key} owner", feed.owner(), treasury)
        yield _equal(f"{source.key} publisher", feed.publisher(), publisher)
