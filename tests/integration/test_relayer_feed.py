"""A chain's feed during forks, including those it sees only in part."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace as replace_struct

from core.chain import Block, ChainClient, RpcError, RpcErrorKind
from core.outbox import IntentState
from core.service.cancelling import cancel_and_wait
from relayer.feed import BEHIND_SECONDS, ChainFeed
from tests.conftest import Anvil, StartAnvil
from tests.support.relayer_rig import Rig, rig
from tests.waiting import PATIENCE, until

__all__ = ["rig"]


@pytest.fixture(scope="module")
def chain(module_anvil: StartAnvil) -> Anvil:
    """Start a chain that mines on demand."""
    return module_anvil(chain_id=31341, mine_on_demand=True)


def feed_of(rig: Rig) -> ChainFeed:
    return ChainFeed(rig.client, "test", rig.chain_id, finality_blocks=64, poll_seconds=0.1)


async def hash_of(feed: ChainFeed, number: int) -> str | None:
    return (await feed.hashes_of([number]))[number]


async def test_a_bet_under_the_first_head_seen_is_sent_again_when_a_fork_replaces_both(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relayer starts and finds its transaction of five blocks ago still mined; then a fork undoes it."""
    rig = replace(rig, finality_blocks=64, poll_seconds=3600.0)  # it polls on demand
    signer = await rig.new_signer()
    snapshot = await rig.ask("evm_snapshot")
    asked = await rig.mined_under(signer, blocks=5)
    compared, hashes_of = asyncio.Event(), ChainFeed.hashes_of

    async def watched(feed: ChainFeed, numbers: Any) -> dict[int, str | None]:
        answer = await hashes_of(feed, numbers)
        if answer:
            compared.set()
        return answer

    monkeypatch.setattr(ChainFeed, "hashes_of", watched)
    async with rig.relayer(rig.spec(signer)) as relayer:
        (chain,) = relayer.chains.values()
        await asyncio.wait_for(compared.wait(), PATIENCE)
        await rig.fork(snapshot, 9)
        chain.feed.poll_now()
        await rig.reaches(asked, IntentState.SENT, seconds=10.0)
        await rig.in_pool(signer)
    assert await rig.steps(asked) == ["queued", "signed", "sent", "mined", "sent"]


async def test_a_block_below_a_gap_is_forgotten_after_a_fork(rig: Rig) -> None:
    feed, snapshot = feed_of(rig), await rig.ask("evm_snapshot")
    await rig.mine(6)
    await feed.poll_once()
    low = feed.head.number - 5
    assert await hash_of(feed, low) == await rig.hash_at(low)
    await rig.fork(snapshot, 9)
    await feed.poll_once()
    assert feed.reorgs == 1
    assert await hash_of(feed, low) == await rig.hash_at(low)


async def test_a_fork_below_the_head_leaves_no_old_block(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, snapshot = feed_of(rig), await rig.ask("evm_snapshot")
    for _ in range(4):
        await rig.mine()
        await feed.poll_once()
    low = feed.head.number - 1
    await rig.mine(3)
    blocks = ChainClient.blocks

    async def forked(client: ChainClient, numbers: Any) -> Any:
        monkeypatch.setattr(ChainClient, "blocks", blocks)
        await rig.fork(snapshot, 9)
        return await blocks(client, numbers)

    monkeypatch.setattr(ChainClient, "blocks", forked)
    await feed.poll_once()
    for _ in range(2):
        await rig.mine(2)
        await feed.poll_once()
    assert feed.reorgs > 0
    for number in range(low, feed.head.number + 1):
        assert await hash_of(feed, number) == await rig.hash_at(number), number


async def test_an_answer_from_before_a_fork_is_not_remembered(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    feed, snapshot = feed_of(rig), await rig.ask("evm_snapshot")
    await rig.mine(6)
    await feed.poll_once()
    low, blocks = feed.head.number - 5, ChainClient.blocks
    asked, forked = asyncio.Event(), asyncio.Event()

    async def slow(client: ChainClient, numbers: Any) -> Any:
        answer = await blocks(client, numbers)
        if low in numbers and not asked.is_set():
            asked.set()
            await forked.wait()
        return answer

    monkeypatch.setattr(ChainClient, "blocks", slow)
    asking = asyncio.create_task(hash_of(feed, low))
    await asked.wait()
    await rig.fork(snapshot, 9)
    await feed.poll_once()
    forked.set()
    await asking
    assert feed.reorgs == 1
    assert await hash_of(feed, low) == await rig.hash_at(low)


async def test_an_idle_feed_skips_the_blocks_of_a_gap_and_sees_a_fork_below_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed, blocks, most = feed_of(rig), ChainClient.blocks, 0
    feed.is_idle = lambda: True

    async def counted(client: ChainClient, numbers: Any) -> Any:
        nonlocal most
        most = max(most, len(numbers))
        return await blocks(client, numbers)

    monkeypatch.setattr(ChainClient, "blocks", counted)
    for _ in range(3):
        snapshot = await rig.ask("evm_snapshot")
        await rig.mine(20)
        await feed.poll_once()
    assert (feed.reorgs, most) == (0, 3)
    await rig.fork(snapshot, 40)
    await feed.poll_once()
    assert (feed.reorgs, feed.head.number) == (1, (await rig.client.head()).number)


async def test_a_failed_fee_request_is_no_reorg(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = feed_of(rig)
    await feed.poll_once()
    history_of = rig.client.eth.fee_history
    failed: list[Any] = []

    async def failing(*arguments: Any) -> Any:
        if not failed:
            failed.append(arguments)
            raise RpcError(RpcErrorKind.TIMEOUT, "no answer")
        return await history_of(*arguments)

    monkeypatch.setattr("relayer.feed.FEE_SECONDS", 0.0)
    monkeypatch.setattr(rig.client.eth, "fee_history", failing)
    await rig.mine()
    with pytest.raises(RpcError):
        await feed.poll_once()
    await feed.poll_once()
    assert failed
    assert feed.reorgs == 0


async def test_an_idle_feed_that_failed_polls_again_soon(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a poll succeeds, lanes sign nothing and the API refuses bets."""
    feed = ChainFeed(rig.client, "test", rig.chain_id, 64, poll_seconds=0.1, is_idle=lambda: True)
    head_of, fails = rig.client.head, True

    async def failing(**how: Any) -> Block:
        if fails:
            raise RpcError(RpcErrorKind.TIMEOUT, "no answer")
        return await head_of(**how)

    monkeypatch.setattr(rig.client, "head", failing)
    running = asyncio.create_task(feed.run())
    try:

        async def failed() -> bool:
            return feed.problem is not None

        await until(failed, "a failed poll")
        fails = False
        assert await feed.wait(0, 3.0)
        assert feed.problem is None
    finally:
        await cancel_and_wait(running)


async def test_a_block_requested_before_its_head_arrived_is_no_reorg(rig: Rig) -> None:
    feed = feed_of(rig)
    await feed.poll_once()
    await rig.mine()
    assert await hash_of(feed, feed.head.number + 1) is not None
    await feed.poll_once()
    assert feed.reorgs == 0


async def test_a_node_that_lacks_a_block_below_the_head_undoes_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nodes behind one URL: one returns the head, and the other, two blocks behind, gets the request for the blocks
    below."""
    feed, blocks, below = feed_of(rig), ChainClient.blocks, 0
    for _ in range(3):
        await rig.mine(4)
        await feed.poll_once()
    known, low = feed.head, feed.head.number - 7
    await rig.mine(4)

    async def lagging(client: ChainClient, numbers: Any) -> Any:
        return [each if each and each.number <= below else None for each in await blocks(client, numbers)]

    below = known.number + 2
    monkeypatch.setattr(ChainClient, "blocks", lagging)
    await feed.poll_once()
    assert (feed.reorgs, feed.head) == (0, known)
    asked: list[int] = []

    async def counted(client: ChainClient, numbers: Any) -> Any:
        asked.extend(numbers)
        return await blocks(client, numbers)

    monkeypatch.setattr(ChainClient, "blocks", counted)
    assert (await feed.hashes_of([low]))[low] == await rig.hash_at(low)
    assert asked == []
    await feed.poll_once()
    assert (feed.reorgs, feed.head.number) == (0, known.number + 4)


async def test_a_head_whose_lower_blocks_stay_missing_is_accepted_in_the_end(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ChainFeed(rig.client, "test", rig.chain_id, finality_blocks=64, poll_seconds=0.1, behind_seconds=0.2)
    await feed.poll_once()
    await rig.mine(4)

    async def missing(client: ChainClient, numbers: Any) -> Any:
        return [None for _ in numbers]

    monkeypatch.setattr(ChainClient, "blocks", missing)
    known = feed.head
    await feed.poll_once()
    assert (feed.reorgs, feed.head) == (0, known)
    await asyncio.sleep(0.25)
    await feed.poll_once()
    assert (feed.reorgs, feed.head.number) == (1, known.number + 4)


async def test_all_mined_blocks_are_compared_with_one_request(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.mine(40)
    feed, blocks, batches = feed_of(rig), ChainClient.blocks, 0
    await feed.poll_once()

    async def counted(client: ChainClient, numbers: Any) -> Any:
        nonlocal batches
        batches += 1
        return await blocks(client, numbers)

    monkeypatch.setattr(ChainClient, "blocks", counted)
    numbers = range(feed.head.number - 39, feed.head.number + 2)
    said = await feed.hashes_of(numbers)
    assert batches == 1
    assert [said[each] for each in numbers[:-1]] == [await rig.hash_at(each) for each in numbers[:-1]]
    assert said[numbers[-1]] is None


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The feed's clock, which moves when a test moves it."""
    now = [time.monotonic()]
    monkeypatch.setattr("relayer.feed.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


async def stray(feed: ChainFeed, monkeypatch: pytest.MonkeyPatch, head: Block) -> None:
    """Poll once with a node that returns this head but none of its other blocks."""

    async def named(_client: ChainClient, **_how: Any) -> Block:
        return head

    async def missing(_client: ChainClient, _number: Any) -> None:
        return None

    with monkeypatch.context() as patch:
        patch.setattr(ChainClient, "head", named)
        patch.setattr(ChainClient, "block", missing)
        await feed.poll_once()


@pytest.mark.parametrize("ahead", [-5, 1, 1_000], ids=["shorter", "apart", "far ahead"])
async def test_an_unconnected_head_is_accepted_only_if_nothing_contradicts_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, now: list[float], ahead: int
) -> None:
    """On a chain without new blocks, wrong answers alternate with right ones. Accepting a head far above ours would
    make every mined transaction final at once."""
    await rig.mine(8)
    feed = feed_of(rig)
    await feed.poll_once()
    known = feed.head
    bad = replace_struct(
        known, number_hex=hex(known.number + ahead), hash="0x" + "bb" * 32, parent_hash="0x" + "aa" * 32
    )
    for _ in range(3):
        await stray(feed, monkeypatch, bad)
        assert (feed.reorgs, feed.head) == (0, known)
        now[0] += BEHIND_SECONDS / 2
        await feed.poll_once()
        now[0] += BEHIND_SECONDS / 2
    await stray(feed, monkeypatch, bad)
    now[0] += BEHIND_SECONDS
    await stray(feed, monkeypatch, bad)
    assert (feed.reorgs, feed.head) == (1, bad)


async def test_a_failed_request_between_two_bad_heads_resets_the_wait(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, now: list[float]
) -> None:
    feed = feed_of(rig)
    await feed.poll_once()
    known = feed.head
    bad = replace_struct(known, number_hex=hex(known.number + 1), hash="0x" + "bb" * 32, parent_hash="0x" + "aa" * 32)

    async def silent(_client: ChainClient, **_how: Any) -> Block:
        raise RpcError(RpcErrorKind.UNAVAILABLE, "no node answers")

    await stray(feed, monkeypatch, bad)
    with monkeypatch.context() as patch:
        patch.setattr(ChainClient, "head", silent)
        for _ in range(3):
            now[0] += BEHIND_SECONDS
            with pytest.raises(RpcError):
                await feed.poll_once()
    await stray(feed, monkeypatch, bad)
    assert (feed.reorgs, feed.head) == (0, known)
