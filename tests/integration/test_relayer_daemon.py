"""The relayer as a process: it becomes ready, serves its health and metrics, and gives its lanes back when it ends."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from core.outbox import IntentState, LaneStatus
from tests.conftest import StartAnvil
from tests.support.relayer_rig import Relayers, relayer_processes, rigged
from tests.waiting import PATIENCE, until


@pytest.fixture
async def relayers(fresh_database_url: str, anvil: StartAnvil, tmp_path: Path) -> AsyncIterator[Relayers]:
    chain = anvil(chain_id=8453, block_time_seconds=0.5)
    async with rigged(fresh_database_url, chain.url, 8453) as rig, relayer_processes(rig, tmp_path) as made:
        yield made


@pytest.mark.thorough
async def test_a_relayer_process_from_start_to_an_orderly_end(relayers: Relayers) -> None:
    rig = relayers.rig
    asked = await rig.ask_for(rig.transfer())
    await rig.ask_for(rig.transfer(group="unserved"))
    process = relayers.start()
    url = await relayers.metrics_of(process)
    ready = relayers.folder / "ready-0.json"
    assert ready.stat().st_mode & 0o777 == 0o600
    await rig.reaches(asked, IntentState.FINAL)
    async with aiohttp.ClientSession() as session:

        async def measured() -> bool:
            async with session.get(url + "/metrics") as response:
                text = await response.text()
            after = r'changes_total\{after="final",before="mined",chain="base",kind="transfer",lane="0x\w{40}"\} 1\.0'
            queues = (
                'vpm_relayer_queued{chain="base",group="unserved"} 1.0',
                'oldest_seconds{chain="base",group="unserved"}',
            )
            ready = text.count('status="ready"} 1.0') == 2 and "vpm_relayer_balance_ether" in text
            return ready and re.search(after, text) is not None and all(each in text for each in queues)

        await until(measured, "the measures of one transfer and two lanes")
        async with session.get(url + "/health") as response:
            assert response.status == 200
            checks = {check["name"]: check["ok"] for check in (await response.json())["checks"]}
        assert checks == {"database": True, "chain base": True, "lanes": True}
    assert not any(secret[2:] in relayers.log_of(process) for secret in relayers.secrets)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, relayers.log_of(process)
    lanes = (await rig.report()).lanes
    assert [(lane.leased, lane.status) for lane in lanes] == [(False, LaneStatus.STOPPED)] * 2


async def test_a_relayer_whose_node_serves_another_chain_exits_with_an_error(relayers: Relayers) -> None:
    deployment = relayers.folder / "base.json"
    deployment.write_text(deployment.read_text().replace("8453", "1"))
    process = relayers.start()
    assert process.wait(PATIENCE) == 78
    assert "serves chain 8453, but chain 1 is configured" in relayers.log_of(process)
