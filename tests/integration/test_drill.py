"""`vpm drill`: a few drills on a real service, and that none is ever run on anything that is not local."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import aiohttp
import pytest

from core.paths import REPOSITORY
from scripts._drill.__main__ import main
from scripts._drill.audience import Audience
from scripts._drill.catalogue import DRILLS, QUICK
from scripts._drill.drill import Drill, DrillHeld
from scripts._drill.fleet import DidNotHappen, Fleet, FleetSize, fleet
from scripts._drill.guard import NotLocal, require_local
from scripts._drill.load import Load
from scripts._drill.movement import SeenMetrics, judge, watching
from scripts._drill.proxy import Mood, MoodyProxy
from scripts._drill.run import final_checks, run_drills, warm
from scripts._status.table import declared
from tests.conftest import StartAnvil
from tests.support.genesis import Genesis, RunningChain

AUDIENCE = {
    "vpm_agent_event_streams",
    "vpm_agent_event_streams_ended_total",
    "vpm_agent_webhook_deliveries_total",
    "vpm_agent_webhook_delivery_seconds",
    "vpm_agent_webhook_queue_age_seconds",
    "vpm_agent_webhook_sending",
    "vpm_http_rate_limited_total",
}
"""What moves by those who listen, whatever drills are run."""


FIRST = ("reorg",)
REST = tuple(name for name in QUICK if name not in FIRST)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", [FIRST, pytest.param(REST, marks=pytest.mark.thorough)], ids=["first", "rest"])
async def test_drills_hold_and_nothing_is_lost_or_doubled(
    local_genesis: Genesis, tmp_path: Path, names: tuple[str, ...]
) -> None:
    said: list[str] = []
    small = FleetSize(api=1, indexer=2, keeper=1, relayer=1)
    seen = SeenMetrics()
    async with (
        fleet(tmp_path / "fleet", local_genesis.state, small, patience=5.0) as running,
        Load(running) as load,
        Audience(load),
        watching(running, seen),
    ):
        await warm(running, load, said.append)
        results = await run_drills(running, [DRILLS[name] for name in names], load, said.append)
        assert [one.drill.name for one in results if not one.passed] == [], "\n".join(said)
        assert all(one.recovery_seconds is not None for one in results)
        faults = await final_checks(running, load, said.append)
        assert faults == [], "\n".join(said)
        # What was broken must not hold, or the checks above could not fail.
        load.taken("stock")[0].key = "0x" + "ee" * 32
        again = await final_checks(running, load, said.append)
        assert any("is there 0 times, not 1" in each for each in again), again

        async def nothing(_fleet: Fleet, _load: Load) -> DrillHeld:
            raise DidNotHappen("it did not come")

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):  # that a reader has gone is noticed when next he is written to
                while AUDIENCE & set(judge(declared(), seen).still):
                    await asyncio.sleep(0.5)
        verdict = judge(declared(), seen)
        assert verdict.missing == (), "every daemon exposes what docs/metrics.md says it does"
        assert not AUDIENCE & set(verdict.still), verdict.still

        (failed,) = await run_drills(
            running, [Drill("x", "nothing", "nothing", "nothing", "", nothing)], load, said.append
        )
        assert (failed.passed, failed.happened) == (False, "it did not come")


# ---------------------------------------------------------------- only on local chains


def test_the_local_chains_are_accepted(stock_chain: RunningChain, base_chain: RunningChain) -> None:
    for chain in (stock_chain, base_chain):
        require_local(chain.name, chain.url, chain.deployment)


def test_everything_else_is_refused(stock_chain: RunningChain, base_chain: RunningChain, anvil: StartAnvil) -> None:
    live = stock_chain.deployment.model_copy(update={"kind": "arbitrum-orbit"})
    other = anvil(chain_id=4663)
    for name, url, deployment, words in (
        ("stock", "https://rpc.example.org", stock_chain.deployment, "not on this machine"),
        ("stock", stock_chain.url, live, "a arbitrum-orbit network"),
        ("stock", base_chain.url, stock_chain.deployment, "serves chain 8453"),
        ("base", other.url, base_chain.deployment, "serves chain 4663"),
        ("stock", "http://127.0.0.1:9", stock_chain.deployment, "not anvil"),
    ):
        with pytest.raises(NotLocal, match=words):
            require_local(name, url, deployment)


def test_a_ready_file_of_something_else_is_refused(
    stock_chain: RunningChain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = tmp_path / "ready.json"
    rpc = {"base": "https://mainnet.example.org", "stock": stock_chain.url}
    (tmp_path / "deployments").mkdir()
    for name in ("base", "stock"):
        facts = REPOSITORY / "deployments" / f"{name}.json"
        (tmp_path / "deployments" / f"{name}.json").write_text(facts.read_text())
    ready.write_text(json.dumps({"rpc": rpc, "deployments": str(tmp_path / "deployments")}))
    assert main(["kill-api", "--ready", str(ready), "--state", str(tmp_path / "state")]) == 2
    assert "not on this machine" in capsys.readouterr().err
    assert main(["kill-api", "--ready", str(tmp_path / "none"), "--state", str(tmp_path / "state")]) == 2
    assert "no ready file" in capsys.readouterr().err


def test_the_command_line_says_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in DRILLS)
    assert main(["no-such-drill"]) == 2
    assert "there is no drill 'no-such-drill'" in capsys.readouterr().err
    assert main([]) == 2
    assert "--all" in capsys.readouterr().err


# ---------------------------------------------------------------- the bad provider


async def test_a_forgetful_node_leaves_logs_out_of_ranges_alone(base_chain: RunningChain) -> None:
    """One request or several at once; a block's logs by its hash are all there, which is how the gap is noticed."""
    address = base_chain.deployment.contract("SettlementWallet").address

    def question(number: int, where: dict[str, str]) -> dict[str, object]:
        return {"jsonrpc": "2.0", "id": number, "method": "eth_getLogs", "params": [{"address": address, **where}]}

    async with MoodyProxy(base_chain.url) as proxy, aiohttp.ClientSession() as session:

        async def asked(body: object) -> list[list[dict[str, str]]]:
            async with session.post(proxy.url, json=body) as answer:
                told = json.loads(await answer.read())
            each = told if isinstance(told, list) else [told]
            return [one["result"] for one in sorted(each, key=lambda one: int(one["id"]))]

        everything = question(1, {"fromBlock": "0x0", "toBlock": "latest"})
        (logs,) = await asked(everything)
        assert logs
        block = question(2, {"blockHash": logs[0]["blockHash"]})
        proxy.mood = Mood.FORGETFUL
        assert await asked(everything) == [[]]
        ranged, exact = await asked([everything, block])
        assert (ranged, exact) == ([], [log for log in logs if log["blockHash"] == logs[0]["blockHash"]])
        assert proxy.misled == 2
        proxy.mood = Mood.FAITHFUL
        assert await asked(everything) == [logs]


async def test_the_proxy_misleads_only_when_told(base_chain: RunningChain) -> None:
    question = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}
    async with MoodyProxy(base_chain.url) as proxy, aiohttp.ClientSession() as session:

        async def asked() -> bytes:
            async with session.post(proxy.url, json=question, timeout=aiohttp.ClientTimeout(total=1)) as answer:
                return await answer.read()

        assert json.loads(await asked())["result"] == hex(8453)
        proxy.mood = Mood.GARBAGE
        spoiled = [await asked() for _ in range(20)]
        assert all(hex(8453).encode() not in each or b'"id"' not in each for each in spoiled)
        proxy.mood = Mood.GONE
        with pytest.raises(aiohttp.ClientError):
            await asked()
        proxy.mood = Mood.SILENT
        with pytest.raises(TimeoutError):
            await asked()
        proxy.mood = Mood.FAITHFUL
        assert json.loads(await asked())["result"] == hex(8453)
