"""A deployment's recipe: nothing is sent that could not be recorded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.contracts.deployments import load_deployment
from core.contracts.feeds import PublishedFeed
from core.paths import REPOSITORY
from scripts._deploy.flow import Plan, Recipe
from scripts._deploy.safe import SINGLETON
from scripts._deploy.sending import Transactions, create_address
from scripts._deploy.session import ScriptRefused, readable_errors

SAFE, DEPLOYER, PUBLISHER, OWNER, FIRST, EMPTY = (create_address("0x" + "11" * 20, number) for number in range(6))
NAMES = ("SettlementWallet", "ObservationFeed BNKR/market_cap")


@dataclass
class Account:
    """The deployer's account and its chain, which fail if anything is sent or signed."""

    chain_id: int = 8453
    address: str = DEPLOYER
    send: bool = True
    local: bool = False

    @property
    def provider(self) -> Any:
        return SimpleNamespace(make_request=lambda method, params: self.ask(method, *params))

    def ask(self, method: str, *params: Any) -> str:
        if params[:1] == (EMPTY,):  # an address without code
            return {"eth_getCode": "0x", "eth_getStorageAt": "0x" + "00" * 32}[method]
        return {"eth_getCode": "0x60", "eth_getStorageAt": "0x" + SINGLETON[2:].rjust(64, "0")}[method]


@dataclass
class Scene:
    folder: Path
    account: Account = field(default_factory=Account)

    def plan(self, **changed: Any) -> Plan:
        session: Any = self.account
        facts = load_deployment(REPOSITORY / "deployments" / "base.json")
        return replace(Plan(session, facts, self.folder / "base.json", self._bind, SAFE, (), 2), **changed)

    def recipe(self, **changed: Any) -> Recipe:
        return replace(Recipe(NAMES, {}, (), {"publisher": PUBLISHER}, self._add, self.sources()), **changed)

    def sources(self, key: str = "BNKR/market_cap", memory: int = 600, times: int = 1) -> Any:
        def made(contracts: Any) -> list[PublishedFeed]:
            numbers = {
                "max_lag_seconds": 600,
                "memory_seconds": memory,
                "max_age_seconds": 3_600,
                "pot_cap_units": 1,
                "feed_cap_units": 1,
            }
            return [PublishedFeed(kind="published", key=key, address=contracts[NAMES[1]].address, **numbers)] * times

        return made

    @readable_errors
    def run(self, plan: Plan | None = None, recipe: Recipe | None = None) -> bool:
        return (plan or self.plan()).execute(SimpleNamespace(), recipe or self.recipe())

    def _bind(self, address: str, abi: object) -> Any:
        return SimpleNamespace(address=address, getThreshold=lambda: 2, getOwners=lambda: [OWNER, FIRST])

    def _add(self, _new: Transactions, _safe: str) -> None:
        raise AssertionError("it went on to what is to be sent")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            lambda scene: {"recipe": scene.recipe(wallets={"publisher": PUBLISHER.lower()})},
            r"operatorWallets\.publisher: ",
        ),
        (lambda scene: {"recipe": scene.recipe(sources=scene.sources(key="bnkr"))}, "key: string should match"),
        (
            lambda scene: {"recipe": scene.recipe(sources=scene.sources(memory=300))},
            r"\(300 s\) is shorter than its lag",
        ),
        (lambda scene: {"recipe": scene.recipe(sources=scene.sources(times=2))}, "BNKR/market_cap is listed twice"),
        (lambda scene: {"plan": scene.plan(out=scene.folder / "base.live.json")}, r"must be written to base\.json"),
        (lambda scene: {"plan": scene.plan(out=Path("/dev/null/base.json"))}, "cannot be written"),
        (lambda scene: {"plan": scene.plan(existing_safe="0x12")}, "--safe '0x12' is not an address"),
        (
            lambda scene: {"plan": scene.plan(existing_safe=EMPTY)},
            f"there is no contract at --safe {EMPTY} on chain 8453",
        ),
        (lambda scene: {"plan": scene.plan(existing_safe=None)}, "needs at least 2 different owners"),
        (
            lambda scene: {"plan": scene.plan(existing_safe=None, safe_owners=(OWNER, PUBLISHER.lower()))},
            r"owners\[1\]: not an address",
        ),
    ],
)
def test_what_cannot_be_recorded_is_never_sent(scene: Scene, wrong: Any, said: str) -> None:
    given = wrong(scene)
    with pytest.raises(ScriptRefused, match=said):
        scene.run(given.get("plan"), given.get("recipe"))
    assert not list(scene.folder.iterdir())
