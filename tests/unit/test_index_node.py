"""What a node was found not to know is asked for again: another may answer at its address by then. What is no header
is its fault, and the next one is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider
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
            raise RpcError(RpcErrorKind.INVALID_PARAMS, "what is that?", method=method)
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
