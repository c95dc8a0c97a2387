"""`./vpm up` as a person runs it: what it prints, what it does when something fails, and that no process outlives
it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
import requests

from core.db.engine import conninfo
from core.paths import REPOSITORY
from scripts._local.anvil import ask
from scripts._local.ports import free_port
from scripts._vpm.cli import local_stack
from tests.support.genesis import Genesis, RunningChain
from tests.support.programs import children
from tests.support.stack import Stack, gone, tree
from tests.waiting import PATIENCE, wait

NOTICED_SECONDS = 3.0

T = TypeVar("T")

pytestmark = pytest.mark.timeout(420)


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def new_stack(local_genesis: Genesis, tmp_path: Path) -> Iterator[Callable[..., Stack]]:
    """Start stacks whose chains already carry the genesis, which takes seconds; stop all afterwards."""
    started: list[Stack] = []
    tmp_path.chmod(0o755)  # as root, PostgreSQL runs as another user, who has to get in

    def start(name: str = "state", *flags: str, empty: bool = False, **options: Any) -> Stack:
        state = tmp_path / name
        if not state.exists() and not empty:
            shutil.copytree(local_genesis.state.root, state)
        started.append(Stack(state, tmp_path / f"output-{len(started)}", *flags, **options))
        return started[-1]

    yield start
    for stack in started:
        stack.end()


def test_a_stack_prints_everything_and_stops_without_a_trace(new_stack: Callable[..., Stack]) -> None:
    stack = new_stack()
    ready = stack.ready()
    _refused(new_stack(), "another stack", "--state")
    assert stack.ready_file.stat().st_mode & 0o777 == 0o600, "it holds keys and the database's password"
    assert ready["base_url"] == f"http://127.0.0.1:{stack.port}"
    assert ready["chains"] == {"base": 8453, "stock": 4663}
    wanted = {
        "base": {
            "USDC",
            "SettlementWallet",
            "FeedResolver",
            "AgentLister",
            "Pauser",
            "ObservationFeed BNKR/daily_volume",
            "PoolFeed BNKR/market_cap",
            "Safe",
        },
        "stock": {"USDG", "VestedMarkets", "RoundResolver", "MarketLister", "Pauser", "Safe", "NVDA", "NVDA feed"},
    }
    for name, names in wanted.items():
        url = ready["rpc"][name]
        assert int(ask(url, "eth_chainId"), 16) == ready["chains"][name]
        assert names <= ready["addresses"][name].keys()
        for address in ready["addresses"][name].values():
            assert len(ask(url, "eth_getCode", address, "latest")) > 2, f"nothing at {address} on {name}"
    assert ready["addresses"]["base"]["USDC"] == "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
    assert len(ready["cron_secret"]) >= 16
    assert set(ready["metrics"]) <= {"indexer", "relayer", "keeper", "api"}
    with psycopg.connect(conninfo(ready["database_url"])) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() is not None
    _dev_wallets_are_funded(ready)
    assert _get(f"{ready['base_url']}/api/cup/v1/markets")["meta"], "without a window of the cup it would answer 409"

    found = local_stack({}, stack.state)
    assert found is not None, "commands in the checkout would not find it"
    audit = [sys.executable, "-m", "indexer", "audit"]
    said = subprocess.run(
        audit, env={"PATH": os.environ["PATH"], **found}, cwd=REPOSITORY, check=False, capture_output=True
    )
    assert said.returncode == 0, said.stdout + said.stderr

    family = tree(stack.process.pid)
    ports = [int(url.rsplit(":", 1)[1]) for url in ready["rpc"].values()]
    assert stack.stop(signal.SIGINT) == 0
    assert gone(family, 1)
    assert not any(_listening(port) for port in ports)
    assert not stack.ready_file.exists()
    assert local_stack({}, stack.state) is None


# Requests a second while nothing happens, with blocks every second: a few readers, not every block by every daemon.
IDLE_RATES = {"indexer": 7.0, "api": 1.5, "keeper": 2.5, "relayer": 2.5}
IDLE_SECONDS = 30.0


@pytest.mark.thorough
def test_an_idle_stack_asks_its_nodes_little(new_stack: Callable[..., Stack]) -> None:
    metrics = new_stack().ready()["metrics"]
    time.sleep(IDLE_SECONDS)  # until the first markets are listed
    before, began = {each: _node_requests(metrics[each]) for each in IDLE_RATES}, time.monotonic()
    time.sleep(IDLE_SECONDS)
    seconds = time.monotonic() - began
    rates = {each: (_node_requests(metrics[each]) - before[each]) / seconds for each in IDLE_RATES}
    assert all(rates[each] <= most for each, most in IDLE_RATES.items()), rates


def _node_requests(url: str) -> float:
    """Return how many requests a daemon has sent to nodes."""
    lines = requests.get(url, timeout=PATIENCE).text.splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("vpm_rpc_requests_total{"))


@pytest.mark.thorough
def test_one_of_two_stacks_survives_the_other_and_goes_on_where_it_was(new_stack: Callable[..., Stack]) -> None:
    stack, other = new_stack(), new_stack("other")
    ready, elsewhere = stack.ready(), other.ready()
    assert not set(ready["rpc"].values()) & set(elsewhere["rpc"].values())
    assert ready["database_url"] != elsewhere["database_url"]
    _ends_when_killed(other, "chain-stock", "--chain-id 4663")
    assert stack.process.poll() is None
    height = int(ask(ready["rpc"]["stock"], "eth_blockNumber"), 16)
    assert stack.stop(signal.SIGINT) == 0
    _keeps_chains_and_addresses(new_stack(), ready, height)


def _keeps_chains_and_addresses(again: Stack, first: dict[str, Any], height: int) -> None:
    """Restart the stack, and check that what was mined before is still there."""
    second = again.ready()
    assert second["addresses"] == first["addresses"]
    assert second["rpc"] == first["rpc"]
    assert second["cron_secret"] == first["cron_secret"]
    assert int(ask(second["rpc"]["stock"], "eth_blockNumber"), 16) >= height
    _ends_when_killed(again, "postgres", "postgres")


def _dev_wallets_are_funded(ready: dict[str, Any]) -> None:
    balance_of = "0x70a08231" + "0" * 24
    for name, token in (("base", "USDC"), ("stock", "USDG")):
        for wallet in ready["dev_wallets"]:
            call = {"to": ready["addresses"][name][token], "data": balance_of + wallet["address"][2:]}
            assert int(ask(ready["rpc"][name], "eth_call", call, "latest"), 16) > 0
            assert int(ask(ready["rpc"][name], "eth_getBalance", wallet["address"], "latest"), 16) > 0


def _get(url: str, **query: object) -> dict[str, Any]:
    with requests.Session() as session:
        session.trust_env = False
        answer = session.get(url, params={name: str(value) for name, value in query.items()}, timeout=30)
        answer.raise_for_status()
        return dict(answer.json())


def _ends_when_killed(stack: Stack, name: str, sign: str) -> None:
    """Kill a part, which `sign` identifies, and check that the stack names it and ends."""
    family = tree(stack.process.pid)
    victim = next(pid for pid in children(stack.process.pid) if sign in _command(pid))
    os.kill(victim, signal.SIGKILL)
    killed_at = time.monotonic()
    while f"{name} was killed by SIGKILL" not in stack.output:
        assert time.monotonic() - killed_at < NOTICED_SECONDS + 30, stack.output
        time.sleep(0.02)
    assert stack.process.wait(PATIENCE) == 1
    assert gone(family, 1)


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@pytest.mark.thorough
def test_forks_of_live_chains_get_contracts_and_funded_wallets_and_go_with_their_launcher(
    new_stack: Callable[..., Stack], base_chain: RunningChain, stock_chain: RunningChain
) -> None:
    forks = ("--fork-base", base_chain.url, "--fork-stock", stock_chain.url)
    stack = new_stack("forked", *forks, empty=True)
    ready = stack.ready()
    for name, live in (("base", base_chain), ("stock", stock_chain)):
        height = int(ask(live.url, "eth_blockNumber"), 16)
        assert int(ask(ready["rpc"][name], "eth_blockNumber"), 16) > height
    # Deployed anew on the forks, which carry the live chains' tokens and feeds.
    assert ready["addresses"]["stock"]["VestedMarkets"] != stock_chain.deployment.contract("VestedMarkets").address
    assert ready["addresses"]["base"]["USDC"] == base_chain.deployment.token("USDC").address
    _dev_wallets_are_funded(ready)
    family = tree(stack.process.pid)
    assert family
    stack.process.kill()  # as soon as it is ready: what it deployed is on the disk already
    stack.process.wait()
    assert gone(family, 5)
    local = Stack(stack.state, stack.ready_file.parent / "again", port=free_port())
    _refused(local, "was made with a fork chain", "--state")


@pytest.mark.thorough
def test_a_stack_that_is_killed_while_it_deploys_leaves_no_process(new_stack: Callable[..., Stack]) -> None:
    stack = new_stack("killed", empty=True)
    log = stack.state / "logs" / "deploy.log"
    wait(lambda: log.exists() and "has its tokens" in log.read_text(), "a deployment that is under way")
    family = tree(stack.process.pid)
    assert any("_local.forking" in _command(pid) for pid in family)
    stack.process.kill()
    stack.process.wait()
    assert gone(family, 5)


@pytest.mark.thorough
def test_a_fork_of_another_chain_is_one_sentence(new_stack: Callable[..., Stack], base_chain: RunningChain) -> None:
    stack = new_stack("wrong", "--fork-stock", base_chain.url, empty=True)
    _refused(stack, "--fork-stock", "serves chain 8453, not 4663")


def _refused(stack: Stack, *parts: str) -> None:
    assert stack.process.wait(PATIENCE) == 1
    sentence = stack.output.strip().splitlines()[-1]
    assert sentence.startswith("vpm: ")
    for part in parts:
        assert part in sentence
    assert not stack.ready_file.exists()


@pytest.mark.thorough
def test_an_occupied_port_is_one_sentence(new_stack: Callable[..., Stack]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        _refused(new_stack(port=port), f"port {port} is in use", "--port")


def test_an_unusable_state_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    stack = Stack(tmp_path / "file" / "state", tmp_path / "output")
    _refused(stack, "cannot use the state folder", "Not a directory")


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    # Three files and folders more and this disk is full; an ordinary user mounts it in a namespace of their own.
    up = f"./vpm up --no-demo --state {disk}/state --port {free_port()}"
    script = f"mount -t tmpfs -o nr_inodes=3 full {disk} && exec {up}"
    unshared = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert unshared.returncode == 1, unshared.stdout + unshared.stderr
    assert "the disk is full" in unshared.stderr


def test_the_manual_needs_no_set_up_and_an_unknown_command_is_refused() -> None:
    shown = subprocess.run(["./vpm", "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert "./vpm up" in shown
    assert "./vpm test" in shown
    assert (
        "--ready-file"
        in subprocess.run(["./vpm", "up", "--help"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    )
    wrong = subprocess.run(["./vpm", "fly"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "no command 'fly'" in wrong.stderr


@pytest.mark.thorough
def test_a_missing_registry_is_shown_by_what_failed(tmp_path: Path) -> None:
    for name in ("vpm", "requirements.lock", "package.json", "package-lock.json", "pyproject.toml", ".npmrc"):
        shutil.copy2(REPOSITORY / name, tmp_path / name)
    shutil.copytree(REPOSITORY / "scripts" / "_vpm", tmp_path / "scripts" / "_vpm")
    # Nothing listens there. The cache is an empty one, so that nothing can be taken from it instead.
    nowhere = f"http://127.0.0.1:{free_port()}/simple"
    env = {
        **os.environ,
        "PIP_INDEX_URL": nowhere,
        "UV_DEFAULT_INDEX": nowhere,
        "PIP_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        ["./vpm", "up"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "vpm: could not install uv." in done.stderr
    assert "No matching distribution found for uv" in done.stderr, "what pip says of it"
