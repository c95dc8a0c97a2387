"""Markets on a real pool feed, run by the daemons alone: recorded, settled and shown with their readings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from core.agent.bet import market_key
from core.chain import Contract
from core.contracts.statuses import AgentMarketStatus, MarketKind
from core.feeds.grid import grid_time
from core.feeds.live import POOL
from keeper.run import RunReport
from scripts._feed.__main__ import main as feed
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, rigged
from tests.support.pool_chain import KEY, STEP, STRANGER, WINDOW, PoolChain, with_pool_feed

pytestmark = pytest.mark.timeout(900)

GROWTH = {"VPM_KEEPER_POOL_OUTAGE_SECONDS": "4600"}  # a few hundred observations more than the local pools have
RECORDED = "SELECT updated_at FROM oracle_round WHERE feed = %s ORDER BY updated_at"


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "base") as running:
        yield running


def pooled(rig: Rig) -> PoolChain:
    running = rig.chains["base"]
    played = with_pool_feed(AgentChain.on(running.url, running.deployment), rig.folder / "deployments")
    rig.chains["base"] = replace(running, deployment=played.agents.deployment)
    rig.extra["VPM_KEEPER_POOL_OUTAGE_SECONDS"] = "0"  # unless the growing is looked at
    return played


def skipped(report: RunReport, target: str) -> list[str]:
    assert report.errors == []
    return [each.reason for each in report.skipped if each.target == target]


def done(report: RunReport, kind: str) -> list[str]:
    assert report.errors == []
    return [each.detail for each in report.actions if each.kind == kind]


async def recorded(rig: Rig, played: PoolChain, *times: int) -> None:
    feed_ = bytes.fromhex(played.feed.address[2:])

    def there() -> bool:
        return set(times) <= {at for (at,) in rig.rows(RECORDED, feed_)}

    await rig.until(there, f"the readings of {times}")


def gauge(name: str, **labels: str) -> float:
    value = REGISTRY.get_sample_value(name, labels)
    assert value is not None, f"{name} was never set for {labels}"
    return value


def status(rig: Rig, identity: str) -> tuple[Any, ...]:
    found = rig.rows("SELECT status, winner FROM agent_market WHERE slug = %s", identity)
    return found[0] if found else (0, None)


@pytest.mark.thorough
async def test_readings_are_recorded_as_markets_need_them_and_decide(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played = pooled(rig)
    rig.start("indexer", "relayer")
    await rig.works()
    identity, terms = played.list(MarketKind.DIRECTION)
    await rig.until(lambda: rig.rows("SELECT 1 FROM agent_market WHERE slug = %s", identity), "the market")
    start, end = (grid_time(terms[each], STEP) for each in ("startAt", "endsAt"))

    # Two keepers at once ask for the start, once.
    played.trade(terms["startAt"] - played.now + STEP)
    await rig.works()

    async def run() -> tuple[int, float]:
        return len(done(await rig.run("agent-record"), "record")), gauge("vpm_feed_behind_seconds", feed=KEY)

    both = await asyncio.gather(run(), run())
    assert sum(records for records, _ in both) == 1
    await recorded(rig, played, start)
    assert max(behind for _, behind in both) >= STEP  # the slower one may find it recorded
    assert done(await rig.run("agent-record"), "record") == []
    assert gauge("vpm_feed_behind_seconds", feed=KEY) == 0
    assert gauge("vpm_feed_lost_readings", feed=KEY) == 0
    for pool in played.feed.pools:
        assert 0.5 < gauge("vpm_pool_depth", feed=KEY, pool=pool.name) < 2  # of what was there when it was set up
        assert gauge("vpm_pool_quiet", feed=KEY, pool=pool.name) < 0.7  # it was traded in

    # A market whose reading can still be recorded waits for it, although an older one is there.
    played.trade(terms["endsAt"] - played.now + 2 * STEP)
    await rig.works()
    assert f"the reading of {end} is not recorded yet" in skipped(await rig.run("agent-resolve"), identity)

    # A stranger is first; the index does not know, and yet nothing is paid for twice.
    rig.stop("indexer")
    played.record(end)
    report = await rig.run("agent-record")
    assert f"recorded but not indexed yet: the reading of {end}" in skipped(report, KEY)
    assert all(str(end) not in each for each in done(report, "record"))
    rig.start("indexer")
    await recorded(rig, played, end)
    assert len(done(await rig.run("agent-resolve"), "resolve")) == 1
    up = played.reading(end) > played.reading(start)
    await rig.until(lambda: rig.rows("SELECT 1 FROM agent_market WHERE status = 2"), "the result")
    assert status(rig, identity) == (AgentMarketStatus.RESOLVED, 0 if up else 1)

    await _grown(rig, played)
    await asyncio.to_thread(_recorded_by_a_stranger, rig, played, monkeypatch, capsys)


async def test_a_crossing_settles_at_once_when_it_is_recorded(rig: Rig) -> None:
    played = pooled(rig)
    rig.start("indexer", "relayer")
    await rig.works()
    identity, terms = played.list(MarketKind.THRESHOLD, early=True, target=played.value() * 9 // 10)
    await rig.until(lambda: rig.rows("SELECT 1 FROM agent_market WHERE slug = %s", identity), "the market")
    played.trade(terms["earlyFrom"] - played.now + 2 * STEP)
    await rig.works()
    assert played.now < terms["endsAt"]
    assert done(await rig.run("agent-resolve"), "resolve") == []  # an unrecorded reading does not count
    assert len(done(await rig.run("agent-record"), "record")) == 1
    await recorded(rig, played, grid_time(terms["earlyFrom"] + STEP - 1, STEP))
    (detail,) = done(await rig.run("agent-resolve"), "resolve")
    assert "reached the target" in detail
    await rig.until(lambda: rig.rows("SELECT 1 FROM agent_market WHERE status = 2 AND winner = 0"), "the result")
    assert played.now < terms["endsAt"]


async def _grown(rig: Rig, played: PoolChain) -> None:
    needed = 4_600 + WINDOW + STEP + 1
    rooms = []
    for _ in range(4):
        report = await rig.run("agent-record", **GROWTH)
        asked = done(report, "grow")
        await rig.until(lambda: not rig.rows("SELECT 1 FROM outbox_intent WHERE outcome IS NULL"), "all mined")
        await rig.works()
        pools = [Contract(each.address, POOL) for each in played.feed.pools]
        rooms.append([played.agents.read(pool.call("slot0"))[4] for pool in pools])
        if not asked:
            break
    assert rooms[0] == [4_400, 4_400]
    assert rooms[-1] == rooms[-2] == [needed, needed]


def _recorded_by_a_stranger(
    rig: Rig, played: PoolChain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    identity, terms = played.list(MarketKind.THRESHOLD, target=played.value())
    played.trade(terms["endsAt"] - played.now + STEP + 1)
    at = grid_time(terms["endsAt"], STEP)
    options = ["record", KEY, "--rpc", played.agents.url, "--deployments", str(rig.folder / "deployments")]
    monkeypatch.delenv("VPM_RECORDER_KEY", raising=False)
    assert feed(options) == 2
    assert "No key was given to pay for gas." in capsys.readouterr().err
    assert feed([*options, "--dry-run"]) == 0
    assert "the reading of" in capsys.readouterr().out
    assert not played.agents.read(played.contract.call("qualityOf", at))
    monkeypatch.setenv("VPM_RECORDER_KEY", STRANGER.private_key)
    assert feed(options) == 0
    assert f"{KEY}: recorded the reading of" in capsys.readouterr().out
    assert played.agents.read(played.contract.call("qualityOf", at)) == 1
    assert feed(options) == 0
    assert f"{KEY}: nothing to record" in capsys.readouterr().out
    assert feed([*options, "--since", "6m"]) == 0
    assert "readings, " in capsys.readouterr().out
    newest = grid_time(played.now - 1, STEP)
    assert all(played.agents.read(played.contract.call("qualityOf", newest - n * STEP)) for n in range(1, 5))
    published = rig.deployment("base").published_feeds[0].key
    assert feed(["record", published, *options[2:]]) == 2
    assert "only its publisher can add values" in capsys.readouterr().err
    played.agents.send(
        played.agents.contracts.resolver.call("resolve(bytes32)", market_key(identity)), wallets.DEV[7].address
    )
