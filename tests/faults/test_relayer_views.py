"""A load-balanced node: receipts that come late, views some blocks apart, one wrong nonce.

Missing is not absent: nothing lands twice, nothing that landed is reported as failed, and no ether is spent on a nonce
because of one answer. Every draw comes from a printed seed (`VPM_TEST_SEED` repeats it).
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from eth_utils.crypto import keccak

from core.hexadecimal import bytes_of, hex_of
from core.outbox import IntentRequest, IntentState
from relayer.feed import ChainFeed
from relayer.policy import FeePolicy
from scripts._local.ports import free_port
from tests.conftest import Anvil, StartAnvil
from tests.support.inconsistent_node import InconsistentNode
from tests.support.outbox_history import history
from tests.support.prometheus import measured
from tests.support.relayer_rig import GWEI, QUICK, Rig, rigged
from tests.waiting import until

SEED = int(os.environ.get("VPM_TEST_SEED", random.randrange(2**32)))
# Reverts when slot 0 is set, and sets it: as a token does with an authorization.
ONCE_CODE = "0x" + bytes.fromhex("60005415600c5760006000fd5b600160005500").hex()
REVERTS_CODE = "0x60006000fd"


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> Anvil:
    return module_anvil(chain_id=31340, block_time_seconds=0.5)


@pytest.fixture
async def node(chain: Anvil) -> AsyncIterator[InconsistentNode]:
    print(f"seed {SEED}")
    async with InconsistentNode(chain.url, SEED) as node:
        yield node


@pytest.fixture
async def rig(fresh_database_url: str, node: InconsistentNode) -> AsyncIterator[Rig]:
    """Return a rig that uses the chain directly; only its relayers use the hazy node."""
    async with rigged(fresh_database_url, node.target, 31340) as rig:
        yield replace(rig, rpc_url=node.url)


async def noops(rig: Rig) -> int:
    ((count,),) = await rig.rows("SELECT count(*) FROM outbox_intent WHERE kind = 'noop'")
    return int(count)


async def test_a_missing_receipt_while_another_url_is_down_delays_no_other_transaction(
    rig: Rig, node: InconsistentNode
) -> None:
    signer = await rig.new_signer()
    async with replace(rig, more_urls=(f"http://127.0.0.1:{free_port()}",)).relayer(rig.spec(signer)):
        node.receipt_delay = (3600.0, 3600.0)
        missing = await rig.ask_for(rig.transfer())

        async def looked_for() -> bool:
            return node.withheld > 3

        await until(looked_for, "the looks for a receipt that is not given")
        node.receipt_delay = (0.0, 0.0)
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL, seconds=20.0)
        assert (await rig.read(missing)).state is IntentState.SENT


class SendLosingNode(InconsistentNode):
    """A node that loses transactions: once `swallows`, it answers with their hash and does not pass them on; once
    `loses_answers`, it passes them on and the connection breaks."""

    def __init__(self, target: str) -> None:
        super().__init__(target, SEED)
        self.swallows = self.loses_answers = False

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        if call["method"] != "eth_sendRawTransaction" or not (self.swallows or self.loses_answers):
            return await super()._answer(call)
        self.lost += 1
        if self.swallows:
            return {"jsonrpc": "2.0", "id": call["id"], "result": hex_of(keccak(bytes_of(call["params"][0])))}
        await super()._answer(call)
        raise ConnectionResetError

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await super()._serve(request)
        except ConnectionResetError:
            return self._hang_up(request)


@pytest.fixture
async def losing(chain: Anvil) -> AsyncIterator[SendLosingNode]:
    async with SendLosingNode(chain.url) as node:
        yield node


async def test_a_send_whose_answer_is_lost_is_pending_and_found_by_its_receipt(
    rig: Rig, losing: SendLosingNode
) -> None:
    signer = await rig.new_signer()
    async with replace(rig, rpc_url=losing.url).relayer(rig.spec(signer)):
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.MINED)
        losing.loses_answers = True
        request = rig.transfer()
        asked = await rig.ask_for(request)
        offered = await rig.reaches(asked, IntentState.SENT)
        assert offered.tx_hash is not None
        done = await rig.reaches(asked, IntentState.MINED, IntentState.FINAL)
    assert losing.lost > 0
    assert done.tx_hash == offered.tx_hash
    assert await rig.balance(request.to) == 1
    assert await rig.nonce(signer) == 2


async def test_a_transaction_the_first_url_loses_is_sent_through_the_second(rig: Rig, losing: SendLosingNode) -> None:
    signer = await rig.new_signer()
    losing.swallows = True
    requests = [rig.transfer() for _ in range(3)]
    async with replace(rig, rpc_url=losing.url, more_urls=(losing.target,)).relayer(rig.spec(signer)):
        for each in await rig.ask_for_many(requests):
            await rig.reaches(each, IntentState.FINAL, seconds=20.0)
    assert losing.lost > 0
    assert await rig.balances([each.to for each in requests]) == [1] * 3


class ForgetfulNode(InconsistentNode):
    """A node that, once `forgets` is set, reports every nonce count as 0, and without `has_receipts` no receipts
    either."""

    def __init__(self, target: str, *, has_receipts: bool) -> None:
        super().__init__(target, SEED)
        self.forgets, self.has_receipts = False, has_receipts

    async def _answer(self, call: dict[str, Any]) -> dict[str, Any]:
        if self.forgets and not self.has_receipts and call["method"] == "eth_getTransactionReceipt":
            self.withheld += 1
            return {"jsonrpc": "2.0", "id": call["id"], "result": None}
        if self.forgets and call["method"] == "eth_getTransactionCount":
            return {"jsonrpc": "2.0", "id": call["id"], "result": "0x0"}
        return await super()._answer(call)


async def test_an_ended_intent_is_not_reopened_while_any_url_has_its_receipt(rig: Rig, chain: Anvil) -> None:
    """Both nodes report its nonce as unused, and the first has no receipt for it."""
    signer = await rig.new_signer()
    async with (
        ForgetfulNode(chain.url, has_receipts=False) as one,
        ForgetfulNode(chain.url, has_receipts=True) as two,
        replace(rig, rpc_url=one.url, more_urls=(two.url,)).relayer(rig.spec(signer)),
    ):
        ended = await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
        one.forgets = two.forgets = True
        await rig.ask_for(rig.transfer())  # a lane at rest asks for nothing

        async def looked_for() -> bool:
            return one.withheld > 3 or (await rig.read(ended)).state is not IntentState.FINAL

        await until(looked_for, "the looks for the receipt of what had ended")
        assert await rig.steps(ended) == ["queued", "signed", "sent", "mined", "final"]


@pytest.mark.parametrize("lie", [3, -2])
@pytest.mark.thorough
async def test_one_wrong_nonce_changes_nothing(rig: Rig, node: InconsistentNode, lie: int) -> None:
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer)):
        first = await rig.ask_for_many([rig.transfer() for _ in range(3)])
        for each in first:
            await rig.reaches(each, IntentState.FINAL)
        node.lies.append(lie)

        async def lied() -> bool:
            return node.false_answers == 1

        await until(lied, "the lie")
        await asyncio.sleep(2.0)
        last = await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
        assert [await rig.steps(each) for each in first] == [["queued", "signed", "sent", "mined", "final"]] * 3
    assert last.nonce == 3
    assert await noops(rig) == 0


async def test_a_wrong_nonce_at_the_start_changes_nothing(rig: Rig, node: InconsistentNode) -> None:
    signer = await rig.new_signer()
    async with rig.relayer(rig.spec(signer)):
        await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
    node.lies.append(4)
    async with rig.relayer(rig.spec(signer)):
        done = await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.FINAL)
    assert node.false_answers == 1
    assert done.nonce == 1
    assert await noops(rig) == 0


@pytest.mark.thorough
async def test_a_foreign_transaction_is_named_before_its_nonce_is_given_up(rig: Rig, node: InconsistentNode) -> None:
    """A foreign transaction takes the nonce of one that could land twice: the history names its hash."""
    signer = await rig.new_signer()
    await rig.ask("evm_setIntervalMining", 0)
    try:
        async with rig.relayer(rig.spec(signer)):
            request = rig.transfer(replay_safe=False)
            asked = await rig.reaches(await rig.ask_for(request), IntentState.SENT)
            await rig.ask("anvil_dropAllTransactions")
            foreign = await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, 0, gwei=400).hex())
            await rig.mine()
            await rig.ask("evm_setIntervalMining", 1)
            done = await rig.reaches(asked, IntentState.FINAL)
    finally:
        await rig.ask("evm_setIntervalMining", 1)
    assert done.nonce == 1
    assert await rig.balance(request.to) == 1
    async with rig.pool.connection() as connection:
        reasons = [each.reason for each in await history(connection, asked.id) if each.to_state is IntentState.QUEUED]
    assert reasons[1] is not None
    assert str(foreign) in reasons[1]


@pytest.mark.thorough
async def test_without_proof_a_nonce_is_not_given_up(rig: Rig, node: InconsistentNode) -> None:
    """The node has no state of old blocks, so which transaction took the nonce stays unknown, and the intent is not
    requeued."""
    node.pruned = True
    signer = await rig.new_signer()
    await rig.ask("evm_setIntervalMining", 0)
    try:
        asked = await rig.ask_for(rig.transfer(replay_safe=True))
        async with rig.relayer(rig.spec(signer)):
            await rig.reaches(asked, IntentState.SENT)
        await rig.ask("anvil_dropAllTransactions")
        await rig.ask("eth_sendRawTransaction", "0x" + rig.sign(signer, 0, gwei=400).hex())
        await rig.mine(20)
        async with rig.relayer(rig.spec(signer)):

            async def looked_for() -> bool:
                await rig.mine()
                return measured("vpm_relayer_unproven") == 1

            await until(looked_for, "the search for who took the nonce", pause=0.3)
            assert (await rig.read(asked)).state is IntentState.SENT
            node.pruned = False
            await rig.ask("evm_setIntervalMining", 1)
            done = await rig.reaches(asked, IntentState.FINAL)
    finally:
        await rig.ask("evm_setIntervalMining", 1)
    assert done.nonce == 1


async def test_an_intent_that_landed_under_a_former_nonce_is_not_refused(rig: Rig, node: InconsistentNode) -> None:
    """An intent is queued again although its transaction landed (an older relayer gave it up too soon). The contract
    refuses a second one, and the intent ends as mined."""
    signer = await rig.new_signer()
    target = "0x" + secrets.token_hex(20)
    await rig.ask("anvil_setCode", target, ONCE_CODE)
    asked = await rig.ask_for(rig.transfer(to=target, value_wei=0, replay_safe=True))
    async with rig.relayer(rig.spec(signer)):
        landed = await rig.reaches(asked, IntentState.MINED, IntentState.FINAL)
    await rig.ask("anvil_mine", hex(1))
    async with rig.pool.connection() as connection:
        await connection.execute("ALTER TABLE outbox_intent DISABLE TRIGGER outbox_intent_moved")
        await connection.execute(
            "UPDATE outbox_intent SET state = 'queued', lane_id = NULL, nonce = NULL, tx_hash = NULL, outcome = NULL, "
            "block_number = NULL, block_hash = NULL, gas_used = NULL, fee_wei = NULL, mined_at = NULL WHERE id = %s",
            (asked.id,),
        )
        await connection.execute("ALTER TABLE outbox_intent ENABLE TRIGGER outbox_intent_moved")
    async with rig.relayer(rig.spec(signer)):
        done = await rig.reaches(asked, IntentState.FINAL, IntentState.FAILED)
    assert done.reason is None
    assert done.state is IntentState.FINAL
    assert done.tx_hash == landed.tx_hash
    assert await rig.nonce(signer) == 1


async def test_a_node_that_is_behind_from_the_start_is_no_reorg(rig: Rig, node: InconsistentNode) -> None:
    async with rigged(rig.database_url, node.url, 31340) as behind:
        feed = ChainFeed(behind.client, "test", 31340, finality_blocks=8, poll_seconds=0.1)
        await rig.mine(8)
        await feed.poll_once()
        head = feed.head
        node.views = (5,)
        await feed.poll_once()
        assert feed.head == head
        assert feed.reorgs == 0


async def test_a_refusal_names_only_a_block_at_which_it_holds(rig: Rig, node: InconsistentNode) -> None:
    """One node refuses the call at its newest block; the node that names a block is several blocks behind."""
    target = "0x" + secrets.token_hex(20)
    await rig.mine(8)
    await rig.ask("anvil_setCode", target, REVERTS_CODE)
    node.lag_of, node.head_seconds = lambda method, _: 5 if method == "eth_blockNumber" else 0, 0.0
    async with rig.relayer(rig.spec(await rig.new_signer())):
        early = await rig.reaches(await rig.ask_for(calls(rig, target)), IntentState.FAILED)
        await rig.mine(8)
        late = await rig.reaches(await rig.ask_for(calls(rig, target)), IntentState.FAILED)
    assert early.refused
    assert early.block_number is None
    assert late.block_number is not None  # old, and it refuses the call as well


def calls(rig: Rig, target: str) -> IntentRequest:
    return rig.transfer(to=target, value_wei=0)


async def test_noops_count_against_the_allowance(rig: Rig, node: InconsistentNode) -> None:
    """No-ops fill unowned nonces only as far as the hourly gas limit allows."""
    signer = await rig.new_signer()
    store = await rig.dead_holder(signer, next_nonce=40)
    asked = await rig.ask_for(rig.transfer())
    await store.sign(await rig.prepared(store))
    await rig.free_lanes()
    market = await rig.client.eth.fee_history(1, "latest", [50.0])
    fees = FeePolicy(cap_wei=500 * GWEI, min_priority_wei=GWEI, max_priority_wei=GWEI)
    gas_wei = 21_000 * (market["baseFeePerGas"][-1] + GWEI)
    async with rig.relayer(rig.spec(signer), policy=replace(QUICK, fees=fees, gas_per_hour_wei=8 * gas_wei)):

        async def begun() -> bool:
            return await noops(rig) > 0

        await until(begun, "the first noop")
        await asyncio.sleep(3.0)  # more would follow
        filled = await noops(rig)
        assert (await rig.read(asked)).nonce == 40
    assert 0 < filled <= 10


async def test_nothing_becomes_final_before_its_block_was_confirmed(rig: Rig, node: InconsistentNode) -> None:
    """The block is deep enough, but the node does not return it, so it may have been replaced."""
    signer = await rig.new_signer()
    async with replace(rig, finality_blocks=1000).relayer(rig.spec(signer)):
        mined = await rig.reaches(await rig.ask_for(rig.transfer()), IntentState.MINED)
    assert mined.block_number is not None
    await rig.mine(10)
    node.hide(mined.block_number)
    async with rig.relayer(rig.spec(signer)):
        await asyncio.sleep(3.0)
        assert (await rig.read(mined)).state is IntentState.MINED
        node.show()
        await rig.reaches(mined, IntentState.FINAL)
