"""A deployment to a node that has no keys and looks like one of a live network. It asks for confirmation and unlocks
once each, and continues where it was killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from eth_account import Account

from core.contracts.deployments import load_deployment
from core.paths import REPOSITORY
from scripts._local.anvil import ask
from scripts._stack import ape, wallets
from scripts._vpm import bootstrap
from tests.support.genesis import RunningChain
from tests.support.live_node import live_looking

pytestmark = pytest.mark.timeout(1_500)

ALIAS = "live-deployer"
VARIABLE = f"APE_ACCOUNTS_{ALIAS}_PASSPHRASE"


@dataclass
class Operator:
    """An operator with a keyfile account, a deployment file to be written, and a node, on the way to which a command
    may be killed."""

    chain: RunningChain
    folder: Path
    address: str
    kill_at: tuple[int, str] | None = None  # which transaction of a command, and when
    sent: int = 0
    _running: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def file(self) -> Path:
        return self.folder / "stock.json"

    @property
    def journal(self) -> Path:
        return self.folder / "stock.json.unfinished"

    @property
    def nonce(self) -> int:
        return int(ask(self.chain.url, "eth_getTransactionCount", self.address, "latest"), 16)

    def fund(self, wei: int = 10**18) -> None:
        ask(self.chain.url, "anvil_setBalance", self.address, hex(wei))

    def deploy(
        self, *more: str, answer: str = "y\n", passphrase: str | None = ape.PASSPHRASE, **env: str
    ) -> subprocess.CompletedProcess[str]:
        async def run() -> subprocess.CompletedProcess[str]:
            async with ape.ape_lock():
                return await asyncio.to_thread(self._run, more, answer, {**_given(passphrase), **env})

        return asyncio.run(run())

    def _run(self, more: tuple[str, ...], answer: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        self.sent = 0
        with live_looking(self.chain.url, self._on_send) as node:
            options = ["--network", node, "--account", ALIAS, "--deployment", str(self.file)]
            options += ["--opener", wallets.OPENER.address, "--send"]
            for owner in wallets.SAFE_OWNERS:
                options += ["--safe-owner", owner.address]
            self._running = subprocess.Popen(
                [*ape.COMMAND, "run", "deploy_stock", *options, *more],
                env={**os.environ, **bootstrap.environment(), **_folders(self.folder), **env},
                cwd=REPOSITORY,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # without a terminal, where a passphrase would be asked for past us
            )
            said, _ = self._running.communicate(answer, timeout=300)
        return subprocess.CompletedProcess("deploy_stock", self._running.returncode, said, "")

    def _on_send(self, moment: str) -> None:
        if self.kill_at == (self.sent, moment):
            assert self._running is not None
            os.kill(self._running.pid, signal.SIGKILL)
            self._running.wait()
            if moment == "before":
                raise ConnectionError("the caller has gone")
        if moment == "after":
            self.sent += 1


def _given(passphrase: str | None) -> dict[str, str]:
    return {} if passphrase is None else {VARIABLE: passphrase}


def _folders(folder: Path) -> dict[str, str]:
    return {"APE_DATA_FOLDER": str(folder / "ape"), "TMPDIR": str(REPOSITORY / ".vpm" / "env" / "tmp")}


@pytest.fixture
def operator(stock_chain: RunningChain, tmp_path: Path) -> Operator:
    shutil.copy(REPOSITORY / "deployments" / "stock.json", tmp_path)
    made = Account.create()
    key = "0x" + made.key.hex().removeprefix("0x")
    wallets.import_account(tmp_path / "ape", ALIAS, wallets.Wallet("live", made.address, key))
    found = Operator(stock_chain, tmp_path, made.address)
    found.fund()
    return found


def test_one_confirmation_and_one_unlock_deploy_everything(operator: Operator) -> None:
    done = operator.deploy(answer=f"y\n{ape.PASSPHRASE}\n", passphrase=None)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("[y/N]") == 1, "it is confirmed once"
    assert done.stdout.count("passphrase") == 1, "the passphrase is typed once"
    deployment = load_deployment(operator.file)
    assert deployment.is_deployed
    for name, one in deployment.contracts.items():
        assert f"create {name}: " in done.stdout.split("[y/N]")[0], "what is confirmed names it"
        assert ask(operator.chain.url, "eth_getCode", one.address, "latest") != "0x"
    assert " gwei; " in done.stdout.split("[y/N]")[0], "and what it costs"
    assert not operator.journal.exists()


def test_nothing_is_sent_without_passphrase_money_or_consent(operator: Operator, tmp_path: Path) -> None:
    wrong = operator.deploy(passphrase="another")
    assert wrong.returncode == 1
    assert "The passphrase of 'live-deployer' is wrong. Nothing was sent." in wrong.stdout
    assert "Traceback" not in wrong.stdout
    declined = operator.deploy(answer="n\n")
    assert declined.returncode == 1
    operator.fund(10**9)
    poor = operator.deploy()
    assert poor.returncode == 1
    assert "may need" in poor.stdout
    assert "[y/N]" not in poor.stdout
    assert operator.nonce == 0
    assert not operator.journal.exists()
    assert not load_deployment(operator.file).is_deployed

    operator.fund()
    (tmp_path / "passphrase").write_text(ape.PASSPHRASE + "\n")
    by_file = operator.deploy(passphrase=None, **{f"{VARIABLE}_FILE": str(tmp_path / "passphrase")})
    assert by_file.returncode == 0, by_file.stdout


def killed_at(operator: Operator, points: list[tuple[int, str]]) -> None:
    """Kill one command after the other, each at another point, counted in transactions sent. The last one completes."""
    for point in points:
        operator.kill_at = point
        broken = operator.deploy()
        assert broken.returncode == -signal.SIGKILL, broken.stdout
        assert not load_deployment(operator.file).is_deployed
    operator.kill_at = None
    done = operator.deploy()
    assert done.returncode == 0, done.stdout
    deployment = load_deployment(operator.file)
    (listed,) = {int(each) for each in re.findall(r"^\d+ of (\d+): ", done.stdout, re.MULTILINE)}
    assert operator.nonce == listed, "nothing was sent twice, or otherwise than by the list"
    assert len({one.address for one in deployment.contracts.values()}) == 4
    assert not operator.journal.exists()


def test_a_killed_deployment_goes_on_where_it_was(operator: Operator) -> None:
    # Before the first and after it; in the middle; and at the end of what is left.
    killed_at(operator, [(0, "before"), (0, "after"), (3, "before"), (2, "after")])


@pytest.mark.thorough
def test_a_deployment_survives_kills_at_every_step(operator: Operator) -> None:
    """Each command gets one transaction further and is killed when that is stored but not sent, or sent but not yet
    reported. The last is killed when everything is sent and nothing recorded."""
    counted = operator.deploy(answer="n\n").stdout
    steps = sum(": " in line and line.strip()[:1].isdigit() for line in counted.splitlines())
    killed_at(operator, [point for _ in range(steps) for point in ((0, "before"), (0, "after"))])


def test_a_torn_journal_and_other_options_are_no_trap(operator: Operator) -> None:
    operator.kill_at = (2, "after")
    assert operator.deploy().returncode == -signal.SIGKILL
    operator.kill_at = None
    other = operator.deploy("--guardian", wallets.GUARDIAN.address)
    assert other.returncode == 1
    assert "belongs to another deployment" in other.stdout
    with operator.journal.open("a") as journal:
        journal.write(json.dumps({"nonce": 3})[:-3])  # killed while it wrote the next
    done = operator.deploy()
    assert done.returncode == 0, done.stdout


def test_an_account_that_sent_another_transaction_is_refused(operator: Operator) -> None:
    operator.kill_at = (1, "before")
    assert operator.deploy().returncode == -signal.SIGKILL
    operator.kill_at = None
    ask(operator.chain.url, "anvil_impersonateAccount", operator.address)
    transfer = {"from": operator.address, "to": wallets.DEPLOYER.address, "value": "0x1"}
    ask(operator.chain.url, "eth_sendTransaction", transfer)
    ask(operator.chain.url, "anvil_stopImpersonatingAccount", operator.address)
    refused = operator.deploy()
    assert refused.returncode == 1
    assert "another transaction used nonce" in refused.stdout
