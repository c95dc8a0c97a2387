"""Malformed answers are the node's fault, and the next node is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from msgspec import json, structs

from core.chain.provider import ChainProvider
from core.chain.wire import Log
from indexer.errors import NodeFault
from indexer.fetch import Fetcher
from indexer.node import Header, RpcNode
from tests.integration.hostile_node import hostile_node
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_world import Crowd

HEADER = Header(hash="0x" + "1" * 64, parent_hash="0x" + "2" * 64, number_hex="0x10", timestamp_hex="0x1")


FIELDS = {
    "hash": HEADER.hash,
    "parentHash": HEADER.parent_hash,
    "number": "0x10",
    "timestamp": "0x1",
    "l1BlockNumber": "0x5",
    "logsBloom": "0x" + "0" * 512,
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"hash": "0x1"},
        {"parentHash": ""},
        {"number": "0x"},
        {"timestamp": ""},
        {"l1BlockNumber": "0x"},
        {"logsBloom": "0xzz"},
        *({field: hex(2**63)} for field in ("number", "timestamp", "l1BlockNumber")),  # larger than any
    ],
    ids=str,
)
async def test_after_a_malformed_header_the_next_node_is_asked(wrong: dict[str, str]) -> None:
    good = structs.replace(HEADER, l1_block_number_hex="0x5", logs_bloom=FIELDS["logsBloom"])
    async with (
        hostile_node({**FIELDS, **wrong}) as one,
        hostile_node(FIELDS) as other,
        ChainProvider((one.url, other.url), chain_id=31337, pause_seconds=0.01) as rpc,
    ):
        assert await RpcNode(rpc).head() == good


def _far(log: Log) -> Log:
    """Give the log an index that no column can hold."""
    return structs.replace(log, log_index=hex(2**31 + int(log.log_index, 16)))


MALFORMED: dict[str, dict[str, str] | Callable[[Log], Log]] = {
    "data cut short": {"data": "0x0"},
    "a number that is none": {"block_number": "0x"},
    "an index no log has": _far,
    "an index below all": {"log_index": "-0x1"},
    "a short hash": {"transaction_hash": "0x12"},
    "a block that is none": {"block_hash": "0x12"},
    "a block without its prefix": {"block_hash": "12" * 32},
}


def _served(chain: SimChain, wrong: dict[str, str] | Callable[[Log], Log]) -> Any:
    node = SimNode(chain)

    def given(logs: Iterable[Log]) -> list[Log]:
        return [structs.replace(log, **wrong) if isinstance(wrong, dict) else wrong(log) for log in logs]

    async def one(body: dict[str, Any]) -> Any:
        match body["method"], body["params"]:
            case "eth_getBlockByNumber", [number, _]:
                return (await node.headers([int(number, 16)]))[0]
            case "eth_getLogs", [{"blockHash": block_hash} as chosen]:
                logs = await node.logs_of_block(chosen, block_hash)
            case "eth_getLogs", [chosen]:
                logs = await node.logs(chosen, int(chosen["fromBlock"], 16), int(chosen["toBlock"], 16))
            case "eth_getBlockReceipts", [block_hash]:
                return [{"logs": given(await node.receipt_logs(block_hash) or ())}]
        return given(logs)

    async def answer(body: Any) -> web.Response:
        each = body if isinstance(body, list) else [body]
        answers = [{"jsonrpc": "2.0", "id": item["id"], "result": await one(item)} for item in each]
        return web.Response(body=json.encode(answers if isinstance(body, list) else answers[0]))

    return answer


@pytest.mark.parametrize("wrong", MALFORMED.values(), ids=MALFORMED)
async def test_after_malformed_logs_the_next_node_is_asked_for_a_while(
    wrong: dict[str, str] | Callable[[Log], Log],
) -> None:
    chain, crowd, sources = SimChain(), Crowd("malformed"), replace(world_sources(), token=None)
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    expected = await Fetcher(SimNode(chain), sources).fetch_linked(1, 20, None, chain.head.header)
    async with (
        hostile_node(_served(chain, wrong), chain_id=8453) as one,
        hostile_node(_served(chain, {}), chain_id=8453) as other,
        ChainProvider((one.url, other.url), chain_id=8453, pause_seconds=0.01) as rpc,
    ):
        node = RpcNode(rpc)
        fetcher = Fetcher(node, sources)
        with pytest.raises(NodeFault):
            await fetcher.fetch_linked(1, 20, None, chain.head.header)
        assert (await fetcher.fetch_linked(1, 20, None, chain.head.header)).logs == expected.logs
        assert (await fetcher.fetch_history(1, 20)).logs == expected.logs
