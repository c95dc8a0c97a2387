"""Heads and finality in the index: what is recorded, how often, and from which nodes."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from core.chain import RpcError, RpcErrorKind
from core.db.engine import ConnectionPool
from indexer.chain import ABANDONED_SECONDS, REWRITE_SECONDS
from indexer.errors import NodeFault
from indexer.finality import ASK_SECONDS, SILENT_SECONDS, STALLED_SECONDS
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import following
from tests.support.index_world import Crowd


async def _written(pool: ConnectionPool) -> tuple[object, ...]:
    async with pool.connection() as connection:
        cursor = await connection.execute("SELECT xmin::text, head_seen_at, state FROM chain_cursor")
        row = await cursor.fetchone()
    assert row is not None
    return tuple(row)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [time.monotonic()]
    clock = SimpleNamespace(monotonic=lambda: now[0], time=time.time, perf_counter=time.perf_counter)
    for module in ("chain", "finality"):
        monkeypatch.setattr(f"indexer.{module}.time", clock)
    return now


async def test_a_head_that_is_polled_often_is_recorded_once_a_second(database_url: str, now: list[float]) -> None:
    chain, crowd = SimChain(), Crowd("noted")
    chain.mine([crowd.tx("list", b"m" * 32, 10_000, 2, "{}")])
    async with following(database_url, SimNode(chain), world_sources(), afresh=True) as (follower, pool):
        before = await _written(pool)
        for _ in range(5):
            await follower.catch_up()
        assert await _written(pool) == before

        now[0] += REWRITE_SECONDS + 0.1
        await follower.catch_up()
        (_, seen_at, state), (_, seen_before, _) = await _written(pool), before
        assert state == "tail"
        assert seen_at > seen_before  # type: ignore[operator]

        # A slow former leader may have written in between.
        async with pool.connection() as connection:
            await connection.execute("UPDATE chain_cursor SET state = 'halted', problem = 'of a former leader'")
        now[0] += REWRITE_SECONDS + 0.1
        await follower.catch_up()
        assert (await _written(pool))[2] == "tail"

        chain.mine([])
        await follower.catch_up()
        async with pool.connection() as connection:
            cursor = await connection.execute("SELECT head_number - number FROM chain_cursor")
            assert await cursor.fetchone() == (0,)


async def _cursor(pool: ConnectionPool) -> tuple[int, int, int, object]:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "SELECT number, head_number, coalesce(finalized_number, 0), head_seen_at FROM chain_cursor"
        )
        row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1], row[2], row[3]


async def test_finality_of_a_chain_that_was_not_followed_is_ignored(database_url: str, now: list[float]) -> None:
    """A node that is one block behind, on a block no other node has, calls that block final."""
    chain, crowd = SimChain(), Crowd("final")
    chain.mine([crowd.tx("list", b"f" * 32, 10_000, 2, "{}")])
    for _ in range(12):
        chain.mine([])
    node = SimNode(chain)
    node.finalized_depth = 10
    async with following(database_url, node, world_sources(), afresh=True) as (follower, pool):
        number, _, final, _ = await _cursor(pool)
        assert final == number - 10

        below = chain.blocks[-2].header
        node.fault = lambda method, answer: replace(below, hash="0x" + "bb" * 32) if method == "head" else answer
        node.finalized_depth = 1
        now[0] += ASK_SECONDS
        await follower.catch_up()
        node.fault, node.finalized_depth = lambda _method, answer: answer, 10
        chain.mine([])
        await follower.catch_up()
        assert (await _cursor(pool))[2] <= number - 9


async def test_finality_reported_by_a_node_that_refuses_logs_is_ignored_on_another_chain(
    database_url: str, now: list[float]
) -> None:
    """A node on another fork reports a head, calls it final and fails; the next step follows another node."""
    chain, crowd = SimChain(), Crowd("forked")
    chain.mine([crowd.tx("list", b"k" * 32, 10_000, 2, "{}")])
    for _ in range(12):
        chain.mine([])
    node = SimNode(chain)
    node.finalized_depth = 10
    async with following(database_url, node, world_sources(), afresh=True) as (follower, pool):
        forked = replace(chain.mine([]).header, hash="0x" + "bb" * 32)

        def fails(method: str, answer: Any) -> Any:
            if method == "head":
                return forked
            raise RpcError(RpcErrorKind.UNAVAILABLE, "it is going down")

        node.fault, node.finalized_depth = fails, 0
        now[0] += ASK_SECONDS
        with suppress(RpcError, NodeFault):
            await follower.catch_up()
        node.fault, node.finalized_depth = lambda _method, answer: answer, 10
        await follower.open()
        await follower.catch_up()
        assert (await _cursor(pool))[2] <= chain.head.header.number - 10


async def test_a_block_is_final_when_all_answering_nodes_say_so(
    database_url: str, now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One node calls a block final that may still be replaced; one node is not enough."""
    chain, crowd = SimChain(), Crowd("believed")
    chain.mine([crowd.tx("list", b"b" * 32, 10_000, 2, "{}")])
    for _ in range(12):
        chain.mine([])
    other = SimNode(chain)
    node = SimNode(chain, others=(other,))
    node.finalized_depth, other.finalized_depth = 0, 10

    async def stands_still() -> int | None:
        return 3

    async def fails() -> int | None:
        raise RpcError(RpcErrorKind.UNAVAILABLE, "it is away")

    async def hangs() -> int | None:
        await asyncio.sleep(60)
        return None

    async with following(database_url, node, world_sources(), afresh=True) as (follower, pool):

        async def final() -> int:
            now[0] += ASK_SECONDS
            chain.mine([])
            await follower.catch_up()
            return chain.head.header.number - (await _cursor(pool))[2]

        assert await final() == 10
        # A silent or stalled node delays nothing.
        monkeypatch.setattr(other, "finalized", stands_still)
        assert await final() > 10
        now[0] += STALLED_SECONDS
        node.finalized_depth = 9
        assert await final() == 9
        node.finalized_depth = 8
        monkeypatch.setattr("indexer.finality.ANSWER_SECONDS", 0.05)
        for silent in (fails, hangs):
            monkeypatch.setattr(other, "finalized", silent)
            assert await final() == 8
            now[0] += SILENT_SECONDS


async def test_an_older_head_does_not_hide_a_newer_one_that_was_not_read(database_url: str, now: list[float]) -> None:
    """Two nodes share an address: one reports a head whose logs it refuses, the other is at the tables' block."""
    chain, crowd = SimChain(), Crowd("hidden")
    chain.mine([crowd.tx("list", b"h" * 32, 10_000, 2, "{}")])
    node = SimNode(chain)
    async with following(database_url, node, world_sources(), afresh=True) as (follower, pool):
        old, new = chain.head.header, chain.mine([crowd.tx("list", b"n" * 32, 10_000, 2, "{}")]).header

        def refuses(method: str, answer: Any) -> Any:
            if method not in ("head", "headers"):
                raise RpcError(RpcErrorKind.UNAVAILABLE, "its logs are not there yet")
            return answer

        node.fault = refuses
        with suppress(RpcError, NodeFault):
            await follower.catch_up()
        seen_at = (await _cursor(pool))[3]
        for _ in range(2):
            now[0] += REWRITE_SECONDS
            node.fault = lambda method, answer: old if method == "head" else answer
            await follower.catch_up()
            node.fault = refuses
            with suppress(RpcError, NodeFault):
                await follower.catch_up()
        assert (await _cursor(pool))[3] == seen_at

        node.fault = lambda _method, answer: answer
        await follower.catch_up()
        number, head, _, now_seen = await _cursor(pool)
        assert (number, head) == (new.number, new.number)
        assert now_seen > seen_at  # type: ignore[operator]


async def test_a_head_that_no_node_repeats_does_not_make_the_index_stale_for_long(
    database_url: str, now: list[float]
) -> None:
    chain, crowd = SimChain(), Crowd("nonsense")
    chain.mine([crowd.tx("list", b"o" * 32, 10_000, 2, "{}")])
    node = SimNode(chain)
    async with following(database_url, node, world_sources(), afresh=True) as (follower, pool):
        far = replace(chain.head.header, number_hex=hex(10**9))
        node.fault = lambda method, answer: far if method == "head" else answer
        with suppress(RpcError, NodeFault):
            await follower.catch_up()
        node.fault = lambda _method, answer: answer
        for _ in range(2):
            chain.mine([])
            await follower.catch_up()
            now[0] += ABANDONED_SECONDS
        number, head, _, _ = await _cursor(pool)
        assert (number, head) == (chain.head.header.number, chain.head.header.number)
