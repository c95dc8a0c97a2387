"""A lane's nonces, what its transactions count against a wallet, and which process holds it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from dataclasses import replace
from functools import partial

import psycopg
import pytest

from core.hexadecimal import bytes_of
from core.outbox import IntentState, LaneStatus
from relayer.leases import LeaseLost
from relayer.policy import WALLET_REVERTS_ALLOWED
from relayer.queued import LaneQueries
from relayer.sending import LaneSender
from relayer.signing import LocalSigner
from relayer.store import LaneStore
from relayer.transactions import IntentRefusal, LaneTransactions, NonceTaker
from tests.support.prometheus import measured
from tests.support.relayer_rig import QUICK, Rig, chain, rig
from tests.waiting import PATIENCE, until

__all__ = ["chain", "rig"]

# Why a call reverts whose payment a stranger had settled: on the stock side, and on the agent side.
PAID_BEFORE_US = (
    "AuthorizationSpent",
    "AuthorizationAlreadyUsed",
    "AuthorizationUsedOrCanceled",
    "AuthorizationAlreadyBooked",
    "IdempotencyKeyUsed",
)


# ---------------------------------------------------------------- whose a nonce is


async def test_a_keys_transactions_before_its_lane_began_are_not_foreign(rig: Rig) -> None:
    counted = measured("vpm_relayer_foreign_total")
    signer = await rig.new_signer()
    for nonce in (0, 1):
        await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, nonce).hex())
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        first = await rig.ask_for(rig.transfer())
        await rig.in_pool(signer, 3)
        (done,) = await rig.mined(first)
    assert done.nonce == 2
    assert measured("vpm_relayer_foreign_total") == counted
    await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, 3).hex())  # while no relayer runs
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        second = await rig.ask_for(rig.transfer())
        await rig.in_pool(signer, 5)
        (done,) = await rig.mined(second)
    assert done.nonce == 4
    assert measured("vpm_relayer_foreign_total") == counted + 1


async def test_a_key_used_elsewhere_after_its_lane_began_without_sending_is_reported(rig: Rig) -> None:
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer)):
        await until(lambda: _has_begun(rig, signer), "the lane's first look")
    counted = measured("vpm_relayer_foreign_total")
    await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, 0).hex())
    await rig.mine()
    async with rig.relayer(rig.spec(signer)):
        asked = await rig.ask_for(rig.transfer())
        await rig.in_pool(signer, 2)
        await rig.mined(asked)
    assert measured("vpm_relayer_foreign_total") == counted + 1


async def _has_begun(rig: Rig, signer: LocalSigner) -> bool:
    return bool(await rig.rows("SELECT 1 FROM outbox_lane WHERE address = %s AND next_nonce >= 0", signer.address))


async def test_a_nonce_taken_by_a_foreign_transaction_sends_its_intent_back_for_another(rig: Rig) -> None:
    signer = await rig.new_signer()
    requests = [rig.transfer() for _ in range(3)]
    asked = await rig.ask_for_many(requests)
    stranger = secrets.token_bytes(20)
    async with rig.relayer(rig.spec(signer)):
        await rig.in_pool(signer, 3)
        await rig.ask("anvil_dropAllTransactions")
        foreign = rig.sign(signer, 0, to=stranger, gwei=400)
        await rig.ask("eth_sendRawTransaction", "0x" + foreign.hex())
        await rig.mine()
        done = await rig.mined(*asked)
    assert await rig.balance("0x" + stranger.hex()) == 1
    assert sorted(each.nonce or 0 for each in done) == [1, 2, 3]
    assert done[0].nonce == 3
    assert await rig.balances([each.to for each in requests]) == [1, 1, 1]
    assert await rig.steps(asked[0]) == ["queued", "signed", "sent", "queued", "signed", "sent", "mined", "final"]


async def test_an_unowned_nonce_is_filled_with_a_noop(rig: Rig) -> None:
    """A row for nonce 2 without any for 0 and 1, as after a partial restore."""
    counted = measured("vpm_relayer_holes_total")
    signer = await rig.new_signer()
    request = rig.transfer()
    asked = await rig.ask_for(request)
    store = await rig.dead_holder(signer, next_nonce=2)
    await store.sign(await rig.prepared(store))
    await rig.free_lanes()
    async with rig.relayer(rig.spec(signer)):
        await rig.in_pool(signer, 3)
        (done,) = await rig.mined(asked)
    assert done.nonce == 2
    assert measured("vpm_relayer_holes_total") == counted + 2
    assert await rig.nonce(signer) == 3
    assert await rig.balance(request.to) == 1


async def test_a_lane_row_ahead_of_the_chain_goes_back(rig: Rig) -> None:
    signer = await rig.new_signer()
    query = "INSERT INTO outbox_lane (chain_id, address, groups, next_nonce) VALUES (%s, %s, '{relay}', 41)"
    await rig.rows(query, rig.chain_id, signer.address)
    asked = await rig.ask_for(rig.transfer())
    async with rig.relayer(rig.spec(signer)):
        (done,) = await rig.mined(asked)
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
    await rig.free_lanes()
    async with rig.relayer(rig.spec(signer)):
        done = await rig.mined(*asked)
    assert [each.tx_hash for each in done] == [transaction.newest.hash for transaction in transactions]
    assert await rig.balances([each.to for each in requests]) == [1] * 4
    assert await rig.steps(asked[0]) == ["queued", "signed", "mined", "final"]


# ---------------------------------------------------------------- what counts against a wallet


async def test_transactions_of_a_wallet_count_on_every_lane(rig: Rig) -> None:
    """A contract wallet may have four transactions in flight, not four for each key that sends bets."""
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


async def test_signing_on_another_lane_counts_and_unfollowed_transactions_stop_counting(rig: Rig) -> None:
    """A key service may take long between the check of a wallet and the signature. A lane whose key was removed leaves
    its transactions in flight."""
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
    await rig.rows("UPDATE outbox_intent SET state_at = state_at - interval '1 hour'")
    assert (await on_their_way(signing), await on_their_way(gone)) == (0, 0)


@pytest.mark.parametrize(
    ("code", "counts"), [("TooFewShares", True), ("PotFull", True), *((code, False) for code in PAID_BEFORE_US)]
)
async def test_a_payment_a_stranger_settled_first_does_not_count_against_its_wallet(
    rig: Rig, code: str, counts: bool
) -> None:
    payer = "0x" + "ab" * 20
    asked = await rig.ask_for(rig.transfer(payer=payer))
    store = await rig.dead_holder(await rig.new_signer(), next_nonce=0)
    await store.sign(await rig.prepared(store))
    await rig.rows(
        "UPDATE outbox_intent SET state = 'mined', outcome = 'reverted', reason_code = %s, mined_at = now(), "
        "block_number = 1, block_hash = tx_hash WHERE id = %s",
        code,
        asked.id,
    )
    wallets, _ = await LaneQueries(rig.pool, store.lease).payer_records({bytes_of(payer)}, ())
    assert wallets[bytes_of(payer)].reverted == counts


# ---------------------------------------------------------------- leases


async def test_a_former_holder_can_write_and_send_nothing(rig: Rig) -> None:
    signer = await rig.new_signer()
    asked = await rig.ask_for(rig.transfer())
    stale = await rig.dead_holder(signer, next_nonce=0, lease_seconds=-1.0)
    prepared = await rig.prepared(stale)
    async with rig.relayer(rig.spec(signer)):
        for _ in range(2):  # its own lease has run out; then another holds the lane
            with pytest.raises(LeaseLost, match="no longer held by this process"):
                await stale.sign(prepared)
            await rig.in_pool(signer, 1)
        with pytest.raises(LeaseLost, match="ran out"):
            replace(stale.lease, valid_until=0.0).check()
        (done,) = await rig.mined(asked)
    assert done.nonce == 0
    assert await rig.rows("SELECT count(*) FROM outbox_transaction") == [(1,)]


@pytest.mark.parametrize("is_taken", [True, False])
async def test_a_write_that_waits_for_the_lanes_row_checks_the_lease_afterwards(rig: Rig, is_taken: bool) -> None:
    """While a write waits for the lane's row, another process takes the lane, or its own renews the lease."""
    store = await rig.dead_holder(await rig.new_signer(), next_nonce=0)
    await rig.ask_for(rig.transfer())
    (transaction,) = await store.sign(await rig.prepared(store))
    await rig.ask_for(rig.transfer())
    (queued,) = await rig.prepared(store)
    rival = NonceTaker(bytes(32), 1, bytes(32))
    change = b"epoch = 2" if is_taken else b"lease_until = lease_until + interval '1 s'"
    rows = b"SELECT i.state, l.next_nonce, l.status FROM outbox_intent i, outbox_lane l ORDER BY i.id"

    async def waits() -> bool:
        async with rig.pool.connection() as connection:
            query = (
                b"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return bool(await connection.fetch_value(query))

    async with rig.pool.connection() as other:
        before = await other.fetch_all(rows)
        for write in (
            partial(store.refuse, [IntentRefusal(queued.candidate, "code", "reason")]),
            partial(store.mark_sent, [transaction]),
            partial(store.requeue, [replace(transaction, rival=rival)]),
            partial(store.set_next_nonce, 7),
            partial(store.report, LaneStatus.FULL, "", 1),
        ):
            async with other.transaction():
                await other.execute(b"UPDATE outbox_lane SET " + change)
                writing = asyncio.ensure_future(write())
                await until(waits, "the write to wait for the lane's row")
            with pytest.raises(LeaseLost) if is_taken else contextlib.nullcontext():
                await writing
            await other.execute(b"UPDATE outbox_lane SET epoch = 1")
        after = await other.fetch_all(rows)
    assert after == (before if is_taken else [("queued", 7, "full"), ("failed", 7, "full")])


async def test_a_holder_that_hangs_in_a_transaction_loses_its_lane(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A suspended process keeps its connection, and would lock the rows for as long as it sleeps."""
    monkeypatch.setattr("relayer.store.IDLE_IN_TRANSACTION_MS", 500)
    sleeper = await rig.dead_holder(await rig.new_signer(), next_nonce=0)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        async with sleeper._fenced(), rig.pool.connection() as other:
            await other.execute("SELECT FROM outbox_lane FOR UPDATE")  # waits, and gets it


async def test_a_holder_that_hangs_in_a_pipeline_loses_its_lane(rig: Rig) -> None:
    """PostgreSQL counts no idle time between two messages of a pipeline, so the lane's next holder terminates that
    session. It loses no other lane meanwhile."""
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


async def test_nothing_is_sent_after_the_lease_expired(rig: Rig) -> None:
    """The process was suspended between signing and sending; another may hold the lane and have cancelled this
    transaction."""
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
    await rig.in_pool(signer, 0)
    sender = LaneSender(store.lease, rig.client, store, on_their_way, QUICK)
    sender.push(transactions)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(sender.run(), 2)
    await rig.in_pool(signer, 1)


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
            await rig.mined(*asked)
        await until(all_held, "the first relayer holding everything again")
    assert await rig.balances([each.to for each in requests]) == [1] * 200
    assert sum([await rig.nonce(each) for each in signers]) == 200
