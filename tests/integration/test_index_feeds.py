"""Feeds: aggregators behind proxies, and feeds that are added after the chain was indexed."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

import pytest
from eth_utils.crypto import keccak

from core.chain.provider import ChainProvider
from core.chain.wire import Log
from core.db.channels import CHAIN_INDEXED, Resync, listen
from core.db.engine import make_pool
from indexer.feeds import emitters_of
from indexer.history import Width
from indexer.rebuild import rebuild
from indexer.sources import FeedRounds
from tests.conftest import StartAnvil, TestPostgres
from tests.support import questions
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import contents, differences, following, fresh_index
from tests.support.index_world import FEEDS, POOL_FEED, Crowd, address_of
from tests.waiting import PATIENCE


def proxy_code(aggregators: list[bytes]) -> bytes:
    """A contract that answers `aggregator()`, `phaseId()` and `phaseAggregators(uint16)` as Chainlink's proxy does."""
    # selector = CALLDATALOAD(0) >> 224; compare, jump
    branches = [
        (keccak(text="aggregator()")[:4], b"\x73" + aggregators[-1]),
        (keccak(text="phaseId()")[:4], b"\x60" + bytes([len(aggregators)])),
    ]
    code = b""
    for selector, push in branches:
        body = push + bytes.fromhex("5f5260205ff3")  # MSTORE(0, value); RETURN(0, 32)
        # if selector differs, jump past the body
        head = bytes.fromhex("5f3560e01c63") + selector + bytes.fromhex("141561")
        target = len(code) + len(head) + 2 + 1 + len(body)
        code += head + target.to_bytes(2) + b"\x57" + body + b"\x5b"
    for phase, aggregator in enumerate(aggregators, 1):
        body = b"\x73" + aggregator + bytes.fromhex("5f5260205ff3")
        head = bytes.fromhex("60043560") + bytes([phase]) + bytes.fromhex("141561")
        target = len(code) + len(head) + 2 + 1 + len(body)
        code += head + target.to_bytes(2) + b"\x57" + body + b"\x5b"
    return code + bytes.fromhex("5f5ffd")


async def test_the_rounds_of_a_proxy_come_from_its_aggregators(anvil: StartAnvil) -> None:
    running = anvil(31337, mine_on_demand=True)
    aggregators = [address_of(f"aggregator {n}") for n in range(10)]
    proxy, plain = address_of("proxy"), address_of("plain feed")
    async with ChainProvider((running.url,), chain_id=31337) as rpc:
        await rpc.call("anvil_setCode", ["0x" + proxy.hex(), "0x" + proxy_code(aggregators).hex()], object)
        await rpc.call("anvil_setCode", ["0x" + plain.hex(), "0x5f5ffd"], object)  # always reverts
        found = await emitters_of(rpc, [proxy, plain])
    expected = {each: FeedRounds(proxy, phase) for phase, each in enumerate(aggregators, 1) if phase > 2}
    assert found == expected | {plain: FeedRounds(plain)}
    assert FeedRounds(proxy, 4).round_id(7) == 4 << 64 | 7
    assert FeedRounds(plain).round_id(1 << 64 | 7) == 1 << 64 | 7


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.thorough
async def test_a_feed_that_is_added_later_is_indexed_from_the_start(
    interrupted: bool, fresh_database_url: str, postgres: TestPostgres
) -> None:
    chain, crowd = SimChain(), Crowd("late feed")
    for _ in range(150):
        chain.mine([crowd.next(chain.head.world) for _ in range(crowd.rng.randrange(8))])
    node, every = SimNode(chain), world_sources()
    some = replace(every, feeds={FEEDS[0]: FeedRounds(FEEDS[0])})
    async with following(fresh_database_url, node, some) as (follower, _):
        await follower.catch_up()
    chain.mine([crowd.tx("round", FEEDS[1], 5)])
    if interrupted:
        async with following(fresh_database_url, node, every) as (follower, _):

            def fail(method: str, answer: list[Log]) -> list[Log]:
                if method == "logs" and any(2 * Width().blocks < int(each.block_number, 16) <= 150 for each in answer):
                    raise ConnectionError
                return answer

            node.fault = fail
            with pytest.raises(ConnectionError):
                await follower.catch_up()
            node.fault = lambda _method, answer: answer
        pages_before = "SELECT count(*) FROM oracle_round WHERE feed = %s AND block_number <= %s"
        assert questions.rows(fresh_database_url, pages_before, FEEDS[1], 2 * Width().blocks)[0][0] > 0, "they are kept"
        async with make_pool(fresh_database_url, size=2) as pool:
            await rebuild(pool, some)  # the feed is no longer configured
    async with following(fresh_database_url, node, every) as (follower, pool):
        async with contextlib.aclosing(listen(fresh_database_url, CHAIN_INDEXED)) as steps:
            assert isinstance(await anext(steps), Resync)
            await follower.catch_up()
            async with asyncio.timeout(PATIENCE):
                async for step in steps:
                    assert not isinstance(step, Resync)
                    if step.everything:  # rows came in blocks that readers have passed
                        break
        async with pool.connection() as connection:
            ours = await contents(connection)
    other = postgres.create()
    try:
        theirs = await fresh_index(other, node, every)
    finally:
        postgres.drop(other)
    assert len({row[3] for row in theirs["oracle_round"]}) == 2
    assert {row[3] for row in theirs["oracle_measure"]} == {POOL_FEED}
    assert not differences(ours, theirs)
