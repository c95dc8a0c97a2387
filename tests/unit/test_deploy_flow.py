"""A deployment's course: what cannot be recorded is never sent, and what stands is never forgotten."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from eth_utils.crypto import keccak

from core.contracts.deployments import load_deployment
from core.contracts.feeds import PublishedFeed
from core.paths import REPOSITORY
from scripts._deploy.flow import Course, Plan
from scripts._deploy.safe import SINGLETON
from scripts._deploy.sending import Step
from scripts._deploy.session import ScriptRefused, plain_refusals
from scripts._deploy.siblings import Transactions, create_address

SAFE, DEPLOYER, PUBLISHER, OWNER, FIRST, EMPTY = (create_address("0x" + "11" * 20, number) for number in range(6))
NAMES = ("SettlementWallet", "ObservationFeed BNKR/market_cap")


@dataclass
class Account:
    """The deployer's account and its chain, which may end after the first transaction."""

    chain_id: int = 8453
    address: str = DEPLOYER
    send: bool = True
    local: bool = False
    breaks: bool = False
    mined: dict[str, dict[str, str]] = field(default_factory=dict)
    signatures: list[int] = field(default_factory=list)

    @property
    def provider(self) -> Any:
        return SimpleNamespace(make_request=lambda method, params: self.ask(method, *params))

    def announce(self, what: str) -> None:
        pass

    def goes_ahead(self) -> bool:
        return self.send

    def nonce(self) -> int:
        return 7 + len(self.mined)

    def signed(self, _to: str | None, data: bytes, nonce: int) -> bytes:
        self.signatures.append(nonce)
        return bytes([nonce]) + data

    def ask(self, method: str, *params: Any) -> Any:
        if method == "eth_sendRawTransaction":
            raw = bytes.fromhex(params[0][2:])
            if self.breaks and raw[0] == 8:
                raise ConnectionError("the node is gone")
            digest = "0x" + keccak(raw).hex()
            self.mined[digest] = {"status": "0x1", "blockNumber": "0x9", "transactionHash": digest}
            return digest
        if method == "eth_getTransactionReceipt":
            return self.mined.get(params[0])
        if params[:1] == (EMPTY,):  # an address without code
            return {"eth_getCode": "0x", "eth_getStorageAt": "0x" + "00" * 32}[method]
        return {
            "eth_getTransactionCount": hex(self.nonce()),
            "eth_getCode": "0x60",
            "eth_getStorageAt": "0x" + SINGLETON[2:].rjust(64, "0"),
            "eth_gasPrice": "0x1",
            "eth_estimateGas": "0x5208",
            "eth_getBalance": hex(10**18),
        }[method]


@dataclass
class Scene:
    """A deployment of two contracts."""

    folder: Path
    account: Account = field(default_factory=Account)

    def plan(self, **changed: Any) -> Plan:
        session: Any = self.account
        facts = load_deployment(REPOSITORY / "deployments" / "base.json")
        return replace(Plan(session, facts, self.folder / "base.json", self._bind, SAFE, (), 2), **changed)

    def course(self, **changed: Any) -> Course:
        return replace(Course(NAMES, {}, (), {"publisher": PUBLISHER}, self._add, self.sources()), **changed)

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

    @plain_refusals
    def run(self, plan: Plan | None = None, course: Course | None = None) -> bool:
        project = SimpleNamespace(
            SettlementWallet=SimpleNamespace(at=lambda _at: object()),
            ObservationFeed=SimpleNamespace(at=lambda _at: object()),
        )
        return (plan or self.plan()).carry_out(project, course or self.course())

    def _bind(self, address: str, abi: object) -> Any:
        return SimpleNamespace(address=address, getThreshold=lambda: 2, getOwners=lambda: [OWNER, FIRST])

    def _add(self, new: Transactions, safe: str) -> None:
        assert safe == SAFE
        for number, name in enumerate(NAMES):
            address = create_address(DEPLOYER, 7 + number)
            new.steps.append(Step(f"create {name}", b"code", contract=name, address=address, role="r"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_what_stands_is_recorded_and_the_journal_is_gone(scene: Scene) -> None:
    assert scene.run()
    recorded = load_deployment(scene.folder / "base.json")
    assert list(recorded.contracts) == list(NAMES)
    assert recorded.start_block == 9
    assert recorded.agent_feed("BNKR/market_cap").address == create_address(DEPLOYER, 8)
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
        (lambda scene: {"plan": scene.plan(existing_safe="0x12")}, "'0x12', which is not an address"),
        (
            lambda scene: {"plan": scene.plan(existing_safe=EMPTY)},
            f"--safe names {EMPTY}, which has no code on chain 8453: there is no Safe there",
        ),
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
    scene.account.send = send
    with pytest.raises(ScriptRefused, match=said):
        scene.run(plan, given.get("course"))
    assert not scene.account.signatures
    assert not list(scene.folder.iterdir())


def test_a_dry_run_leaves_nothing(scene: Scene) -> None:
    scene.account.send = False
    assert not scene.run()
    assert not scene.account.signatures
    assert not list(scene.folder.iterdir())


def test_a_deployment_that_breaks_off_goes_on_with_what_was_signed(scene: Scene) -> None:
    scene.account.breaks = True
    with pytest.raises(ConnectionError):
        scene.run()
    journal = scene.folder / "base.json.unfinished"
    begun, *signed = map(json.loads, journal.read_text().splitlines())
    assert (begun["chainId"], begun["deployer"], begun["firstNonce"], begun["safe"]) == (8453, DEPLOYER, 7, SAFE)
    assert [each["nonce"] for each in signed] == [7, 8], "stored before it is sent"
    assert not (scene.folder / "base.json").exists()

    scene.account.breaks = False
    assert scene.run()
    assert scene.account.signatures == [7, 8], "nothing is signed twice"
    assert len(scene.account.mined) == 2
    recorded = load_deployment(scene.folder / "base.json")
    assert recorded.contracts[NAMES[1]].address == create_address(DEPLOYER, 8)
    assert not journal.exists()
