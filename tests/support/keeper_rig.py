"""A small service for tests of the keeper: both chains, a database, and the real daemons as processes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from core.config import Settings
from core.config.settings import KeeperSettings
from core.contracts.deployments import Deployment
from core.paths import REPOSITORY
from keeper.jobs import BY_NAME, Runner
from keeper.run import RunReport
from keeper.service import open_keeper
from scripts._local.anvil import ask
from scripts._local.process import RunningProcess, SpawnPlan, start_process, stop_together
from scripts._stack import wallets
from tests.support import questions
from tests.support.genesis import Genesis, RunningChain, chain
from tests.support.service import followed
from tests.waiting import PATIENCE, until

T = TypeVar("T")


@dataclass
class Rig:
    """A service. Times are Unix seconds of the stock chain or of Base; amounts are token units."""

    database_url: str
    chains: dict[str, RunningChain]
    folder: Path
    daemons: dict[str, RunningProcess] = field(default_factory=dict)
    extra: dict[str, str] = field(default_factory=dict)

    # ---------------------------------------------------------------- processes

    @property
    def environment(self) -> dict[str, str]:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "DATABASE_URL": self.database_url,
            "VPM_DEPLOYMENTS_DIR": str(self.folder / "deployments"),
            "VPM_STOCK_FINALITY_BLOCKS": "4",
            "VPM_BASE_FINALITY_BLOCKS": "4",
            "VPM_KEEPER_CANARY": "0",
            "VPM_KEEPER_SETTLE_EVERY_SECONDS": "1",
            "VPM_KEEPER_LIST_EVERY_SECONDS": "2",
            "VPM_KEEPER_SNAPSHOT_EVERY_SECONDS": "3",
            "VPM_LOG_FORMAT": "console",
        }
        for name, running in self.chains.items():
            env |= followed(name.upper(), running.url)
        return env | self.extra

    def start(self, *packages: str, **variables: str) -> None:
        for package in packages:
            env = self.environment | variables
            env[f"VPM_{package.split('-')[0].upper()}_METRICS_PORT"] = "0"  # any free port
            if package == "relayer":
                env["VPM_RELAYER_KEYS"] = relayer_keys()
            module = package.split("-")[0]
            plan = SpawnPlan(package, (sys.executable, "-m", module), env=env, cwd=str(REPOSITORY))
            self.daemons[package] = start_process(plan, self.folder / f"{package}.log")

    def stop(self, *packages: str) -> None:
        stop_together([self.daemons.pop(package) for package in packages or tuple(self.daemons)])

    # ---------------------------------------------------------------- the keeper in this process

    async def run(self, job: str, *, dry_run: bool = False, **variables: str) -> RunReport:
        return await run_job(self.environment | variables, job, dry_run=dry_run)

    # ---------------------------------------------------------------- chains

    def ask(self, name: str, method: str, *params: object) -> Any:
        return ask(self.chains[name].url, method, *params)

    def now(self, name: str) -> int:
        return int(self.ask(name, "eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def warp(self, name: str, moment: int) -> None:
        """Move the chain's clock forward to this moment and mine. A clock that is already there is left alone."""
        try:
            self.ask(name, "evm_setNextBlockTimestamp", hex(moment))
        except ValueError:
            if self.now(name) < moment:
                raise
        self.ask(name, "evm_mine")

    @contextmanager
    def no_blocks(self, name: str) -> Iterator[None]:
        self.ask(name, "evm_setIntervalMining", 0)
        try:
            yield
        finally:
            self.ask(name, "evm_setIntervalMining", 1)

    def deployment(self, name: str) -> Deployment:
        return self.chains[name].deployment

    def send(self, name: str, sender: str, to: str, data: bytes) -> dict[str, Any]:
        self.ask(name, "anvil_impersonateAccount", sender)
        sent = {"from": sender, "to": to, "data": "0x" + data.hex(), "gas": hex(5_000_000)}
        transaction = self.ask(name, "eth_sendTransaction", sent)
        self.ask(name, "anvil_stopImpersonatingAccount", sender)
        for _ in range(200):
            receipt = self.ask(name, "eth_getTransactionReceipt", transaction)
            if receipt is not None:
                assert receipt["status"] == "0x1", f"a call to {to} reverted"
                return dict(receipt)
            time.sleep(0.05)
        raise AssertionError("the transaction was not mined")

    # ---------------------------------------------------------------- the database

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Query over one connection, which is reopened while the database fails over."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return questions.rows(self.database_url, query, *values)
            except psycopg.OperationalError:
                questions.let_go(self.database_url)
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    async def works(self) -> None:
        heads = {self.deployment(name).chain_id: int(self.ask(name, "eth_blockNumber"), 16) for name in self.chains}

        def read() -> bool:
            at = dict(self.rows("SELECT chain_id, number FROM chain_cursor WHERE state = 'tail'"))
            return all(at.get(chain_id, -1) >= head for chain_id, head in heads.items())

        await self.until(read, "the index")
        await self.until(lambda: self.rows("SELECT 1 FROM outbox_lane WHERE status = 'ready'"), "the relayer")

    async def until(self, holds: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
        def asked() -> T:
            for name, process in self.daemons.items():
                assert process.alive(), f"{name} ended: {self.tail(name)}"
            return holds()

        def describe() -> str:
            return "\n".join([what, *(f"--- {name}\n{self.tail(name)}" for name in self.daemons)])

        return await until(asked, describe, seconds, pause=0.1)

    def tail(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return "\n".join((self.folder / f"{name}.log").read_text().splitlines()[-25:])
        return ""


async def run_job(env: Mapping[str, str], job: str, *, dry_run: bool = False) -> RunReport:
    settings = Settings.model_validate({k: v for k, v in env.items() if k in _aliases(Settings)})
    how = KeeperSettings.model_validate({k: v for k, v in env.items() if k in _aliases(KeeperSettings)})
    async with open_keeper(settings, how) as keeper:
        return await Runner(keeper).run(BY_NAME[job], dry_run=dry_run)


def relayer_keys() -> str:
    keys = [f"stock:relay+keeper={one.private_key}" for one in wallets.RELAY_LANES[:2]]
    keys += [f"base:relay+keeper={one.private_key}" for one in wallets.RELAY_LANES[2:]]
    keys += [f"stock:opener={wallets.OPENER.private_key}", f"base:lister={wallets.OPENER.private_key}"]
    keys += [f"base:publisher={wallets.PUBLISHER.private_key}", f"base:credit={wallets.CREDITOR.private_key}"]
    return ",".join(keys)


@contextmanager
def rigged(genesis: Genesis, database_url: str, folder: Path, *names: str, block_seconds: float = 1.0) -> Iterator[Rig]:
    """Run chains with a block a second and a migrated database. The test starts the daemons."""
    (folder / "deployments").mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        chains = {}
        for name in ("base", "stock"):
            facts = genesis.state.deployment(name).read_text()
            (folder / "deployments" / f"{name}.json").write_text(facts)
        for name in names or ("base", "stock"):
            log = folder / f"chain-{name}.log"
            chains[name] = stack.enter_context(chain(genesis, name, log, block_seconds=block_seconds))
            # The saved head is as old as the genesis: a keeper that looked before the first block would plan by its
            # clock, and everything it asked for would be too late a second later.
            ask(chains[name].url, "evm_mine")
        rig = Rig(database_url, chains, folder)
        try:
            yield rig
        finally:
            rig.stop()
            questions.let_go(database_url)


def _aliases(settings: Any) -> set[str]:
    return {each.alias for each in settings.model_fields.values()}


def body(report: RunReport) -> str:
    return json.dumps(report.body(), indent=1)
