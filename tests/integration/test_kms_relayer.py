"""Relayer processes with keys in a key service, on a real chain: every request is mined exactly once, even when the
service fails."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import pytest
import yaml

from core.chain import checksum
from core.config import RelayerSecrets, load
from core.outbox import Intent, IntentRequest, IntentState, LaneStatus
from relayer.kms import KmsPatience, KmsSigner, open_kms_keys
from relayer.queued import LaneQueries
from tests.conftest import StartAnvil
from tests.support.alert_rules import ALERTS
from tests.support.inconsistent_node import InconsistentNode
from tests.support.kms_clouds import REGION, Aws, Key, served
from tests.support.relayer_rig import ETHER, QUICK, Relayers, Rig, refuse_first_offer, relayer_processes, rigged
from tests.waiting import until


@dataclass
class Kms:
    """The service with two funded keys, and the relayer processes that use them."""

    rig: Rig
    relayers: Relayers
    aws: Aws
    aws_key: Key
    other_key: Key

    @property
    def names(self) -> list[str]:
        return [f"aws-kms://{REGION}/alias/relay-0#{self.aws_key.address}", f"aws-kms://{REGION}/alias/relay-1"]

    def use(self, *keystores: str) -> None:
        self.relayers.more["VPM_RELAYER_KEYSTORES"] = ",".join(keystores)

    async def all_mined_once(self, requests: list[IntentRequest], asked: list[Intent]) -> None:
        """Check that each was mined once: it goes to an unused address, whose balance counts how often."""
        for each in asked:
            await self.rig.reaches(each, IntentState.FINAL)
        assert set(await self.rig.balances([each.to for each in requests])) == {1}
        ended = [await self.rig.read(each) for each in asked]
        assert len({each.tx_hash for each in ended}) == len(ended)

    async def lane(self, key: Key) -> tuple[LaneStatus, str]:
        lanes = (await self.rig.report()).lanes
        (found,) = ((lane.status, lane.detail) for lane in lanes if "0x" + lane.address.hex() == key.address)
        return found


@pytest.fixture
async def kms(fresh_database_url: str, anvil: StartAnvil, tmp_path: Path) -> AsyncIterator[Kms]:
    chain, aws_key, other_key = anvil(chain_id=8453, block_time_seconds=0.5), Key(high=True), Key()
    aws = Aws(keys={"alias/relay-0": aws_key, "alias/relay-1": other_key})
    async with (
        served(aws),
        rigged(fresh_database_url, chain.url, 8453) as rig,
        relayer_processes(rig, tmp_path) as relayers,
    ):
        for key in (aws_key, other_key):
            await rig.ask("anvil_setBalance", key.address, hex(100 * ETHER))
        relayers.more |= {
            **aws.env,
            "VPM_RELAYER_KEYS": "",
            "VPM_RELAYER_KMS_PATIENCE_SECONDS": "3",
        }
        made = Kms(rig, relayers, aws, aws_key, other_key)
        made.use(*made.names)
        yield made


async def _get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


def _value(metrics: str, name: str, **labels: str) -> float:
    """The sum of a metric's samples with these labels."""
    total = 0.0
    for line in metrics.splitlines():
        if line.startswith(name) and all(f'{key}="{value}"' in line for key, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


@pytest.mark.thorough
async def test_both_keys_send_intents(kms: Kms) -> None:
    """If the service throttles one of them, its transactions are only late."""
    # A group for each key: of two lanes that serve one, the first to be awake may send everything.
    kms.use(f"base:relay={kms.names[0]}", f"base:keeper={kms.names[1]}")
    requests = [kms.rig.transfer(group=group) for group in ("relay", "keeper") for _ in range(20)]
    asked = await kms.rig.ask_for_many(requests)
    kms.aws.faults.extend(["ok", "ok", "throttled", "throttled", "failed", "throttled", "failed"])
    process = kms.relayers.start()
    url = await kms.relayers.metrics_of(process)
    await kms.all_mined_once(requests, asked)
    _, metrics = await _get(url + "/metrics")
    for key in (kms.aws_key, kms.other_key):
        assert await kms.rig.client.eth.get_transaction_count(checksum(key.address)) > 0
        assert _value(metrics, "vpm_relayer_signatures_total", lane=key.address, answer="signed") > 1
        assert _value(metrics, "vpm_relayer_signature_seconds_count", lane=key.address) > 1
        assert _value(metrics, "vpm_relayer_signer_up", lane=key.address) == 1
    assert _value(metrics, "vpm_relayer_signatures_total", answer="throttled") == 3
    # The chain's bytes and the digests: nothing else of a transaction ever left the process.
    assert not any(each.to[2:].encode() in body for each in requests for body in kms.aws.bodies)
    assert kms.aws.secret not in kms.relayers.log_of(process)


@pytest.mark.thorough
async def test_while_the_service_is_down_intents_wait_and_the_lane_reports_why(kms: Kms) -> None:
    kms.use(kms.names[0])
    process = kms.relayers.start()
    url = await kms.relayers.metrics_of(process)
    first = [kms.rig.transfer() for _ in range(3)]
    await kms.all_mined_once(first, await kms.rig.ask_for_many(first))
    kms.aws.down = True
    requests = [kms.rig.transfer() for _ in range(30)]
    asked = await kms.rig.ask_for_many(requests)

    async def reported() -> bool:
        return (await kms.lane(kms.aws_key))[0] is LaneStatus.SIGNER_DOWN

    await until(reported, "the lane's saying that it cannot sign", 60)
    said = f"{kms.names[0].partition('#')[0]} does not sign. AWS KMS returned KMSInternalException"

    async def unwell() -> bool:
        status, health = await _get(url + "/health")
        return status == 503 and said in health

    await until(unwell, "the process's saying so, too", 60)
    _, metrics = await _get(url + "/metrics")
    assert _value(metrics, "vpm_relayer_signer_up", lane=kms.aws_key.address) == 0
    assert _value(metrics, "vpm_relayer_lane_status", status="signer_down") == 1
    # The very sample that pages.
    (rule,) = (
        rule
        for group in yaml.safe_load(ALERTS.read_text())["groups"]
        for rule in group["rules"]
        if rule["alert"] == "VpmLaneSignsNothing"
    )
    statuses = re.search(r'status=~"([^"]*)"', rule["expr"])
    assert statuses is not None
    assert re.fullmatch(statuses[1], "signer_down")
    assert {(await kms.rig.read(each)).state for each in asked} == {IntentState.QUEUED}
    asked_of_it = len(kms.aws.bodies)
    await asyncio.sleep(3)
    assert len(kms.aws.bodies) - asked_of_it < 10  # looked at now and then, not stormed
    kms.aws.down = False
    await kms.all_mined_once(requests, asked)
    assert await kms.rig.client.eth.get_transaction_count(checksum(kms.aws_key.address)) == 33

    async def well() -> bool:
        return (await kms.lane(kms.aws_key))[0] is LaneStatus.READY and (await _get(url + "/health"))[0] == 200

    await until(well, "the lane's saying that it signs", 60)


@pytest.mark.thorough
async def test_a_slow_service_slows_its_own_lane_only(kms: Kms) -> None:
    """The service does not answer for one lane. The other lane and the event loop go on."""
    kms.use(f"base:relay={kms.names[0]}", f"base:keeper={kms.names[1]}")
    kms.relayers.more["VPM_RELAYER_KMS_PATIENCE_SECONDS"] = "25"
    process = kms.relayers.start()
    url = await kms.relayers.metrics_of(process)
    kms.aws.held.add("alias/relay-0")
    slow = [kms.rig.transfer() for _ in range(16)]
    asked_slow = await kms.rig.ask_for_many(slow)

    async def being_signed() -> bool:
        return kms.aws.at_once > 0

    await until(being_signed, "the requests for signatures", 60)
    quick, asked_quick = [], []
    for _ in range(12):
        requests = [kms.rig.transfer(group="keeper") for _ in range(4)]
        quick += requests
        asked_quick += await kms.rig.ask_for_many(requests)
        await _get(url + "/ready")
    await kms.all_mined_once(quick, asked_quick)
    assert {(await kms.rig.read(each)).state for each in asked_slow} == {IntentState.QUEUED}
    kms.aws.held.clear()
    await kms.all_mined_once(slow, asked_slow)


async def test_killed_between_signature_and_store_nothing_is_lost(kms: Kms) -> None:
    kms.use(kms.names[0])
    process = kms.relayers.start()
    await kms.relayers.metrics_of(process)
    kms.aws.held.add("alias/relay-0")
    requests = [kms.rig.transfer() for _ in range(6)]
    asked = await kms.rig.ask_for_many(requests)
    before = len(kms.aws.digests)

    async def being_signed() -> bool:
        return len(kms.aws.digests) >= before + len(requests)

    await until(being_signed, "the requests for signatures", 60)
    kms.relayers.kill(process)
    assert {(await kms.rig.read(each)).state for each in asked} == {IntentState.QUEUED}
    kms.aws.held.clear()
    kms.relayers.start()
    await kms.all_mined_once(requests, asked)
    assert await kms.rig.client.eth.get_transaction_count(checksum(kms.aws_key.address)) == len(requests)


@pytest.mark.thorough
async def test_killed_between_store_and_send_the_stored_bytes_are_sent_even_without_the_service(kms: Kms) -> None:
    kms.use(kms.names[0])
    async with InconsistentNode(kms.rig.rpc_url, seed=1) as node:
        node.deaf = True
        kms.relayers.more["VPM_BASE_RPC_URLS"] = node.url
        process = kms.relayers.start()
        requests = [kms.rig.transfer() for _ in range(5)]
        asked = await kms.rig.ask_for_many(requests)
        for each in asked:
            await kms.rig.reaches(each, IntentState.SIGNED, IntentState.SENT)
        kms.relayers.kill(process)
        assert await kms.rig.client.eth.get_transaction_count(checksum(kms.aws_key.address), "pending") == 0
        kms.aws.down = True
        signed = len(kms.aws.digests)
        node.deaf = False
        kms.relayers.start()
        await kms.all_mined_once(requests, asked)
    assert len(kms.aws.digests) == signed
    assert await kms.rig.client.eth.get_transaction_count(checksum(kms.aws_key.address)) == len(requests)


@pytest.mark.thorough
async def test_two_processes_do_not_have_the_same_intents_signed(kms: Kms) -> None:
    """Two processes with one lane each serve one group: claims keep them from paying for the same signatures."""
    kms.aws.slow_seconds = dict.fromkeys(kms.aws.keys, 0.15)
    for _ in range(2):
        await kms.relayers.metrics_of(kms.relayers.start())

    async def shared() -> bool:
        query = "SELECT count(DISTINCT holder) FROM outbox_lane WHERE status = 'ready'"
        return await kms.rig.rows(query) == [(2,)]

    await until(shared, "a lane for each process", 60)
    before = len(kms.aws.digests)
    requests = [kms.rig.transfer() for _ in range(120)]
    await kms.all_mined_once(requests, await kms.rig.ask_for_many(requests))
    nonces = [
        await kms.rig.client.eth.get_transaction_count(checksum(key.address)) for key in (kms.aws_key, kms.other_key)
    ]
    assert sum(nonces) == 120
    assert min(nonces) > 0
    # A claim is asked for after the queue was read, so now and then a pair of lanes reads the same: never half of them.
    assert len(kms.aws.digests) - before < 120 + 60
    assert await kms.rig.rows("SELECT count(*) FROM outbox_claim") == [(0,)]


# ---------------------------------------------------------------- a lane in this process


@contextlib.asynccontextmanager
async def _opened(kms: Kms) -> AsyncIterator[KmsSigner]:
    named = load(RelayerSecrets, {"VPM_RELAYER_KEYSTORES": kms.names[0]}).keystore_files
    async with open_kms_keys(named, KmsPatience(at_once=4, seconds=6.0)) as (key,):
        assert isinstance(key.signer, KmsSigner)
        yield key.signer


@pytest.fixture
async def signer(kms: Kms, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[KmsSigner]:
    for name, value in kms.aws.env.items():
        monkeypatch.setenv(name, value)
    async with _opened(kms) as signer:
        yield signer


async def test_a_hole_is_filled_and_a_call_cancelled_through_the_service_once_it_signs(
    kms: Kms, signer: KmsSigner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row for nonce 1 without one for 0, as after a partial restore; then a call that no node accepts. Both need a
    signature while the service is down, and transactions in flight are still followed."""
    rig, requests = kms.rig, [kms.rig.transfer()]
    asked = await rig.ask_for_many(requests)
    store = await rig.dead_holder(signer, next_nonce=1)
    (prepared,) = await rig.prepared(store)
    unsigned = prepared.unsigned(rig.chain_id, 1)
    (signed,) = await signer.sign_all([unsigned])
    await store.sign([prepared], {unsigned: signed})
    await rig.free_lanes()
    kms.aws.down = True
    async with rig.relayer(rig.spec(signer), policy=replace(QUICK, max_gas=100_000_000)) as relayer:

        async def troubled() -> bool:
            return signer.problem is not None

        async def reported() -> bool:
            return [lane.status for lane in relayer.lanes()] == [LaneStatus.SIGNER_DOWN]

        await until(troubled, "the filler's being refused", 60)
        await until(reported, "the lane's saying so", 60)
        assert await rig.client.eth.get_transaction_count(checksum(kms.aws_key.address)) == 0
        kms.aws.down = False
        await kms.all_mined_once(requests, asked)
        assert await rig.client.eth.get_transaction_count(checksum(kms.aws_key.address)) == 2

        refuse_first_offer(monkeypatch)
        impossible, behind = rig.transfer(), rig.transfer()
        asked = await rig.ask_for_many([impossible, behind])
        await rig.reaches(asked[0], IntentState.SIGNED, IntentState.SENT)
        kms.aws.down = True
        await asyncio.sleep(2)
        kms.aws.down = False
        assert (await rig.reaches(asked[0], IntentState.REPLACED)).reason_code == "gas_limit"
        await kms.all_mined_once([behind], [asked[1]])


async def test_a_signature_for_a_taken_nonce_is_discarded(kms: Kms, signer: KmsSigner) -> None:
    """Between signature and store another lane took the second of three: the first is stored, the third waits."""
    rig = kms.rig
    asked = await rig.ask_for_many([rig.transfer() for _ in range(3)])
    store = await rig.dead_holder(signer, next_nonce=0)
    prepared = await LaneQueries(rig.pool, store.lease).claim(await rig.prepared(store), 30.0)
    assert len(prepared) == 3
    wanted = [each.unsigned(rig.chain_id, number) for number, each in enumerate(prepared)]
    signed = await signer.sign_all(wanted)
    other = await rig.new_signer()
    thief = await rig.dead_holder(other, next_nonce=0)
    assert await rig.prepared(thief) == []  # claimed
    await LaneQueries(rig.pool, store.lease).unclaim(prepared[1:2])
    assert [each.candidate.intent_id for each in await rig.prepared(thief)] == [asked[1].id]
    await thief.sign(await rig.prepared(thief))
    transactions = await store.sign(prepared, dict(zip(wanted, signed, strict=True)))
    assert [(each.intent_id, each.nonce) for each in transactions] == [(asked[0].id, 0)]
    assert [(await rig.read(each)).state for each in asked] == [
        IntentState.SIGNED,
        IntentState.SIGNED,
        IntentState.QUEUED,
    ]
    assert [each.candidate.intent_id for each in await rig.prepared(thief)] == [asked[2].id]  # free again


async def test_a_dead_process_s_claim_expires(kms: Kms, signer: KmsSigner) -> None:
    rig = kms.rig
    await rig.ask_for(rig.transfer())
    dead = await rig.dead_holder(signer, next_nonce=0)
    assert len(await LaneQueries(rig.pool, dead.lease).claim(await rig.prepared(dead), 60.0)) == 1
    heir = await rig.dead_holder(await rig.new_signer(), next_nonce=0)
    assert await rig.prepared(heir) == []
    assert (
        len(await LaneQueries(rig.pool, dead.lease).claim(await rig.prepared(dead), 60.0)) == 1
    )  # its own it may take again
    await rig.rows("UPDATE outbox_claim SET until = until - interval '60 seconds'")
    assert len(await LaneQueries(rig.pool, heir.lease).claim(await rig.prepared(heir), 30.0)) == 1
    assert await LaneQueries(rig.pool, dead.lease).claim(await rig.prepared(heir), 30.0) == []
