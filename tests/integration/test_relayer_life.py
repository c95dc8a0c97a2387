"""The ordinary life of an intent on a chain that mines at its own pace, and what ends one before it has a nonce."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from prometheus_client import REGISTRY

from core.agent.notices import submitted
from core.chain import ChainClient, Receipt
from core.chain.contract import Abi
from core.db.engine import Connection, conninfo
from core.outbox import (
    HAS_RESULT,
    IntentConflict,
    IntentState,
    LaneStatus,
    MinedOutcome,
    enqueue,
)
from relayer.metrics import Gauges
from relayer.pending_notices import TRIES, PendingNotices
from relayer.queued import GAS_CEILINGS, LaneQueries
from relayer.signing import LocalSigner
from relayer.store import LaneStore
from relayer.transactions import Candidate
from scripts._status.__main__ import concerns
from scripts._status.__main__ import read as read_facts
from tests.conftest import Anvil, StartAnvil
from tests.support.cup_rig import listed_market, specification
from tests.support.outbox_history import history
from tests.support.relayer_rig import QUICK, Rig, rigged
from tests.waiting import until

TOO_SMALL = Abi([{"type": "error", "name": "EntryTooSmall", "inputs": [{"name": "amount", "type": "uint256"}]}]).errors


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> Anvil:
    return module_anvil(chain_id=31337, block_time_seconds=0.5)


@pytest.fixture
async def rig(database_url: str, chain: Anvil) -> AsyncIterator[Rig]:
    async with rigged(database_url, chain.url, chain.chain_id, policy=replace(QUICK, errors=TOO_SMALL)) as rig:
        yield rig


def revert_code(data: bytes) -> str:
    """Return runtime code that reverts with `data` (at most 36 bytes) on every call."""
    padded = data.ljust(64, b"\0")
    stores = b"".join(b"\x7f" + padded[at : at + 32] + b"\x60" + bytes((at,)) + b"\x52" for at in (0, 32))
    return "0x" + (stores + b"\x60" + bytes((len(data),)) + b"\x60\x00\xfd").hex()


# An endless loop; a call that succeeds with five million gas or more, and leaves one; and a loop that runs only where a
# gas price is set, so not while it is only asked.
BURNS = "0x5b5f56"
BURNS_FOUR_MILLION = "0x5a624c4b40116014575b5a620f424010600957005b5f5ffd"
BURNS_WHEN_PAID_FOR = "0x3a600557005b600556"
# Reverts when slot 0 is set, and sets it: only the first call of a block's worth succeeds.
ONCE_CODE = "0x" + bytes.fromhex("60005415600c5760006000fd5b600160005500").hex()


async def place(rig: Rig, code: str) -> str:
    address = "0x" + secrets.token_hex(20)
    await rig.ask("anvil_setCode", address, code)
    return address


async def test_an_announced_block_is_read_at_once_if_a_transaction_waits_for_it(
    fresh_database_url: str, anvil: StartAnvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_the_clock = 30.0
    monkeypatch.setattr("relayer.following.POLL_SECONDS", by_the_clock)
    chain = anvil(chain_id=31337)  # a block for each transaction, at once
    async with rigged(
        fresh_database_url, chain.url, chain.chain_id, ws_urls=(chain.ws_url,), poll_seconds=60.0, finality_blocks=64
    ) as rig:
        signer = await rig.new_signer()
        async with rig.relayer(rig.spec(signer)) as relayer:
            followed = relayer.chains["test"]
            await until(lambda: followed.heads.subscribed)
            await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.MINED)
            started = time.monotonic()
            for _ in range(6):
                await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.MINED)
            assert time.monotonic() - started < 2 * by_the_clock  # polling by the clock would need that for each
            await until(lambda: all(lane.is_idle for lane in relayer.lanes()))
            await asyncio.sleep(0.3)  # a look that had begun ends
            seen = followed.feed.sequence
            await rig.mine(3)
            await asyncio.sleep(0.5)
            assert followed.feed.sequence == seen  # nothing waits: the node is left alone


async def test_an_intent_goes_from_queued_to_final_and_each_step_is_in_its_history(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    asked = await rig.ask_for(request)
    assert asked.state is IntentState.QUEUED
    async with rig.relayer(rig.spec(signer)):
        mined = await rig.reaches(asked, IntentState.MINED)
        assert mined.succeeded
        assert mined.nonce == 0
        assert mined.gas_used == 21_000
        assert mined.tx_hash_hex is not None
        assert await rig.client.receipt(mined.tx_hash_hex) is not None
        final = await rig.reaches(asked, IntentState.FINAL)
    async with rig.pool.connection() as connection:
        steps = await history(connection, asked.id)
    assert [step.to_state for step in steps] == ["queued", "signed", "sent", "mined", "final"]
    assert [step.from_state for step in steps] == [None, "queued", "signed", "sent", "mined"]
    assert steps == sorted(steps, key=lambda step: step.at)
    assert steps[1].tx_hash == steps[3].tx_hash == final.tx_hash
    assert await rig.balance(request.to) == 1


async def test_a_key_is_one_transaction_and_another_under_it_is_refused(rig: Rig) -> None:
    request = rig.transfer()
    async with rig.pool.connection() as connection:
        first = await enqueue(connection, request)
        second = await enqueue(connection, replace(request, priority=5))
        with pytest.raises(IntentConflict, match=request.key):
            await enqueue(connection, replace(request, value_wei=2))
    assert first.id == second.id
    async with rig.relayer(rig.spec(await rig.new_signer())):
        await rig.reaches(first, IntentState.FINAL)
    assert await rig.balance(request.to) == 1


async def test_many_at_once_are_mined_once_each_in_the_order_of_their_priority(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer(priority=number % 3) for number in range(300)]
    asked = await rig.ask_for_many(requests)
    async with rig.relayer(rig.spec(signer)):
        done = [await rig.reaches(each, IntentState.MINED, IntentState.FINAL) for each in asked]
    assert sorted(each.nonce for each in done if each.nonce is not None) == list(range(300))
    assert await rig.balances([each.to for each in requests]) == [1] * 300
    by_nonce = sorted(zip(done, requests, strict=True), key=lambda pair: pair[0].nonce or 0)
    assert [request.priority for _, request in by_nonce] == sorted((r.priority for r in requests), reverse=True)


@pytest.mark.parametrize("given", ["all", "every third left out", "none"])
@pytest.mark.thorough
async def test_receipts_of_a_full_block_are_read_together_and_missing_ones_singly(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    whole, alone = ChainClient.block_receipts, ChainClient.receipts
    in_blocks: set[str] = set()
    by_hash: set[str] = set()

    async def block_receipts(self: ChainClient, numbers: Sequence[int]) -> list[Receipt]:
        receipts = [] if given == "none" else await whole(self, numbers)  # a node without the method gives none
        receipts = [each for at, each in enumerate(receipts) if given == "all" or at % 3 > 0]
        in_blocks.update(each.transaction_hash for each in receipts)
        return receipts

    async def receipts(self: ChainClient, hashes: Sequence[str]) -> list[Receipt | None]:
        by_hash.update(hashes)
        return await alone(self, hashes)

    monkeypatch.setattr(ChainClient, "block_receipts", block_receipts)
    monkeypatch.setattr(ChainClient, "receipts", receipts)
    signer = await rig.new_signer()
    asked = await rig.ask_for_many([rig.transfer() for _ in range(300)])
    async with rig.relayer(rig.spec(signer)):
        done = [await rig.reaches(each, IntentState.MINED, IntentState.FINAL) for each in asked]
    for each in done:
        receipt = await rig.client.receipt(each.tx_hash_hex or "")
        assert receipt is not None
        assert receipt.block_number == each.block_number
        assert (each.outcome, each.fee_wei) == (MinedOutcome.SUCCEEDED, receipt.fee_wei)
    hashes = {each.tx_hash_hex for each in done}
    assert hashes <= in_blocks | by_hash
    assert bool(in_blocks) == (given != "none")
    if given == "all":
        assert len(by_hash & hashes) < 100  # the ends of each look, and what was too little for a block


async def test_a_day_of_gas_is_reported_next_to_a_day_of_fees(rig: Rig) -> None:
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(await rig.new_signer())):
        mined = await rig.reaches(asked, *HAS_RESULT)
    await Gauges(rig.pool, {rig.chain_id: "a day"}).read_economy()
    spent = REGISTRY.get_sample_value("vpm_relayer_gas_day_ether", {"chain": "a day"})
    assert spent is not None
    assert mined.fee_wei is not None
    assert spent >= mined.fee_wei / 1e18 > 0
    assert REGISTRY.get_sample_value("vpm_relayer_fees_day_usd") == 0


@pytest.mark.parametrize("kind", sorted(GAS_CEILINGS))
async def test_a_settlement_never_burns_more_than_its_ceiling(rig: Rig, kind: str) -> None:
    """A contract wallet behaves while it is simulated, where gas is free, and burns all its gas when mined; or it burns
    at once, and nothing is sent."""
    signer, ceiling = await rig.new_signer(), GAS_CEILINGS[kind]
    codes = (BURNS_WHEN_PAID_FOR, BURNS, BURNS_FOUR_MILLION)
    sly, *others = [await place(rig, code) for code in codes]
    calls = [rig.transfer(to=target, value_wei=0, kind=kind) for target in (sly, *others)]
    asked = await rig.ask_for_many(calls)
    async with rig.relayer(rig.spec(signer)):
        mined = await rig.reaches(asked[0], *HAS_RESULT)
        refused = [await rig.reaches(each, IntentState.FAILED) for each in asked[1:]]
    assert mined.gas_used is not None
    assert mined.gas_used <= ceiling
    assert all(each.refused for each in refused)
    assert all(each.block_number is not None for each in refused)
    assert await rig.nonce(signer) == 1


async def test_a_call_that_would_revert_is_refused_with_a_reason_and_without_a_nonce(rig: Rig) -> None:
    signer = await rig.new_signer()
    error = next(iter(TOO_SMALL.values()))
    target = await place(rig, revert_code(error.selector + (5).to_bytes(32)))
    start = (await rig.client.head()).number
    asked = await rig.ask_for(rig.transfer(to=target, value_wei=0))
    async with rig.relayer(rig.spec(signer)):
        failed = await rig.reaches(asked, IntentState.FAILED)
    assert failed.refused
    assert failed.block_number is not None  # where it was refused
    assert start <= failed.block_number <= (await rig.client.head()).number
    assert failed.reason_code == "EntryTooSmall"
    assert failed.reason == "The call reverted: entry too small (amount 5)."
    assert await rig.nonce(signer) == 0
    # It stays ended, though its reason is gone: a new try has a new key.
    await rig.ask("anvil_setCode", target, "0x")
    again = rig.transfer(key=asked.key, to=target, value_wei=0)
    assert (await rig.ask_for(again)).state is IntentState.FAILED


async def test_a_transaction_that_reverts_when_mined_has_a_reason_and_is_never_resent(rig: Rig) -> None:
    signer = await rig.new_signer()
    target = await place(rig, ONCE_CODE)
    calls = [rig.transfer(to=target, value_wei=0) for _ in range(2)]  # estimated together, and both succeed
    asked = await rig.ask_for_many(calls)
    async with rig.relayer(rig.spec(signer)):
        first = await rig.reaches(asked[0], IntentState.FINAL)
        second = await rig.reaches(asked[1], IntentState.FAILED)
    assert first.outcome is MinedOutcome.SUCCEEDED
    assert second.outcome is MinedOutcome.REVERTED
    assert not second.refused
    assert second.reason == "The call reverted without a reason."
    assert second.fee_wei
    assert (await rig.ask_for(calls[1])).state is IntentState.FAILED


async def test_running_out_of_gas_is_distinguished_from_a_revert(rig: Rig) -> None:
    target = await place(rig, BURNS_WHEN_PAID_FOR)
    asked = await rig.ask_for(rig.transfer(to=target, value_wei=0))
    async with rig.relayer(rig.spec(await rig.new_signer())):
        mined = await rig.reaches(asked, IntentState.MINED)
    assert mined.reason_code == "out_of_gas"
    assert mined.reason == f"It ran out of gas at its limit of {mined.gas_used}."


async def test_an_intent_waits_for_the_one_it_depends_on_and_fails_with_it(rig: Rig) -> None:
    signer, other = await rig.new_signer(), await rig.new_signer()
    first = await rig.ask_for(rig.transfer(group="opener"))
    second = await rig.ask_for(rig.transfer(depends_on=first.id))
    doomed = await rig.ask_for(rig.transfer(group="opener", not_after=1))
    orphan = await rig.ask_for(rig.transfer(depends_on=doomed.id))
    async with rig.relayer(rig.spec(signer, "relay")):
        await asyncio.sleep(1.5)
        assert (await rig.read(second)).state is IntentState.QUEUED
        async with rig.relayer(rig.spec(other, "opener")):
            early = await rig.reaches(first, IntentState.MINED)
            late = await rig.reaches(second, IntentState.MINED)
            assert (await rig.reaches(orphan, IntentState.FAILED)).reason_code == "dependency_failed"
    assert early.block_number is not None
    assert late.block_number is not None
    assert late.block_number > early.block_number


async def test_a_group_is_sent_only_by_keys_that_serve_it(rig: Rig) -> None:
    opener, both = await rig.new_signer(), await rig.new_signer()
    asked = [await rig.ask_for(rig.transfer(group=group)) for group in ("opener", "keeper", "relay", "opener")]
    async with rig.relayer(rig.spec(opener, "opener"), rig.spec(both, "relay", "keeper")):
        mined = [await rig.reaches(each, IntentState.MINED, IntentState.FINAL) for each in asked]
    senders = []
    for each in mined:
        assert each.tx_hash_hex is not None
        found = await rig.client.transaction(each.tx_hash_hex)
        assert found is not None
        senders.append(found.sender.lower())
    first, second = "0x" + opener.address.hex(), "0x" + both.address.hex()
    assert senders == [first, second, second, first]


async def test_the_report_shows_working_lanes_and_the_queue(rig: Rig) -> None:
    signer = await rig.new_signer()
    group = "g" + secrets.token_hex(4)
    assert not (await rig.report(group)).works
    unserved = await rig.ask_for(rig.transfer(group=f"un{group}"))
    await rig.ask_for(rig.transfer(group=group, depends_on=unserved.id))
    async with rig.relayer(rig.spec(signer, group)):

        async def works() -> bool:
            return (await rig.report(group)).works

        await until(works, "a working lane")
        found = await rig.report(group)
        assert found.queued == 1
        assert found.lanes[0].address == signer.address
        assert found.lanes[0].balance_wei == 100 * 10**18
    found = await rig.report(group)
    assert not found.works
    assert found.lanes[0].status is LaneStatus.STOPPED


async def test_a_lane_out_of_gas_reports_it_and_works_once_funded(rig: Rig) -> None:
    signer = LocalSigner(secrets.token_bytes(32))
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(signer)):
        await rig.until_lane(signer, LaneStatus.OUT_OF_GAS)
        assert (await rig.read(asked)).state is IntentState.QUEUED
        await rig.ask("anvil_setBalance", "0x" + signer.address.hex(), hex(10**18))
        await rig.reaches(asked, IntentState.MINED)


@pytest.mark.parametrize("held_by", [LaneStatus.OUT_OF_GAS, LaneStatus.STOP_LOSS, LaneStatus.FULL])
@pytest.mark.thorough
async def test_late_intents_are_refused_even_while_their_lane_cannot_sign(rig: Rig, held_by: LaneStatus) -> None:
    """The requester does not wait for an operator; intents that had a nonce, or still have time, wait."""
    signer = LocalSigner(secrets.token_bytes(32)) if held_by is LaneStatus.OUT_OF_GAS else await rig.new_signer()
    limits = {LaneStatus.STOP_LOSS: {"gas_per_hour_wei": 0}, LaneStatus.FULL: {"max_in_flight": 0}}
    group = "g" + secrets.token_hex(4)
    chain_time = (await rig.client.head()).timestamp
    # More of them than are looked at together come first.
    ahead = [rig.transfer(group=group, priority=9) for _ in range(QUICK.batch_size)]
    patient, *_, soon, late = await rig.ask_for_many(
        [
            *ahead,
            rig.transfer(group=group, not_after=chain_time + 3),
            rig.transfer(group=group, not_after=chain_time - 10),
        ]
    )
    async with rig.relayer(rig.spec(signer, group), policy=replace(QUICK, **limits.get(held_by, {}))):
        for each in (late, soon):
            failed = await rig.reaches(each, IntentState.FAILED)
            assert failed.reason_code == "expired"
            assert "deadline passed" in (failed.reason or "")
        await rig.until_lane(signer, held_by, group)
        assert (await rig.read(patient)).state is IntentState.QUEUED


async def test_a_lane_that_cannot_sign_refuses_no_intent_that_had_a_nonce(rig: Rig) -> None:
    group = "g" + secrets.token_hex(4)
    asked = await rig.ask_for(rig.transfer(group=group, not_after=1))
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer, "another" + group)):
        await rig.reaches(await rig.ask_for(rig.transfer(group="another" + group)), IntentState.MINED)
    await rig.rows(
        "INSERT INTO outbox_transaction (hash, intent_id, lane_id, nonce, is_cancel, raw, gas_limit, max_fee_wei,"
        " max_priority_fee_wei) SELECT %s, %s, id, 7, false, '\\x00', 21000, 1, 1 FROM outbox_lane WHERE address = %s",
        secrets.token_bytes(32),
        asked.id,
        signer.address,
    )
    other = await rig.ask_for(rig.transfer(group=group, not_after=1))
    async with rig.relayer(rig.spec(LocalSigner(secrets.token_bytes(32)), group)):
        await rig.reaches(other, IntentState.FAILED)
        assert (await rig.read(asked)).state is IntentState.QUEUED


@pytest.mark.thorough
async def test_a_lane_whose_lease_expired_unnoticed_goes_on(rig: Rig) -> None:
    """A process was suspended for longer than its lease, or its renewal waited that long: the lane sees that its lease
    expired, and goes on once it is renewed, since no other process took it."""
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer), lease_seconds=30.0) as relayer:
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
        went_on = 0
        for _ in range(5):  # the leases may look just then and take the lane anew, which is not what this is about
            (lane,) = relayer.lanes()
            lane.lease.valid_until = 0.0
            await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
            went_on += relayer.lanes() == [lane]
            if went_on == 3:
                break
        assert went_on == 3


async def test_a_lane_whose_row_was_locked_at_the_start_is_taken_later(rig: Rig, database_url: str) -> None:
    """A suspended process locks the row. The new relayer still registers all its lanes."""
    signers = [await rig.new_signer() for _ in range(3)]
    for signer in signers:
        await rig.dead_holder(signer, next_nonce=0, lease_seconds=0.1)
    stopped = await psycopg.AsyncConnection.connect(conninfo(database_url))
    try:
        await stopped.execute("UPDATE outbox_lane SET status_detail = '' WHERE address = %s", (signers[1].address,))
        async with rig.relayer(*map(rig.spec, signers), lease_seconds=30.0) as relayer:

            async def all_of_them() -> bool:
                return len(relayer.lanes()) == len(signers)

            await until(all_of_them, "every lane", 60)
    finally:
        await stopped.close()


async def test_a_former_holder_stops_reporting_a_lane(rig: Rig) -> None:
    """Otherwise its old values would fire alarms until the process restarts, although another process holds the
    lane."""
    signer = await rig.new_signer()
    spec = rig.spec(signer)
    label = {"chain": spec.chain, "lane": spec.signer.label}
    standing = ("unproven", "in_flight", "balance_ether", "gas_spent_ether")

    def said() -> list[float | None]:
        numbers = [REGISTRY.get_sample_value(f"vpm_relayer_{name}", label) for name in standing]
        return [*numbers, REGISTRY.get_sample_value("vpm_relayer_lane_status", {**label, "status": "ready"})]

    async with rig.relayer(spec):
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
        assert REGISTRY.get_sample_value("vpm_relayer_lane_held", label) == 1
        assert None not in said()
    assert said() == [None] * 5
    assert REGISTRY.get_sample_value("vpm_relayer_lane_held", label) == 0  # if no process reports 1, an alarm is raised


async def test_a_lane_that_does_not_start_is_reported(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane starts by reading its rows. If that keeps failing, this process still holds the lane and no other takes
    it."""
    monkeypatch.setattr("relayer.lane.START_SECONDS", 1.0)
    await rig.rows("ALTER TABLE outbox_transaction RENAME TO outbox_transaction_gone")
    async with rig.relayer(rig.spec(await rig.new_signer())) as relayer:
        check = relayer.check_lanes
        try:

            async def names_the_lane() -> bool:
                well, detail = await check()
                return not well and "starting for" in detail and "outbox_transaction" in detail

            await until(names_the_lane, "a check that names the lane")
        finally:
            await rig.rows("ALTER TABLE outbox_transaction_gone RENAME TO outbox_transaction")
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
        assert (await check())[0]


async def test_a_notice_that_always_fails_is_retried_less_often_and_then_given_up(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be retried every five seconds forever, with an error in the log each time."""
    asked = await rig.ask_for(rig.transfer(group="unserved"))
    tries = 0

    async def never(*_: object) -> None:
        nonlocal tries
        tries += 1
        raise KeyError("a market that is in no table")

    monkeypatch.setattr(submitted, "announce", never)
    teller = PendingNotices(rig.pool, [rig.chain_id])
    await rig.rows("INSERT INTO outbox_pending_notice (intent_id, tx_hash) VALUES (%s, %s)", asked.id, b"\1" * 32)
    await teller.poll_once()
    await teller.poll_once()
    assert tries == 1, "the second comes later"
    for _ in range(30):
        await rig.rows("UPDATE outbox_pending_notice SET retry_at = now()")
        await teller.poll_once()
    assert tries == TRIES
    labels = {"chain": str(rig.chain_id), "state": "given_up"}
    assert REGISTRY.get_sample_value("vpm_relayer_pending_notices", labels) == 1
    facts = await asyncio.to_thread(read_facts, rig.database_url)
    (said,) = [each for each in concerns(facts) if "not notified" in each]
    assert str(asked.id) in said
    assert "a market that is in no table" in said


async def test_gas_spent_within_the_hour_stops_a_lane_from_signing_more(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for_many([rig.transfer() for _ in range(3)])
    async with rig.relayer(rig.spec(signer), policy=replace(QUICK, gas_per_hour_wei=1, batch_size=1)):
        await rig.until_lane(signer, LaneStatus.STOP_LOSS)
        await rig.reaches(asked[0], IntentState.FINAL)  # what was sent is still followed
    assert await rig.nonce(signer) == 1
    async with rig.relayer(rig.spec(signer)):  # with the ordinary allowance it goes on
        for each in asked[1:]:
            await rig.reaches(each, IntentState.MINED, IntentState.FINAL)


async def test_history_and_signed_bytes_are_never_changed_and_impossible_steps_are_refused(rig: Rig) -> None:
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(await rig.new_signer())):
        await rig.reaches(asked, IntentState.FINAL)
    async with rig.pool.connection() as connection:
        with pytest.raises(psycopg.errors.RestrictViolation):
            await connection.execute("UPDATE outbox_history SET to_state = 'failed' WHERE intent_id = %s", (asked.id,))
        with pytest.raises(psycopg.errors.RestrictViolation):
            await connection.execute("DELETE FROM outbox_transaction WHERE intent_id = %s", (asked.id,))
        with pytest.raises(psycopg.errors.CheckViolation, match="cannot go from final to queued"):
            await connection.execute(
                "UPDATE outbox_intent SET state = 'queued', nonce = NULL WHERE id = %s", (asked.id,)
            )


async def test_a_transaction_is_sent_even_if_its_event_cannot_be_written(rig: Rig) -> None:
    """The event is written in the transaction that stores the bytes; its failure undoes only the event."""
    signer = await rig.new_signer()
    await rig.rows("ALTER TABLE agent_trade RENAME TO agent_trade_away")
    try:
        asked = await rig.ask_for(replace(rig.transfer(), kind="settle"))
        async with rig.relayer(rig.spec(signer)):
            done = await rig.reaches(asked, IntentState.MINED, IntentState.FINAL)
    finally:
        await rig.rows("ALTER TABLE agent_trade_away RENAME TO agent_trade")
    assert (done.nonce, done.outcome) == (0, MinedOutcome.SUCCEEDED)


async def test_a_connection_lost_while_events_are_written_stores_nothing_and_sends_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed event does not stop the transaction, but a lost connection does, because nothing was stored. The
    database is down for a while, so the lane notices it no other way."""
    fenced, queued, away_until = LaneStore._fenced, LaneQueries.queued, 0.0

    def ask() -> None:
        if time.monotonic() < away_until:
            raise psycopg.OperationalError("the database fails over")

    def fenced_if_there(store: LaneStore) -> contextlib.AbstractAsyncContextManager[tuple[Connection, int | None]]:
        ask()
        return fenced(store)

    async def queued_if_there(queries: LaneQueries, *which: Any) -> list[Candidate]:
        ask()
        return await queued(queries, *which)

    async def is_lost(connection: Connection, *_: object) -> None:
        nonlocal away_until
        if not away_until:
            await rig.rows("SELECT pg_terminate_backend(%s)", connection.info.backend_pid)
            away_until = time.monotonic() + 2
            await connection.execute("SELECT 1")

    monkeypatch.setattr(LaneStore, "_fenced", fenced_if_there)
    monkeypatch.setattr(LaneQueries, "queued", queued_if_there)
    monkeypatch.setattr(submitted, "announce", is_lost)
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer)):
        request = rig.transfer(kind="settle")
        intent = await rig.ask_for(request)
        end = await rig.reaches(intent, IntentState.FINAL, IntentState.FAILED)
    assert away_until, "no event was written"
    assert (end.state, await rig.balance(request.to), await rig.nonce(signer)) == (IntentState.FINAL, 1, 1)


async def test_an_event_that_could_not_be_written_is_written_later(rig: Rig) -> None:
    """Another session locks the wallet's row of the event log while its bet is signed, until after that relayer has
    ended: the bet is sent anyway, and its event is written once the row is free."""
    wallet, key = secrets.token_bytes(20), secrets.token_bytes(32)
    signer, asked = await rig.new_signer(), await rig.ask_for(rig.transfer(kind="settle"))

    async def has_event() -> bool:
        return bool(await rig.rows("SELECT type FROM agent_event WHERE wallet = %s", wallet))

    async with rig.pool.connection() as holder:
        query, values = listed_market(key, specification())
        await holder.execute(query.encode(), values)
        await holder.execute("INSERT INTO agent_outcome SELECT %s, generate_series(0, 1), 0, 0, 0, 0", (key,))
        await holder.execute(
            "INSERT INTO agent_trade (wallet, idem_hash, market_id, outcome, amount, bet_hash, nonce, intent_id)"
            " VALUES (%s, %s, %s, 0, 1, %s, %s, %s)",
            (wallet, key, key, key, key, asked.id),
        )
        await holder.execute("INSERT INTO agent_event_wallet (wallet) VALUES (%s)", (wallet,))
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM agent_event_wallet WHERE wallet = %s FOR NO KEY UPDATE", (wallet,))
            async with rig.relayer(rig.spec(signer)):
                await rig.reaches(asked, IntentState.MINED, IntentState.FINAL)
            assert not await has_event()
    async with rig.relayer(rig.spec(signer)):
        await until(has_event, "the event")
    query = "SELECT type FROM agent_event WHERE wallet = %s"
    assert await rig.rows(query, wallet) == [("bet.settlement_submitted",)]
