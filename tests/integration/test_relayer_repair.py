"""Everything that can go wrong between a signature and a final block, repaired without an operator."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest

from core.outbox import IntentState, MinedOutcome
from relayer.following import POLL_SECONDS, Follower
from relayer.policy import LanePolicy
from relayer.signing import LocalSigner, Signed, SignerUnavailable, Unsigned
from scripts._local.ports import free_port
from tests.support.prometheus import measured
from tests.support.relayer_rig import ETHER, GWEI, QUICK, Rig, chain, refuse_first_offer, rig
from tests.waiting import until

__all__ = ["chain", "rig"]

# Already the first offer is the most that may be paid.
AT_THE_CAP = replace(QUICK, fees=replace(QUICK.fees, cap_wei=GWEI * 11 // 10))


async def test_a_stuck_transaction_is_replaced_by_one_that_pays_enough(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(3)]
    asked = await rig.ask_for_many(requests)
    async with rig.relayer(rig.spec(signer)):
        await rig.in_pool(signer, 3)
        first = [await rig.reaches(each, IntentState.SENT) for each in asked]
        for _ in range(4):  # a base fee above what the first signatures offered
            await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
            await rig.mine()
            await asyncio.sleep(0.3)
        done = await rig.mined(*asked)
    assert [each.outcome for each in done] == [MinedOutcome.SUCCEEDED] * 3
    assert [each.nonce for each in done] == [0, 1, 2]
    assert all(before.tx_hash != after.tx_hash for before, after in zip(first, done, strict=True))
    assert await rig.balances([each.to for each in requests]) == [1, 1, 1]


@pytest.mark.thorough
async def test_idle_time_does_not_count_as_stuck_time(rig: Rig) -> None:
    """Idle time before a transaction was sent does not count as time it was stuck."""
    signer, seconds = await rig.new_signer(), 4.0
    patience = replace(QUICK.patience, bump_after_seconds=seconds, resend_after_seconds=60.0)
    async with rig.relayer(rig.spec(signer), policy=replace(QUICK, patience=patience)):
        await rig.mine()
        await asyncio.sleep(seconds + 0.6)
        asked = await rig.ask_for(rig.transfer())
        await rig.in_pool(signer, 1)
        first = await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        for _ in range(3):  # blocks pass over it
            await rig.mine()
            await asyncio.sleep(0.3)
        assert (await rig.read(asked)).tx_hash == first.tx_hash
        (done,) = await rig.mined(asked)
    assert done.tx_hash != first.tx_hash


async def test_an_idle_lane_asks_its_node_now_and_then(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, counts = [], Follower._counts

    async def counted(follower: Follower) -> tuple[int, int]:
        looks.append(follower)
        return await counts(follower)

    monkeypatch.setattr(Follower, "_counts", counted)
    monkeypatch.setattr("relayer.following.IDLE_SECONDS", 5.0)
    async with rig.relayer(rig.spec(await rig.new_signer())):
        await until(lambda: bool(looks), "the first look")
        await asyncio.sleep(0.5)
        seen = len(looks)
        await asyncio.sleep(POLL_SECONDS)
        await rig.mine()
        await asyncio.sleep(1.5 * POLL_SECONDS)
        assert len(looks) == seen
        await until(lambda: len(looks) > seen, "a look after a while", 15.0)


async def test_the_first_of_two_signatures_is_found_when_it_is_the_one_mined(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    asked = await rig.ask_for(request)
    async with rig.relayer(rig.spec(signer)):
        await rig.in_pool(signer, 1)
        first = await rig.reaches(asked, IntentState.SENT)
        raw = await rig.ask("eth_getRawTransactionByHash", first.tx_hash_hex)

        async def replaced() -> bool:
            await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
            await rig.ask("anvil_dropAllTransactions")
            await rig.mine()
            await asyncio.sleep(0.5)  # a signature for this block is made, and none is mined by the next one
            return (await rig.read(asked)).tx_hash != first.tx_hash

        await until(replaced, "a second signature")
    await rig.ask("anvil_dropAllTransactions")
    await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(1))
    await rig.ask("eth_sendRawTransaction", raw)
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        (done,) = await rig.mined(asked)
    assert done.tx_hash == first.tx_hash
    assert done.outcome is MinedOutcome.SUCCEEDED
    assert await rig.balance(request.to) == 1


async def test_a_lost_transaction_at_the_fee_cap_is_resent(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(signer), policy=AT_THE_CAP):
        await rig.in_pool(signer, 1)
        for _ in range(10):  # long enough, and blocks enough, for fees to rise if they could
            await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
            await rig.mine()
            await asyncio.sleep(0.3)
        first = await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        (done,) = await rig.mined(asked)
    assert done.outcome is MinedOutcome.SUCCEEDED
    assert done.tx_hash == first.tx_hash


class Faltering(LocalSigner):
    """A key that signs only while the test allows it. refused: how often it did not."""

    signs, refused = True, 0

    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        if not self.signs:
            self.refused += 1
            raise SignerUnavailable("The key does not sign.")
        return await super().sign_all(transactions)


async def test_a_lost_transaction_is_resent_while_its_signer_is_down(rig: Rig) -> None:
    """Its fees should be raised, but the key service is down."""
    signer = Faltering(secrets.token_bytes(32))
    await rig.ask("anvil_setBalance", signer.label, hex(ETHER))
    asked = await rig.ask_for(rig.transfer())
    impatient = replace(QUICK, patience=replace(QUICK.patience, bump_after_blocks=0))
    async with rig.relayer(rig.spec(signer), policy=impatient):
        first = await rig.reaches(asked, IntentState.SENT)
        signer.signs = False
        await until(lambda: signer.refused > 0, "a signature's being wanted")
        await rig.ask("anvil_dropAllTransactions")
        await rig.in_pool(signer, 1)
        (done,) = await rig.mined(asked)
    assert done.tx_hash == first.tx_hash


async def test_a_key_without_money_does_not_bump_what_it_cannot_pay(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for(rig.transfer())
    store = await rig.dead_holder(signer, next_nonce=0)
    (signed,) = await store.sign(await rig.prepared(store))
    await rig.free_lanes()
    address = "0x" + signer.address.hex()
    await rig.ask("anvil_setBalance", address, hex(1))
    async with rig.relayer(rig.spec(signer)):
        for _ in range(10):
            await rig.mine()
            await asyncio.sleep(0.4)
        await rig.ask("anvil_setBalance", address, hex(10**18))
        (done,) = await rig.mined(asked)
    assert done.tx_hash == signed.newest.hash


async def test_a_transaction_undone_by_a_reorg_is_sent_again(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await rig.in_pool(signer, 1)
        await rig.mine()
        before = await rig.reaches(asked, IntentState.MINED)
        await rig.ask("evm_revert", snapshot)
        await rig.ask("anvil_dropAllTransactions")
        await rig.mine(2)  # another block at the same height, without it
        await rig.reaches(asked, IntentState.SENT)
        await rig.in_pool(signer, 1)
        (after,) = await rig.mined(asked)
    assert after.tx_hash == before.tx_hash
    assert await rig.balance(request.to) == 1
    assert await rig.steps(asked) == ["queued", "signed", "sent", "mined", "sent", "mined", "final"]


async def test_a_reorg_that_moves_a_transaction_to_another_block_is_followed(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await rig.in_pool(signer, 1)
        await rig.mine()
        before = await rig.reaches(asked, IntentState.MINED)
        raw = await rig.ask("eth_getRawTransactionByHash", before.tx_hash_hex)
        await rig.ask("evm_revert", snapshot)
        await rig.mine(1)
        await rig.ask("eth_sendRawTransaction", raw)
        await rig.mine(1)
        (after,) = await rig.mined(asked)
    assert before.block_number is not None
    assert after.block_number == before.block_number + 1
    assert await rig.balance(request.to) == 1


async def test_a_reorg_while_the_relayer_is_down_is_found_at_its_start(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await rig.in_pool(signer, 1)
        await rig.mine()
        await rig.reaches(asked, IntentState.MINED)
    await rig.ask("evm_revert", snapshot)
    await rig.ask("anvil_dropAllTransactions")
    await rig.mine(2)
    async with rig.relayer(rig.spec(signer)):
        await rig.in_pool(signer, 1)
        await rig.mined(asked)
    assert await rig.balance(request.to) == 1


async def test_a_reorg_deeper_than_finality_reopens_ended_intents(rig: Rig) -> None:
    """It does so even while the second URL, which might have a receipt, is down."""
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with replace(rig, more_urls=(f"http://127.0.0.1:{free_port()}",)).relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await rig.in_pool(signer, 1)
        (before,) = await rig.mined(asked)
        assert before.state is IntentState.FINAL
        await rig.ask("evm_revert", snapshot)
        await rig.ask("anvil_dropAllTransactions")
        await rig.mine(1)
        await rig.reaches(asked, IntentState.SENT)
        await rig.in_pool(signer, 1)
        (after,) = await rig.mined(asked)
    assert after.tx_hash == before.tx_hash
    assert await rig.nonce(signer) == 1
    assert await rig.balance(request.to) == 1


@pytest.mark.parametrize("policy", [QUICK, AT_THE_CAP])
async def test_a_late_transaction_in_flight_is_cancelled_and_can_never_land(rig: Rig, policy: LanePolicy) -> None:
    counted = measured("vpm_relayer_cancels_total")
    signer = await rig.new_signer()
    head = await rig.client.head()
    request = rig.transfer(not_after=head.timestamp + 100)
    async with rig.relayer(rig.spec(signer), policy=policy):
        asked = await rig.ask_for(request)
        await rig.in_pool(signer, 1)
        original = await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("evm_setNextBlockTimestamp", head.timestamp + 101)
        await rig.mine()
        (done,) = await rig.mined(asked)
    assert done.state is IntentState.REPLACED
    assert done.outcome is MinedOutcome.CANCELLED
    assert done.reason_code == "expired"
    assert measured("vpm_relayer_cancels_total") > counted
    assert done.tx_hash != original.tx_hash
    assert await rig.nonce(signer) == 1
    assert await rig.balance(request.to) == 0


async def test_a_noop_takes_the_nonce_of_a_transaction_no_node_accepts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node refuses it for good, and those behind it must not wait forever."""
    signer = await rig.new_signer()
    refuse_first_offer(monkeypatch)
    impossible, behind = rig.transfer(), rig.transfer()
    asked = await rig.ask_for_many([impossible, behind])
    async with rig.relayer(rig.spec(signer)):
        first, second = await rig.mined(*asked)
    assert first.state is IntentState.REPLACED
    assert first.reason_code == "gas_limit"
    assert second.state is IntentState.FINAL
    assert await rig.balances([impossible.to, behind.to]) == [0, 1]


async def test_losing_every_database_connection_again_and_again_loses_nothing(rig: Rig) -> None:
    signers = [await rig.new_signer() for _ in range(2)]
    requests = [rig.transfer() for _ in range(400)]
    policy = replace(QUICK, batch_size=10, rpc_batch_size=5)
    async with rig.relayer(*(rig.spec(each) for each in signers), policy=policy):
        asked = await rig.ask_for_many(requests)
        for _ in range(6):
            await asyncio.sleep(0.5)
            await rig.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name LIKE 'vpm-relayer%'"
            )
            await rig.mine()
        await rig.mined(*asked)
    assert await rig.balances([each.to for each in requests]) == [1] * 400
    assert sum([await rig.nonce(each) for each in signers]) == 400


async def test_nothing_is_signed_while_the_base_fee_is_above_the_cap(rig: Rig) -> None:
    signer = await rig.new_signer()
    await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(900 * GWEI))
    await rig.mine()
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(signer)):
        await asyncio.sleep(1.5)
        assert (await rig.read(asked)).state is IntentState.QUEUED
        for _ in range(8):
            await rig.mine()
        await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        await rig.mined(asked)
