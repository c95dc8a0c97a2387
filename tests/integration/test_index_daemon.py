"""The daemon as production runs it: two at once, a takeover, health and metrics, and the commands."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from core.chain import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider
from core.config import Settings
from core.db.engine import conninfo
from core.errors import EXIT_UNAVAILABLE
from indexer.cli import EXIT_DIFFERS, _each_chain
from indexer.node import RpcNode
from indexer.sources import Sources, sources_of
from scripts._local.anvil import ask
from scripts._local.process import Program
from tests.conftest import StartAnvil, TestPostgres
from tests.support import programs, questions
from tests.support.genesis import Genesis, RunningChain, chain, genesis
from tests.support.index_activity import StockPlayers
from tests.support.index_tables import contents, differences, fresh_index
from tests.support.prometheus import samples
from tests.waiting import PATIENCE, wait

TAKEOVER_SECONDS = 10.0
FINALIZED_BACK = 64  # blocks below its head that anvil calls final
GIVEN_UP_SECONDS = 5
QUICK = f"""
import core.db.engine
core.db.engine.IDLE_IN_TRANSACTION_MS = {GIVEN_UP_SECONDS * 1000}
import core.db.leader, indexer.service
core.db.leader.HUNG_SECONDS = {GIVEN_UP_SECONDS}
indexer.service.MEASURE_SECONDS = 0.5
from indexer.cli import main
"""
"""The daemon with shorter timeouts."""
RUNS = f"{QUICK}main([])"
STOPS_IN_A_PAGE = f"""
{QUICK}
import os, signal
from indexer.store import tables

def stop(*_):
    os.kill(os.getpid(), signal.SIGSTOP)

tables.packed = stop
main([])
"""
"""Stops the daemon while the database stores its first logs."""


@pytest.fixture(scope="module")
def known() -> Genesis:
    return genesis()


@pytest.fixture
def stock(known: Genesis, tmp_path: Path) -> Iterator[RunningChain]:
    with chain(known, "stock", tmp_path / "stock.log", mine_on_demand=True) as running:
        yield running


def environment(running: RunningChain, known: Genesis, url: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("VPM_")},
        "DATABASE_URL": url,
        "VPM_STOCK_RPC_URLS": running.url,
        "VPM_STOCK_WS_URLS": running.ws_url,
        "VPM_DEPLOYMENTS_DIR": str(known.deployments),
        "VPM_INDEXER_METRICS_PORT": "0",
    }


@dataclass
class Daemon:
    process: Program
    ready: Path
    log: Path

    @property
    def metrics_url(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while not self.ready.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        found: str = json.loads(self.ready.read_text())["metrics"]
        return found.removesuffix("/metrics")

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.metrics_url}{path}", timeout=60) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    @property
    def leads(self) -> bool:
        return 'vpm_leader{role="indexer:stock"} 1.0' in self.get("/metrics")[1]


@contextmanager
def daemon(
    folder: Path, name: str, env: dict[str, str], program: Sequence[str] = ("-m", "indexer")
) -> Iterator[Daemon]:
    log, ready = folder / f"{name}.log", folder / f"{name}.ready"
    with log.open("wb") as output:
        process = programs.popen([sys.executable, *program], env | {"VPM_READY_FILE": str(ready)}, output, output)
    try:
        yield Daemon(process, ready, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


IN_A_COPY = (
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'copy%%chain_log%%'"
    " AND wait_event = 'ClientRead' AND state = 'active' AND state_change < now() - interval '1 second'"
)


def cursor(url: str) -> int:
    found = questions.rows(url, "SELECT number FROM chain_cursor")
    return int(found[0][0]) if found else -1


def wait_for(url: str, number: int, seconds: float = PATIENCE) -> None:
    wait(lambda: cursor(url) >= number, lambda: f"block {number}, at {cursor(url)}", seconds, pause=0.02)


def summed(url: str) -> bool:
    with psycopg.connect(conninfo(url)) as connection:
        return connection.execute("SELECT bool_and(summed) FROM chain_cursor").fetchone() == (True,)


async def play(running: RunningChain, steps: int, seed: object) -> int:
    async with ChainProvider((running.url,), chain_id=running.deployment.chain_id) as rpc:
        players = StockPlayers(rpc, running.deployment, seed)
        await players.recount()
        await players.prepare()
        for _ in range(steps):
            await players.step()
        return await players.client.eth.block_number


def command(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return programs.run([sys.executable, "-m", "indexer", *arguments], env)


@pytest.mark.thorough
def test_two_at_once_one_leads_and_the_other_takes_over(
    stock: RunningChain, known: Genesis, fresh_database_url: str, postgres: TestPostgres, tmp_path: Path
) -> None:
    url = fresh_database_url
    env = environment(stock, known, url)
    asyncio.run(play(stock, 10, "before"))
    with daemon(tmp_path, "one", env) as one, daemon(tmp_path, "two", env) as two:
        head = asyncio.run(play(stock, 10, "both"))
        wait_for(url, head)
        assert sorted((one.leads, two.leads)) == [False, True]
        leader, standby = (one, two) if one.leads else (two, one)
        assert leader.get("/health")[0] == standby.get("/health")[0] == 200
        assert f"at block {head} of {head}" in leader.get("/health")[1]
        assert "standing by" in standby.get("/health")[1]
        metrics = leader.get("/metrics")[1]
        assert f'vpm_index_block{{chain="stock"}} {float(head)}' in metrics
        assert 'vpm_index_lag_blocks{chain="stock"} 0.0' in metrics
        leader.process.kill()
        killed_at = time.monotonic()
        leader.process.wait()
        head = asyncio.run(play(stock, 1, "killed"))
        wait_for(url, head, TAKEOVER_SECONDS)
        took = time.monotonic() - killed_at
        print(f"the standby had indexed a new block {took:.1f} s after the kill")
        assert took < TAKEOVER_SECONDS
        assert standby.leads
        head = asyncio.run(play(stock, 10, "after"))
        wait_for(url, head)
    assert two.process.returncode == 0 or one.process.returncode == 0, "the survivor stopped in an orderly way"
    asyncio.run(_same_as_fresh(stock, postgres, url))


def test_a_leader_that_stops_in_the_middle_of_a_page_is_replaced(
    stock: RunningChain, known: Genesis, fresh_database_url: str, tmp_path: Path
) -> None:
    """Its connections stay open: no PostgreSQL timeout ends a session that waits for the rest of a COPY."""
    url = fresh_database_url
    env = environment(stock, known, url)
    head = asyncio.run(play(stock, 3, "stopped"))
    with daemon(tmp_path, "one", env, ("-c", STOPS_IN_A_PAGE)) as stopped:
        wait(lambda: questions.rows(url, IN_A_COPY), lambda: f"a page in\n{stopped.log.read_text()}", pause=0.1)
        try:
            with daemon(tmp_path, "two", env, ("-c", RUNS)) as standby:
                wait_for(url, head, 2 * GIVEN_UP_SECONDS + 30)
                assert standby.leads
        finally:
            stopped.process.kill()


def test_following_continues_after_the_cursors_row_was_deleted(
    stock: RunningChain, known: Genesis, fresh_database_url: str, postgres: TestPostgres, tmp_path: Path
) -> None:
    url = fresh_database_url
    head = asyncio.run(play(stock, 10, "before"))
    with daemon(tmp_path, "one", environment(stock, known, url)) as one:
        wait_for(url, head)
        with psycopg.connect(conninfo(url)) as connection:
            assert connection.execute("DELETE FROM chain_cursor").rowcount == 1
        head = asyncio.run(play(stock, 10, "after"))
        wait_for(url, head)
        wait(lambda: one.get("/health")[0] == 200, lambda: one.get("/health")[1])
        assert "continuing from the highest stored block" in one.log.read_text()
    with psycopg.connect(conninfo(url)) as connection:  # and while no daemon runs
        connection.execute("DELETE FROM chain_cursor")
    head = asyncio.run(play(stock, 5, "while down"))
    with daemon(tmp_path, "two", environment(stock, known, url)):
        wait_for(url, head)
        wait(lambda: summed(url))
    asyncio.run(_same_as_fresh(stock, postgres, url))


def test_a_standby_whose_node_serves_another_chain_is_not_healthy(
    stock: RunningChain, known: Genesis, anvil: StartAnvil, fresh_database_url: str, tmp_path: Path
) -> None:
    url, env = fresh_database_url, environment(stock, known, fresh_database_url)
    head = asyncio.run(play(stock, 5, "right")) + FINALIZED_BACK
    ask(stock.url, "anvil_mine", hex(FINALIZED_BACK))
    of_that_id = anvil(chain_id=stock.deployment.chain_id)
    ask(of_that_id.url, "anvil_mine", hex(head + 10))
    other = anvil(chain_id=stock.deployment.chain_id + 1)
    with daemon(tmp_path, "leader", env) as leader:
        wait_for(url, head)
        wait(lambda: leader.leads)
        for name, node, said in (
            ("same id", of_that_id, "serves another chain: its block"),
            ("other id", other, f"serves chain {stock.deployment.chain_id + 1}"),
        ):
            with daemon(tmp_path, name, env | {"VPM_STOCK_RPC_URLS": node.url, "VPM_STOCK_WS_URLS": ""}) as standby:
                wait(lambda standby=standby, said=said: said in standby.get("/health")[1], standby.log.read_text)
                assert standby.get("/health")[0] == 503
        with daemon(tmp_path, "right", env) as standby:
            wait(lambda: "standing by" in standby.get("/health")[1])
            assert standby.get("/health")[0] == 200
        assert leader.get("/health")[0] == 200


async def _same_as_fresh(stock: RunningChain, postgres: TestPostgres, url: str) -> None:
    sources = sources_of(stock.deployment, "stock")
    other = postgres.create()
    try:
        async with ChainProvider((stock.url,), chain_id=sources.chain_id) as rpc:
            theirs = await fresh_index(other, RpcNode(rpc), sources)
    finally:
        postgres.drop(other)
    async with await psycopg.AsyncConnection.connect(conninfo(url)) as connection:
        different = differences(await contents(connection), theirs)
    assert not different


@pytest.mark.parametrize(
    ("base", "stock", "code"),
    [
        (True, True, 0),
        (False, True, EXIT_DIFFERS),
        (False, RpcError(RpcErrorKind.TIMEOUT, "no node"), EXIT_DIFFERS),
        (RpcError(RpcErrorKind.TIMEOUT, "no node"), False, EXIT_DIFFERS),
        (RpcError(RpcErrorKind.TIMEOUT, "no node"), True, EXIT_UNAVAILABLE),
        (True, psycopg.OperationalError("gone"), EXIT_UNAVAILABLE),
        (True, ValueError("a fault of ours"), EXIT_UNAVAILABLE),
    ],
)
async def test_a_mismatch_on_one_chain_is_reported_even_if_the_other_fails(
    known: Genesis, database_url: str, base: bool | Exception, stock: bool | Exception, code: int
) -> None:
    results = {"base": base, "stock": stock}

    async def work(_pool: Any, _settings: Any, _chain: Any, sources: Sources) -> bool:
        result = results.pop(sources.name)
        if isinstance(result, Exception):
            raise result
        return result

    settings = Settings.model_validate({"DATABASE_URL": database_url, "VPM_DEPLOYMENTS_DIR": str(known.deployments)})
    assert await _each_chain(settings, None, work) == code
    assert results == {}, "both are looked at"


@pytest.mark.thorough
def test_the_commands_audit_and_rebuild_the_tables(
    stock: RunningChain, known: Genesis, fresh_database_url: str, tmp_path: Path
) -> None:
    url = fresh_database_url
    env = environment(stock, known, url) | {"VPM_BASE_NETWORK": "base", "VPM_LOG_LEVEL": "WARNING"}
    early = command(env, "audit", "--chain", "stock")
    assert early.returncode == EXIT_UNAVAILABLE, early.stderr  # 1 would say that something differs
    assert "not been indexed" in early.stderr
    head = asyncio.run(play(stock, 30, "commands"))
    with daemon(tmp_path, "daemon", env):
        wait_for(url, head)
        # The running indexer waits for the rebuild's transaction, then continues.
        rebuilt = command(env, "rebuild", "--chain", "stock")
        assert rebuilt.returncode == 0, rebuilt.stderr
        assert f"up to block {head}" in rebuilt.stdout
        head = asyncio.run(play(stock, 3, "more"))
        wait_for(url, head)
    audited = command(env, "audit", "--chain", "stock")
    assert audited.returncode == 0, audited.stdout + audited.stderr
    assert "0 mismatches" in audited.stdout


def test_a_changed_row_raises_the_audit_metric_and_a_rebuild_resets_it(
    stock: RunningChain, known: Genesis, fresh_database_url: str, tmp_path: Path
) -> None:
    url = fresh_database_url
    env = environment(stock, known, url) | {"VPM_LOG_LEVEL": "WARNING"}
    head = asyncio.run(play(stock, 10, "metrics"))
    with (
        daemon(tmp_path, "daemon", env, ("-c", RUNS)) as running,
        psycopg.connect(conninfo(url), autocommit=True) as connection,
    ):
        wait_for(url, head)
        # There are no metrics before the first audit, not even a zero.
        assert _audit_metrics(running) == {}
        assert command(env, "audit", "--chain", "stock").returncode == 0
        first = _audit_reported(running, 0)
        assert 0 <= time.time() - first < 60
        connection.execute("UPDATE stock_market SET principal_up = principal_up + 1 WHERE market_id = 1")
        tampered = command(env, "audit", "--chain", "stock")
        assert tampered.returncode == 1
        assert "stock_market 1 principal_up" in tampered.stdout
        assert "\r" not in tampered.stdout
        row = (
            "SELECT mismatches, block_number, jsonb_array_length(detail) > 0 FROM chain_audit ORDER BY id DESC LIMIT 1"
        )
        ((mismatches, *rest),) = connection.execute(row).fetchall()
        assert mismatches > 0
        assert rest == [head, True]
        second = _audit_reported(running, mismatches)
        assert second > first
        assert command(env, "rebuild", "--chain", "stock").returncode == 0
        assert command(env, "audit", "--chain", "stock").returncode == 0
        assert _audit_reported(running, 0) > second


def _audit_metrics(running: Daemon) -> dict[str, float]:
    names = ("vpm_index_audit_mismatches", "vpm_index_audit_timestamp_seconds")
    found = list(samples(running.get("/metrics")[1], names))
    assert all(one["labels"] == {"chain": "stock"} for one in found)
    return {one["name"]: one["value"] for one in found}


def _audit_reported(running: Daemon, mismatches: int) -> float:

    def reported() -> float | None:
        found = _audit_metrics(running)
        same = found.get("vpm_index_audit_mismatches") == mismatches
        return found["vpm_index_audit_timestamp_seconds"] if same else None

    return wait(reported, lambda: f"{mismatches} mismatches in {_audit_metrics(running)}", pause=0.1)


def test_tables_filled_from_other_contracts_are_refused(
    stock: RunningChain, known: Genesis, fresh_database_url: str, tmp_path: Path
) -> None:
    url = fresh_database_url
    env = environment(stock, known, url)
    with daemon(tmp_path, "first", env):
        wait_for(url, 5)
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("""UPDATE chain_cursor SET sources = jsonb_set(sources, '{settler}', '"0xab"')""")
    with daemon(tmp_path, "second", env) as second:
        assert second.process.wait(PATIENCE) == 69
    assert "not in its deployment file" in second.log.read_text()
