"""What must be true of a deployment, asked of the contracts themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eth_utils.address import to_canonical_address, to_checksum_address
from hexbytes import HexBytes

from core.deployments import ContractInfo, Deployment
from scripts._deploy import base, safe
from scripts._deploy.flow import binder
from scripts._deploy.stock import create_address


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
    found += [_code(provider, project, name, info) for name, info in deployment.contracts.items()]
    if "SettlementWallet" in deployment.contracts:
        at = to_checksum_address(_first_child(deployment.contract("SettlementWallet").address))
        judge = _made(provider, bytes(project.MarketJudge.contract_type.get_deployment_bytecode()), at)
        found.append(_same("MarketJudge of the SettlementWallet", judge, _code_at(provider, at)))
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


def _code(provider: Any, project: Any, name: str, info: ContractInfo) -> Finding:
    """Whether what stands there is what these sources make, immutables and metadata included."""
    container = getattr(project, name.split(" ", 1)[0])
    code = container.contract_type.get_deployment_bytecode()
    arguments = container.constructor.encode_input(*info.constructor_args.values())
    made = _made(provider, bytes(code) + bytes(arguments), info.address)
    # A child that is made in construction, like the settlement wallet's judge, got its address then; a second one would
    # get another. So where the child's address stands in the code is not compared.
    child, there = _first_child(info.address), _code_at(provider, info.address)
    for found in re.finditer(re.escape(child), there):
        made = made[: found.start()] + child + made[found.end() :]
    return _same(name, made, there)


def _made(provider: Any, creation: bytes, address: str) -> bytes:
    """What the constructor returns when it runs once more at the contract's own address, for this call alone."""
    pretended = {address: {"code": "0x" + creation.hex()}}
    return bytes(HexBytes(provider.make_request("eth_call", [{"to": address}, "latest", pretended])))


def _code_at(provider: Any, address: str) -> bytes:
    return bytes(HexBytes(provider.get_code(address)))


def _first_child(parent: str) -> bytes:
    return to_canonical_address(create_address(parent, 1))


def _same(name: str, made: bytes, there: bytes) -> Finding:
    same = made == there
    return Finding(same, f"{name} {'is' if same else 'is not'} what these sources compile to")


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
