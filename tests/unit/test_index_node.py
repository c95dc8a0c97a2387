"""What a node was found not to know is asked for again: another may answer at its address by then. What is no header
is its fault, and the next one is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from msgspec import json, structs

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider
from core.chain.wire import Log
from indexer import node as nodes
from indexer.bloom import BloomTest
from indexer.errors import NodeFault
from indexer.fetch import Fetcher
from indexer.node import RpcNode
from indexer.proof import Witness
from indexer.wire import Header
from tests.integration.hostile_node import hostile_node
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_world import Crowd

HEADER = Header(hash="0x" + "1" * 64, parent_hash="0x" + "2" * 64, number_hex="0x10", timestamp_hex="0x1")


class Answers:
    """A provider whose node learns what it did not know."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.knows = False
        self.asked = 0

    async def optional(self, method: str, parameters: list[object], shape: Any) -> object:
        self.asked += 1
        if not self.knows:
            raise RpcError(RpcErrorKind.INVALID_PARAMS, "what is that?")
        return self.answer


@pytest.mark.parametrize(("what", "answer", "told"), [("finalized", HEADER, 16), ("receipt_logs", [], [])])
async def test_what_a_node_does_not_know_is_asked_for_again_after_a_while(
    what: str, answer: object, told: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr(nodes, "time", SimpleNamespace(monotonic=lambda: now))
    rpc = Answers(answer)
    node = RpcNode(cast(ChainProvider, rpc))

    async def ask() -> object:
        return await (node.finalized() if what == "finalized" else node.receipt_logs(HEADER.hash))

    assert await ask() is None
    rpc.knows = True
    assert await ask() is None
    assert rpc.asked == 1, "it was asked again at once"
    now += nodes.UNKNOWN_SECONDS
    assert await ask() == told


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
    ],
    ids=str,
)
async def test_for_a_header_that_cannot_be_read_the_next_node_is_asked(wrong: dict[str, str]) -> None:
    good = structs.replace(HEADER, l1_block_number_hex="0x5", logs_bloom=FIELDS["logsBloom"])
    async with (
        hostile_node({**FIELDS, **wrong}) as one,
        hostile_node(FIELDS) as other,
        ChainProvider((one.url, other.url), chain_id=31337, pause_seconds=0.01) as rpc,
    ):
        assert await RpcNode(rpc).head() == good


@pytest.mark.parametrize("bloom", ["0x", None, "0x00"])
def test_a_bloom_that_is_none_denies_nothing(bloom: str | None) -> None:
    chain, sources = SimChain(), world_sources()
    header = structs.replace(chain.head.header, logs_bloom=bloom)
    fetcher = Fetcher(SimNode(chain), sources, BloomTest(sources), Witness(SimNode(chain), sources.name))
    assert fetcher._may_hold_ours(header)


@pytest.mark.parametrize("answering", ["logs", "receipts"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"data": "0x0"},
        {"log_index": ""},
        {"block_number": "0x"},
        {"block_number": "0xffff"},
        {"transaction_hash": "none"},
        {"transaction_hash": "0x12"},
    ],
    ids=str,
)
async def test_logs_that_cannot_be_read_are_a_nodes_fault(answering: str, wrong: dict[str, str]) -> None:
    chain, crowd, sources = SimChain(), Crowd("unreadable"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources, BloomTest(sources), Witness(node, sources.name))

    def answer(method: str, answer: Any) -> Any:
        left_out = method == "logs" and answering == "receipts"
        if method != answering:
            return [] if left_out else answer
        return [structs.replace(log, **wrong) for log in answer]

    node.fault = answer
    with pytest.raises(NodeFault):
        await fetcher.linked(1, 20, None, chain.head.header)
    if answering == "logs":
        with pytest.raises(NodeFault):
            await fetcher.settled(1, 20)


@pytest.mark.parametrize("wrong", [{"block_timestamp": hex(2**63)}, {"block_timestamp": ""}, {"block_hash": "0x12"}])
async def test_history_whose_logs_tell_of_no_block_is_a_nodes_fault(wrong: dict[str, str]) -> None:
    chain, crowd, sources = SimChain(), Crowd("no block"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    chain.mine([])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources, BloomTest(sources), Witness(node, sources.name))
    node.fault = lambda method, answer: (
        [structs.replace(log, **wrong) for log in answer]
        if method == "logs"
        else None
        if method == "receipts"
        else answer
    )
    with pytest.raises(NodeFault):
        await fetcher.settled(1, 21)


def _far(log: Log) -> Log:
    """In a place of its own, which no column holds."""
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
    """How a node of this chain answers, whose logs are wrong in this."""
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
async def test_for_logs_that_cannot_be_read_the_next_node_is_asked_from_then_on(
    wrong: dict[str, str] | Callable[[Log], Log],
) -> None:
    chain, crowd, sources = SimChain(), Crowd("malformed"), replace(world_sources(), token=None)
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    expected = await Fetcher(node := SimNode(chain), sources, BloomTest(sources), Witness(node, "base")).linked(
        1, 20, None, chain.head.header
    )
    async with (
        hostile_node(_served(chain, wrong), chain_id=8453) as one,
        hostile_node(_served(chain, {}), chain_id=8453) as other,
        ChainProvider((one.url, other.url), chain_id=8453, pause_seconds=0.01) as rpc,
    ):
        node = RpcNode(rpc)
        fetcher = Fetcher(node, sources, BloomTest(sources), Witness(node, "base"))
        with pytest.raises(NodeFault):
            await fetcher.linked(1, 20, None, chain.head.header)
        assert (await fetcher.linked(1, 20, None, chain.head.header)).logs == expected.logs
        assert (await fetcher.settled(1, 20)).logs == expected.logs


OTHER = "0x" + "7" * 64
MOVED: dict[str, tuple[str, Any]] = {
    "a header names another parent": ("headers", lambda one: structs.replace(one, parent_hash=OTHER)),
    "a header is not there yet": ("headers", lambda _: None),
    "a log is of another block": ("logs", lambda one: structs.replace(one, block_hash=OTHER)),
    "a log was taken back": ("logs", lambda one: structs.replace(one, removed=True)),
}


@pytest.mark.parametrize(("answering", "moved"), MOVED.values(), ids=MOVED)
async def test_for_a_fork_or_a_lag_no_log_is_looked_at_closely(answering: str, moved: Any) -> None:
    """Either comes often, and the look is dear: it would be had all the time, and find nothing."""
    chain, crowd, sources = SimChain(), Crowd("moved"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources, BloomTest(sources), Witness(node, sources.name))
    node.fault = lambda method, answer: [*answer[:-1], moved(answer[-1])] if method == answering and answer else answer
    for fetched in (fetcher.linked(1, 20, None, chain.head.header), fetcher.settled(1, 20)):
        try:
            await fetched
        except NodeFault as fault:
            met = fault
    assert met.code == "node_fault"
    assert node.closely == 0


@pytest.mark.parametrize("field", ["number", "timestamp", "l1BlockNumber"])
async def test_a_number_larger_than_any_is_that_of_no_header(field: str) -> None:
    async with (
        hostile_node({**FIELDS, field: hex(2**63)}) as one,
        hostile_node(FIELDS) as other,
        ChainProvider((one.url, other.url), chain_id=31337, pause_seconds=0.01) as rpc,
    ):
        assert await RpcNode(rpc).head() == structs.replace(
            HEADER, l1_block_number_hex="0x5", logs_bloom=FIELDS["logsBloom"]
        )


async def test_logs_whose_numbers_are_padded_are_of_the_same_blocks() -> None:
    """Also where a node leaves its headers' blooms empty."""
    chain, crowd, sources = SimChain(), Crowd("padded"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources, BloomTest(sources), Witness(node, "base"))
    expected = await fetcher.linked(1, 20, None, chain.head.header)

    def padded(method: str, answer: Any) -> Any:
        if method == "headers":
            return [structs.replace(each, logs_bloom="0x" + "0" * 512) for each in answer]
        if method in ("head", "receipts"):
            return None
        return [structs.replace(log, block_number="0x00" + log.block_number[2:]) for log in answer]

    node.fault = padded
    head = structs.replace(chain.head.header, logs_bloom="0x" + "0" * 512)
    assert (await fetcher.linked(1, 20, None, head)).logs == expected.logs
