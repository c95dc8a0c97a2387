"""A deployment's course: what cannot be recorded is never sent, and what stands is never forgotten."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.contracts.deployments import ContractInfo, load_deployment
from core.contracts.feeds import PublishedFeed
from core.paths import REPOSITORY
from scripts._deploy.flow import Course, Plan
from scripts._deploy.journal import Journal
from scripts._deploy.session import DeploySession, ScriptRefused, plain_refusals
from scripts._deploy.siblings import create_address

SAFE, DEPLOYER, PUBLISHER, OWNER, FIRST = (create_address("0x" + "11" * 20, number) for number in range(5))
NAMES = ("SettlementWallet", "ObservationFeed BNKR/market_cap")


@dataclass
class Scene:
    """A chain on which a deployment of two contracts may break off after the first."""

    folder: Path
    breaks: bool = False
    sent: list[str] = field(default_factory=list)

    def plan(self, **changed: Any) -> Plan:
        session = DeploySession(8453, SimpleNamespace(address=DEPLOYER, nonce=7), send=True)
        facts = load_deployment(REPOSITORY / "deployments" / "base.json")
        return replace(Plan(session, facts, self.folder / "base.json", self._bind, SAFE, (), 2), **changed)

    def course(self, **changed: Any) -> Course:
        return replace(Course(NAMES, (), {"publisher": PUBLISHER}, self._deploy, self.sources()), **changed)

    def sources(self, key: str = "BNKR/market_cap", memory: int = 600, times: int = 1) -> Any:
        def made(contracts: Any) -> list[PublishedFeed]:
            numbers = {"max_lag_seconds": 600, "memory_seconds": memory, "max_age_seconds": 3_600, "pot_cap_units": 1}
            return [PublishedFeed(kind="published", key=key, address=contracts[NAMES[1]].address, **numbers)] * times

        return made

    @plain_refusals
    def run(self, plan: Plan | None = None, course: Course | None = None) -> bool:
        project = SimpleNamespace(
            SettlementWallet=SimpleNamespace(at=lambda _at: object()),
            ObservationFeed=SimpleNamespace(at=lambda _at: object()),
        )
        return (plan or self.plan()).carry_out(project, course or self.course())

    def _bind(self, address: str, abi: object) -> Any:
        return SimpleNamespace(address=address, getThreshold=lambda: 1, getOwners=lambda: [OWNER])

    def _deploy(self, safe: str, journal: Journal) -> None:
        assert safe == SAFE
        for number, name in enumerate(NAMES):
            if number and self.breaks:
                raise ConnectionError("the node is gone")
            self.sent.append(name)
            journal.stands(name, ContractInfo(address=create_address(DEPLOYER, number), role="r", deploy_block=9))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_stands_is_recorded_and_the_journal_is_gone(scene: Scene) -> None:
    assert scene.run()
    recorded = load_deployment(scene.folder / "base.json")
    assert list(recorded.contracts) == list(NAMES)
    assert recorded.start_block == 9
    assert recorded.agent_feed("BNKR/market_cap").address == create_address(DEPLOYER, 1)
    assert [path.name for path in scene.folder.iterdir()] == ["base.json"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            lambda scene: {"course": scene.course(wallets={"publisher": PUBLISHER.lower()})},
            r"operatorWallets\.publisher: ",
        ),
        (lambda scene: {"course": scene.course(sources=scene.sources(key="bnkr"))}, "key: string should match"),
        (
            lambda scene: {"course": scene.course(sources=scene.sources(memory=300))},
            r"\(300 s\) is shorter than its lag",
        ),
        (lambda scene: {"course": scene.course(sources=scene.sources(times=2))}, "BNKR/market_cap is listed twice"),
        (lambda scene: {"plan": scene.plan(out=scene.folder / "base.live.json")}, r"belongs in base\.json"),
        (lambda scene: {"plan": scene.plan(out=Path("/dev/null/base.json"))}, "cannot be written"),
        (lambda scene: {"plan": scene.plan(existing_safe=None)}, "needs at least 2 different --safe-owner"),
        (
            lambda scene: {"plan": scene.plan(existing_safe=None, safe_owners=(OWNER, PUBLISHER.lower()))},
            r"owners\[1\]: not an address",
        ),
    ],
)
@pytest.mark.parametrize("send", [True, False])
def test_what_cannot_be_recorded_is_never_sent(scene: Scene, wrong: Any, said: str, send: bool) -> None:
    given = wrong(scene)
    plan = given.get("plan") or scene.plan()
    with pytest.raises(ScriptRefused, match=said):
        scene.run(replace(plan, session=replace(plan.session, send=send)), given.get("course"))
    assert not scene.sent
    assert not list(scene.folder.iterdir())


def test_a_dry_run_leaves_nothing(scene: Scene) -> None:
    plan = scene.plan()
    assert not scene.run(replace(plan, session=replace(plan.session, send=False)))
    assert not scene.sent
    assert not list(scene.folder.iterdir())


def test_what_stands_when_a_deployment_breaks_off_is_found(scene: Scene) -> None:
    scene.breaks = True
    with pytest.raises(ConnectionError):
        scene.run()
    journal = scene.folder / "base.json.unfinished"
    begun, stands = map(json.loads, journal.read_text().splitlines())
    assert begun == {"chainId": 8453, "deployer": DEPLOYER, "firstNonce": 7}
    assert (stands["contract"], stands["address"]) == (NAMES[0], create_address(DEPLOYER, 0))
    assert not (scene.folder / "base.json").exists()

    scene.breaks = False
    with pytest.raises(ScriptRefused, match=r"base\.json\.unfinished tells what stands .* Move that file away"):
        scene.run()
    assert scene.sent == [NAMES[0]]
    journal.rename(scene.folder / "kept")
    assert scene.run()
    assert not journal.exists()
