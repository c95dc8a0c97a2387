"""What goes wrong between a signature and a final block, each made to happen, each repaired without a person."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import psycopg
import pytest

from core.hexadecimal import bytes_of
from core.outbox import Intent, IntentState, MinedOutcome
from relayer.following import AT_REST_SECONDS, POLL_SECONDS, Follower
from relayer.leases import LeaseLost
from relayer.policy import WALLET_REVERTS_ALLOWED, LanePolicy
from relayer.queries import LaneQueries
from relayer.sending import LaneSender
from relayer.signing import LocalSigner, Signed, SignerUnavailable, Unsigned
from relayer.store import LaneStore
from relayer.transactions import LaneTransactions
from scripts._local.ports import free_port
from tests.conftest import Anvil, StartAnvil
from tests.support.measured import measured
from tests.support.outbox_history import history
from tests.support.relayer_rig import ETHER, GWEI, QUICK, Rig, rigged
from tests.waiting import PATIENCE, until

# Why a call reverts whose very payment somebody else had settled: on the stock side, and on the agent side.
PAID_BEFORE_US = (
    "AuthorizationSpent",
    "AuthorizationAlreadyUsed",
    "AuthorizationUsedOrCanceled",
    "AuthorizationAlreadyBooked",
    "IdempotencyKeyUsed",
)
# Already the first offer is the most that may be paid.
AT_THE_CAP = replace(QUICK, fees=replace(QUICK.fees, cap_wei=GWEI * 11 // 10))


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> Anvil:
    """Mines only when told to."""
    return module_anvil(chain_id=31338, mine_on_demand=True)


@pytest.fixture
async def rig(fresh_database_url: str, chain: Anvil) -> AsyncIterator[Rig]:
    async with rigged(fresh_database_url, chain.url, chain.chain_id) as rig:
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        await rig.mine()
        yield rig


async def in_pool(rig: Rig, signer: LocalSigner, count: int) -> None:
    async def holds() -> bool:
        return await rig.nonce(signer, "pending") == count

    await until(holds, f"{count} transactions in the pool")


async def mined(rig: Rig, *intents: Intent, seconds: float = PATIENCE) -> list[Intent]:
    """Mines a block every 0.3 s until all intents are final."""

    ids = [each.id for each in intents]

    async def final() -> bool:
        await rig.mine()
        await asyncio.sleep(0.2)
        async with rig.pool.connection() as connection:
            cursor = await connection.execute(
                "SELECT count(*) FROM outbox_intent WHERE id = ANY(%s) "
                "AND state NOT IN ('final', 'failed', 'replaced')",
                (ids,),
            )
            return await cursor.fetchone() == (0,)

    await until(final, "the end of every intent", seconds)
    return [await rig.read(each) for each in intents]


async def test_a_stuck_transaction_is_replaced_by_one_that_pays_enough(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(3)]
    asked = await rig.ask_for_many(requests)
    async with rig.relayer(rig.spec(signer)):
        await in_pool(rig, signer, 3)
        first = [await rig.reaches(each, IntentState.SENT) for each in asked]
        for _ in range(4):  # a base fee above what the first signatures offered
            await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
            await rig.mine()
            await asyncio.sleep(0.3)
        done = await mined(rig, *asked)
    assert [each.outcome for each in done] == [MinedOutcome.SUCCEEDED] * 3
    assert [each.nonce for each in done] == [0, 1, 2]
    assert all(before.tx_hash != after.tx_hash for before, after in zip(first, done, strict=True))
    assert await rig.balances([each.to for each in requests]) == [1, 1, 1]


@pytest.mark.thorough
async def test_a_rest_before_it_is_no_time_that_a_transaction_stands_still(rig: Rig) -> None:
    """A chain that makes no blocks says nothing of what nobody had sent: a new transaction has its whole patience."""
    signer, seconds = await rig.new_signer(), 4.0
    patience = replace(QUICK.patience, bump_after_seconds=seconds, resend_after_seconds=60.0)
    async with rig.relayer(rig.spec(signer), policy=replace(QUICK, patience=patience)):
        await rig.mine()
        await asyncio.sleep(seconds + 0.6)
        asked = await rig.ask_for(rig.transfer())
        await in_pool(rig, signer, 1)
        first = await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        for _ in range(3):  # blocks pass over it
            await rig.mine()
            await asyncio.sleep(0.3)
        assert (await rig.read(asked)).tx_hash == first.tx_hash
        (done,) = await mined(rig, asked)
    assert done.tx_hash != first.tx_hash


async def test_a_lane_at_rest_asks_its_node_now_and_then(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, counts = [], Follower.counts

    async def counted(follower: Follower) -> tuple[int, int]:
        looks.append(follower)
        return await counts(follower)

    monkeypatch.setattr(Follower, "counts", counted)
    async with rig.relayer(rig.spec(await rig.new_signer())):
        await until(lambda: bool(looks), "the first look")
        await asyncio.sleep(0.5)
        seen = len(looks)
        await asyncio.sleep(POLL_SECONDS)
        await rig.mine()
        await asyncio.sleep(1.5 * POLL_SECONDS)
        assert len(looks) == seen
        await until(lambda: len(looks) > seen, "a look after a while", AT_REST_SECONDS + 10)


async def test_the_first_of_two_signatures_is_found_when_it_is_the_one_mined(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    asked = await rig.ask_for(request)
    async with rig.relayer(rig.spec(signer)):
        await in_pool(rig, signer, 1)
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
        (done,) = await mined(rig, asked)
    assert done.tx_hash == first.tx_hash
    assert done.outcome is MinedOutcome.SUCCEEDED
    assert await rig.balance(request.to) == 1


async def test_a_wiped_mempool_is_filled_again(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(5)]
    asked = await rig.ask_for_many(requests)
    async with rig.relayer(rig.spec(signer)):
        await in_pool(rig, signer, 5)
        await rig.ask("anvil_dropAllTransactions")
        assert await rig.nonce(signer, "pending") == 0
        await in_pool(rig, signer, 5)
        await mined(rig, *asked)
    assert await rig.nonce(signer) == 5
    assert await rig.balances([each.to for each in requests]) == [1] * 5


async def test_what_may_not_pay_more_is_offered_again_once_the_node_lost_it(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(signer), policy=AT_THE_CAP):
        await in_pool(rig, signer, 1)
        for _ in range(10):  # long enough, and blocks enough, for fees to rise if they could
            await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
            await rig.mine()
            await asyncio.sleep(0.3)
        first = await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(GWEI))
        (done,) = await mined(rig, asked)
    assert done.outcome is MinedOutcome.SUCCEEDED
    assert done.tx_hash == first.tx_hash


class Faltering(LocalSigner):
    """A key that signs as long as it is told to. `refused`: how often it did not."""

    signs, refused = True, 0

    async def sign_all(self, transactions: Sequence[Unsigned]) -> list[Signed]:
        if not self.signs:
            self.refused += 1
            raise SignerUnavailable("The key does not sign.")
        return await super().sign_all(transactions)


async def test_what_its_key_does_not_raise_is_offered_again_once_the_node_lost_it(rig: Rig) -> None:
    """Its fees ought to rise, and the key service is down."""
    signer = Faltering(secrets.token_bytes(32))
    await rig.ask("anvil_setBalance", signer.label, hex(ETHER))
    asked = await rig.ask_for(rig.transfer())
    impatient = replace(QUICK, patience=replace(QUICK.patience, bump_after_blocks=0))
    async with rig.relayer(rig.spec(signer), policy=impatient):
        first = await rig.reaches(asked, IntentState.SENT)
        signer.signs = False
        await until(lambda: signer.refused > 0, "a signature's being wanted")
        await rig.ask("anvil_dropAllTransactions")
        await in_pool(rig, signer, 1)
        (done,) = await mined(rig, asked)
    assert done.tx_hash == first.tx_hash


async def test_a_key_without_money_does_not_raise_what_it_cannot_pay(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for(rig.transfer())
    store = await rig.dead_holder(signer, next_nonce=0)
    (signed,) = await store.sign(await rig.prepared(store))
    async with rig.pool.connection() as connection:
        await connection.execute("UPDATE outbox_lane SET holder = NULL, lease_until = NULL")
    address = "0x" + signer.address.hex()
    await rig.ask("anvil_setBalance", address, hex(1))
    async with rig.relayer(rig.spec(signer)):
        for _ in range(10):
            await rig.mine()
            await asyncio.sleep(0.4)
        await rig.ask("anvil_setBalance", address, hex(10**18))
        (done,) = await mined(rig, asked)
    assert done.tx_hash == signed.newest.hash


async def test_a_transaction_undone_by_a_reorg_is_sent_again(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await in_pool(rig, signer, 1)
        await rig.mine()
        before = await rig.reaches(asked, IntentState.MINED)
        await rig.ask("evm_revert", snapshot)
        await rig.ask("anvil_dropAllTransactions")
        await rig.mine(2)  # another block at the same height, without it
        await rig.reaches(asked, IntentState.SENT)
        await in_pool(rig, signer, 1)
        (after,) = await mined(rig, asked)
    assert after.tx_hash == before.tx_hash
    assert await rig.balance(request.to) == 1
    async with rig.pool.connection() as connection:
        steps = [step.to_state.value for step in await history(connection, asked.id)]
    assert steps == ["queued", "signed", "sent", "mined", "sent", "mined", "final"]


async def test_a_reorg_that_moves_a_transaction_to_another_block_is_followed(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await in_pool(rig, signer, 1)
        await rig.mine()
        before = await rig.reaches(asked, IntentState.MINED)
        raw = await rig.ask("eth_getRawTransactionByHash", before.tx_hash_hex)
        await rig.ask("evm_revert", snapshot)
        await rig.mine(1)
        await rig.ask("eth_sendRawTransaction", raw)
        await rig.mine(1)
        (after,) = await mined(rig, asked)
    assert before.block_number is not None
    assert after.block_number == before.block_number + 1
    assert await rig.balance(request.to) == 1


async def test_a_reorg_while_the_relayer_is_down_is_found_at_its_start(rig: Rig) -> None:
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await in_pool(rig, signer, 1)
        await rig.mine()
        await rig.reaches(asked, IntentState.MINED)
    await rig.ask("evm_revert", snapshot)
    await rig.ask("anvil_dropAllTransactions")
    await rig.mine(2)
    async with rig.relayer(rig.spec(signer)):
        await in_pool(rig, signer, 1)
        await mined(rig, asked)
    assert await rig.balance(request.to) == 1


async def test_a_reorg_deeper_than_finality_brings_back_what_had_ended(rig: Rig) -> None:
    """Also while the second URL, which might have a receipt, is away."""
    signer = await rig.new_signer()
    request = rig.transfer()
    snapshot = await rig.ask("evm_snapshot")
    async with replace(rig, more_urls=(f"http://127.0.0.1:{free_port()}",)).relayer(rig.spec(signer)):
        asked = await rig.ask_for(request)
        await in_pool(rig, signer, 1)
        (before,) = await mined(rig, asked)
        assert before.state is IntentState.FINAL
        await rig.ask("evm_revert", snapshot)
        await rig.ask("anvil_dropAllTransactions")
        await rig.mine(1)
        await rig.reaches(asked, IntentState.SENT)
        await in_pool(rig, signer, 1)
        (after,) = await mined(rig, asked)
    assert after.tx_hash == before.tx_hash
    assert await rig.nonce(signer) == 1
    assert await rig.balance(request.to) == 1


async def test_what_a_key_was_used_for_before_its_lane_began_is_nobody_elses(rig: Rig) -> None:
    counted = measured("vpm_relayer_foreign_total")
    signer = await rig.new_signer()
    for nonce in (0, 1):
        await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, nonce).hex())
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        first = await rig.ask_for(rig.transfer())
        await in_pool(rig, signer, 3)
        (done,) = await mined(rig, first)
    assert done.nonce == 2
    assert measured("vpm_relayer_foreign_total") == counted
    await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, 3).hex())  # while no relayer runs
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        second = await rig.ask_for(rig.transfer())
        await in_pool(rig, signer, 5)
        (done,) = await mined(rig, second)
    assert done.nonce == 4
    assert measured("vpm_relayer_foreign_total") == counted + 1


async def test_a_key_used_elsewhere_after_a_lane_began_that_sent_nothing_is_told(rig: Rig) -> None:
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer)):
        await until(lambda: _has_begun(rig, signer), "the lane's first look")
    counted = measured("vpm_relayer_foreign_total")
    await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, 0).hex())
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(rig.transfer())
        await in_pool(rig, signer, 2)
        await mined(rig, asked)
    assert measured("vpm_relayer_foreign_total") == counted + 1


async def _has_begun(rig: Rig, signer: LocalSigner) -> bool:
    async with rig.pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT FROM outbox_lane WHERE address = %s AND next_nonce IS NOT NULL", (signer.address,)
        )
        return await cursor.fetchone() is not None


async def test_a_nonce_taken_by_a_foreign_transaction_sends_its_intent_back_for_another(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(3)]
    asked = await rig.ask_for_many(requests)
    stranger = secrets.token_bytes(20)
    async with rig.relayer(rig.spec(signer)):
        await in_pool(rig, signer, 3)
        await rig.ask("anvil_dropAllTransactions")
        foreign = rig.sign(signer, 0, to=stranger, gwei=400)
        await rig.ask("eth_sendRawTransaction", "0x" + foreign.hex())
        await rig.mine()
        done = await mined(rig, *asked)
    assert await rig.balance("0x" + stranger.hex()) == 1
    assert sorted(each.nonce or 0 for each in done) == [1, 2, 3]
    assert done[0].nonce == 3
    assert await rig.balances([each.to for each in requests]) == [1, 1, 1]
    async with rig.pool.connection() as connection:
        steps = [step.to_state.value for step in await history(connection, asked[0].id)]
    assert steps == ["queued", "signed", "sent", "queued", "signed", "sent", "mined", "final"]


async def test_what_any_lane_has_on_its_way_for_a_wallet_counts_for_every_lane(rig: Rig) -> None:
    """A wallet with code may have four on their way, not four for each key that carries bets."""
    payer = "0x" + "c0de" * 10
    await rig.ask("anvil_setCode", payer, "0x00")
    lanes = [rig.spec(await rig.new_signer()) for _ in range(3)]
    asked = await rig.ask_for_many([rig.transfer(payer=payer) for _ in range(12)])

    async def in_flight() -> int:
        states = [(await rig.read(each)).state for each in asked]
        assert set(states) <= {IntentState.QUEUED, IntentState.SIGNED, IntentState.SENT}
        return sum(each.in_flight for each in states)

    async with rig.relayer(*lanes):
        async with asyncio.timeout(PATIENCE):
            while await in_flight() < WALLET_REVERTS_ALLOWED:
                await asyncio.sleep(0.05)
        for _ in range(10):  # every lane looks at those that wait, again and again
            await asyncio.sleep(QUICK.defer_seconds)
            assert await in_flight() == WALLET_REVERTS_ALLOWED
    await rig.mine()


async def test_what_another_lane_is_having_signed_counts_and_what_nobody_follows_does_not_for_ever(rig: Rig) -> None:
    """A key service takes its time between a wallet's being judged and its signature. A lane whose key was taken away
    leaves what it had sent behind."""
    payer = "0x" + "c0de" * 10
    await rig.ask_for_many([rig.transfer(payer=payer) for _ in range(3)])
    signing, gone = [await rig.dead_holder(await rig.new_signer(), next_nonce=0) for _ in range(2)]

    async def on_their_way(store: LaneStore) -> int:
        wallets, _ = await LaneQueries(rig.pool, store.lease).payer_records({bytes_of(payer)}, ())
        return wallets[bytes_of(payer)].in_flight

    assert (await on_their_way(signing), await on_their_way(gone)) == (0, 0)
    claimed = await LaneQueries(rig.pool, signing.lease).claim((await rig.prepared(signing))[:2], 30.0)
    assert (await on_their_way(signing), await on_their_way(gone)) == (0, 2)
    await LaneQueries(rig.pool, signing.lease).unclaim(claimed)
    assert await on_their_way(gone) == 0
    await gone.sign(await rig.prepared(gone))
    assert (await on_their_way(signing), await on_their_way(gone)) == (3, 3)
    async with rig.pool.connection() as connection:
        await connection.execute("UPDATE outbox_intent SET state_at = state_at - interval '1 hour'")
    assert (await on_their_way(signing), await on_their_way(gone)) == (0, 0)


@pytest.mark.parametrize(
    ("code", "counts"), [("TooFewShares", True), ("PotFull", True), *((code, False) for code in PAID_BEFORE_US)]
)
async def test_a_payment_that_somebody_else_made_first_is_not_held_against_its_wallet(
    rig: Rig, code: str, counts: bool
) -> None:
    payer = "0x" + "ab" * 20
    asked = await rig.ask_for(rig.transfer(payer=payer))
    store = await rig.dead_holder(await rig.new_signer(), next_nonce=0)
    await store.sign(await rig.prepared(store))
    async with rig.pool.connection() as connection:
        await connection.execute(
            "UPDATE outbox_intent SET state = 'mined', outcome = 'reverted', reason_code = %s, mined_at = now(), "
            "block_number = 1, block_hash = tx_hash WHERE id = %s",
            (code, asked.id),
        )
    wallets, _ = await LaneQueries(rig.pool, store.lease).payer_records({bytes_of(payer)}, ())
    assert wallets[bytes_of(payer)].reverted == counts


async def test_a_nonce_nobody_owns_is_filled_with_a_noop(rig: Rig) -> None:
    """A row for nonce 2 without any for 0 and 1, as after a partial restore."""
    counted = measured("vpm_relayer_holes_total")
    signer = await rig.new_signer()
    request = rig.transfer()
    asked = await rig.ask_for(request)
    store = await rig.dead_holder(signer, next_nonce=2)
    await store.sign(await rig.prepared(store))
    async with rig.pool.connection() as connection:
        await connection.execute("UPDATE outbox_lane SET holder = NULL, lease_until = NULL")
    async with rig.relayer(rig.spec(signer)):
        await in_pool(rig, signer, 3)
        (done,) = await mined(rig, asked)
    assert done.nonce == 2
    assert measured("vpm_relayer_holes_total") == counted + 2
    assert await rig.nonce(signer) == 3
    assert await rig.balance(request.to) == 1


async def test_a_lane_row_ahead_of_the_chain_goes_back(rig: Rig) -> None:
    signer = await rig.new_signer()
    async with rig.pool.connection() as connection:
        await connection.execute(
            "INSERT INTO outbox_lane (chain_id, address, groups, next_nonce) VALUES (%s, %s, '{relay}', 41)",
            (rig.chain_id, signer.address),
        )
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(signer)):
        (done,) = await mined(rig, asked)
    assert done.nonce == 0


async def test_signed_but_never_sent_rows_are_sent_after_a_restart(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(4)]
    asked = await rig.ask_for_many(requests)
    store = await rig.dead_holder(signer, next_nonce=0)
    transactions = await store.sign(await rig.prepared(store))
    # One of them was sent, and mined, before the process died without writing it down.
    await rig.ask("eth_sendRawTransaction", "0x" + transactions[0].newest.raw.hex())
    await rig.mine()
    async with rig.pool.connection() as connection:
        await connection.execute("UPDATE outbox_lane SET holder = NULL, lease_until = NULL")
    async with rig.relayer(rig.spec(signer)):
        done = await mined(rig, *asked)
    assert [each.tx_hash for each in done] == [transaction.newest.hash for transaction in transactions]
    assert await rig.balances([each.to for each in requests]) == [1] * 4
    async with rig.pool.connection() as connection:
        steps = [step.to_state.value for step in await history(connection, asked[0].id)]
    assert steps == ["queued", "signed", "mined", "final"]


@pytest.mark.parametrize("policy", [QUICK, AT_THE_CAP])
async def test_an_intent_late_in_the_air_is_cancelled_and_can_never_land(rig: Rig, policy: LanePolicy) -> None:
    counted = measured("vpm_relayer_cancels_total")
    signer = await rig.new_signer()
    head = await rig.client.head()
    request = rig.transfer(not_after=head.timestamp + 100)
    async with rig.relayer(rig.spec(signer), policy=policy):
        asked = await rig.ask_for(request)
        await in_pool(rig, signer, 1)
        original = await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("evm_setNextBlockTimestamp", head.timestamp + 101)
        await rig.mine()
        (done,) = await mined(rig, asked)
    assert done.state is IntentState.REPLACED
    assert done.outcome is MinedOutcome.CANCELLED
    assert done.reason_code == "expired"
    assert measured("vpm_relayer_cancels_total") > counted
    assert done.tx_hash != original.tx_hash
    assert await rig.nonce(signer) == 1
    assert await rig.balance(request.to) == 0


async def test_what_no_node_takes_frees_its_nonce_by_a_noop(rig: Rig) -> None:
    """More gas than a block holds: the node refuses it for good, and those behind it must not wait for ever."""
    signer = await rig.new_signer()
    impossible = rig.transfer(gas_limit=70_000_000, simulate=False)
    behind = rig.transfer()
    asked = await rig.ask_for_many([impossible, behind])
    async with rig.relayer(rig.spec(signer), policy=replace(QUICK, max_gas=100_000_000)):
        first, second = await mined(rig, *asked)
    assert first.state is IntentState.REPLACED
    assert first.reason_code == "gas_limit"
    assert second.state is IntentState.FINAL
    assert await rig.balances([impossible.to, behind.to]) == [0, 1]


async def test_an_intent_that_may_pay_too_little_gives_way_to_those_behind_it(rig: Rig) -> None:
    signer = await rig.new_signer()
    poor = rig.transfer(max_fee_cap_wei=3 * GWEI)
    behind = rig.transfer()
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for_many([poor, behind])
        await in_pool(rig, signer, 2)

        async def ended() -> bool:
            await rig.ask("anvil_setNextBlockBaseFeePerGas", hex(100 * GWEI))
            await rig.mine()
            await asyncio.sleep(0.2)
            return all([(await rig.read(each)).state.ended for each in asked])

        await until(ended, "the end of both")
        first, second = [await rig.read(each) for each in asked]
    assert first.state is IntentState.REPLACED
    assert first.reason_code == "fee_cap"
    assert first.reason == "It was not mined, and may not pay more than 3 gwei for gas; a no-op took its nonce."
    assert second.state is IntentState.FINAL
    assert await rig.balances([poor.to, behind.to]) == [0, 1]


async def test_losing_every_database_connection_again_and_again_loses_nothing(rig: Rig) -> None:
    signers = [await rig.new_signer() for _ in range(2)]
    requests = [rig.transfer() for _ in range(400)]
    policy = replace(QUICK, batch_size=10, rpc_batch_size=5)
    async with rig.relayer(*(rig.spec(each) for each in signers), policy=policy):
        asked = await rig.ask_for_many(requests)
        for _ in range(6):
            await asyncio.sleep(0.5)
            async with rig.pool.connection() as connection:
                await connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                    "AND application_name LIKE 'vpm-relayer%'"
                )
            await rig.mine()
        await mined(rig, *asked)
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
        await mined(rig, asked)


async def test_a_holder_that_slept_through_a_takeover_can_write_and_send_nothing(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for(rig.transfer())
    stale = await rig.dead_holder(signer, next_nonce=0, lease_seconds=-1.0)
    prepared = await rig.prepared(stale)
    async with rig.relayer(rig.spec(signer)):
        for _ in range(2):  # its own lease has run out; then another holds the lane
            with pytest.raises(LeaseLost, match="no longer ours"):
                await stale.sign(prepared)
            await in_pool(rig, signer, 1)
        with pytest.raises(LeaseLost, match="ran out"):
            replace(stale.lease, valid_until=0.0).check()
        (done,) = await mined(rig, asked)
    assert done.nonce == 0
    async with rig.pool.connection() as connection:
        cursor = await connection.execute("SELECT count(*) FROM outbox_transaction")
        assert await cursor.fetchone() == (1,)


async def test_a_holder_that_stops_in_a_transaction_lets_go_of_its_lane(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped, not dead: its connection answers, and would keep the rows locked for as long as it sleeps."""
    monkeypatch.setattr("relayer.store.IDLE_IN_TRANSACTION_MS", 500)
    sleeper = await rig.dead_holder(await rig.new_signer(), next_nonce=0)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        async with sleeper._fenced(), rig.pool.connection() as other:
            await other.execute("SELECT FROM outbox_lane FOR UPDATE")  # waits, and gets it


async def test_a_holder_that_stops_in_a_pipeline_loses_its_lane(rig: Rig) -> None:
    """Between two messages of one PostgreSQL counts no idle time: whoever takes the lane over ends that session. Of the
    lanes that are at work none is given up meanwhile."""
    signer, busy = await rig.new_signer(), await rig.new_signer()
    sleeper = await rig.dead_holder(signer, next_nonce=0, lease_seconds=1.0)
    async with contextlib.AsyncExitStack() as asleep:
        connection, _ = await asleep.enter_async_context(sleeper._fenced())
        await asleep.enter_async_context(connection.pipeline())
        await (await connection.execute("SELECT 1")).fetchone()  # sent and answered, and the pipeline goes on
        async with rig.relayer(rig.spec(busy), rig.spec(signer)) as relayer:

            async def both() -> bool:
                return len(relayer.leases.by_lane) == 2

            await until(both, "the takeover")
            epochs = {lease.signer: lease.epoch for lease in relayer.leases.by_lane.values()}
        assert epochs == {busy: 1, signer: 2}
        with pytest.raises(psycopg.OperationalError):
            await asleep.aclose()


async def test_what_is_signed_is_not_offered_once_the_lease_ran_out(rig: Rig) -> None:
    """Its process was stopped between signing and sending; another may hold the lane, and have cancelled this."""
    signer = await rig.new_signer()
    await rig.ask_for(rig.transfer())
    store = await rig.dead_holder(signer, next_nonce=0)
    transactions = await store.sign(await rig.prepared(store))
    late = replace(store.lease, valid_until=0.0)
    on_their_way = LaneTransactions("test", "0x" + signer.address.hex(), 1)
    sender = LaneSender(late, rig.client, store, on_their_way, QUICK)
    sender.push(transactions)
    with pytest.raises(LeaseLost, match="ran out"):
        await asyncio.wait_for(sender.run(), 5)
    await in_pool(rig, signer, 0)
    sender = LaneSender(store.lease, rig.client, store, on_their_way, QUICK)
    sender.push(transactions)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(sender.run(), 2)
    await in_pool(rig, signer, 1)


async def test_two_relayers_share_lanes_and_one_takes_all_when_the_other_ends(rig: Rig) -> None:
    signers = [await rig.new_signer() for _ in range(4)]
    specs = [rig.spec(each) for each in signers]
    async with rig.relayer(*specs) as first:

        async def all_held() -> bool:
            return len(first.leases.by_lane) == 4

        await until(all_held, "the first relayer holding everything")
        async with rig.relayer(*specs) as second:

            async def shared() -> bool:
                return len(first.leases.by_lane) == len(second.leases.by_lane) == 2

            await until(shared, "an even share")
            assert not set(first.leases.by_lane) & set(second.leases.by_lane)
            requests = [rig.transfer() for _ in range(200)]
            asked = await rig.ask_for_many(requests)
            await mined(rig, *asked)
        await until(all_held, "the first relayer holding everything again")
    assert await rig.balances([each.to for each in requests]) == [1] * 200
    assert sum([await rig.nonce(each) for each in signers]) == 200
