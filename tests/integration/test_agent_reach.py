"""Health while the Base nodes stop answering and recover."""

from __future__ import annotations

import asyncio

from api.agent.chain import responds
from core.chain import ChainClient, ChainProvider
from tests.integration.hostile_node import hostile_node, status
from tests.waiting import PATIENCE, until

HEAD = {
    "number": "0x10",
    "hash": "0x" + "11" * 32,
    "parentHash": "0x" + "22" * 32,
    "timestamp": "0x6900",
    "baseFeePerGas": "0x1",
}


async def test_a_node_is_down_until_it_answers_again() -> None:
    async with (
        hostile_node(status(500)) as node,
        ChainProvider((node.url,), chain_id=31337, timeout_seconds=1, rounds=1) as rpc,
    ):
        client = ChainClient(rpc)
        for _ in range(15):  # between them its URL rests and is tried again
            assert not await responds(client)
            await asyncio.sleep(0.3)
        node.replies = [HEAD]
        await until(lambda: responds(client), "an answer", pause=0.1)


async def test_a_node_that_never_answers_counts_as_down() -> None:
    over = asyncio.Event()

    async def never(_body: object) -> None:
        await over.wait()

    async with hostile_node(never) as node, ChainProvider((node.url,), chain_id=31337) as rpc:
        try:
            async with asyncio.timeout(PATIENCE):
                assert not await responds(ChainClient(rpc))
        finally:
            over.set()


async def test_without_a_url_the_chain_is_down() -> None:
    assert not await responds(None)
