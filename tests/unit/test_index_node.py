"""Methods that a node lacks are tried again later, since another node may answer at its address by then. Malformed
logs are the node's fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider
from indexer import node as nodes
from indexer.errors import NodeFault
from indexer.fetch import Fetcher
from indexer.node import Header, RpcNode
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_world import Crowd

HEADER = Header(hash="0x" + "1" * 64, parent_hash="0x" + "2" * 64, number_hex="0x10", timestamp_hex="0x1")


class Answers:
    """A provider whose node supports a method later."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.knows = False
        self.asked = 0

    async def call_optional(self, method: str, parameters: list[object], shape: Any) -> object:
        self.asked += 1
        if not self.knows:
            raise RpcError(RpcErrorKind.INVALID_PARAMS, "what is that?")
        return self.answer


@pytest.mark.parametrize(("what", "answer", "answered"), [("finalized", HEADER, 16), ("receipt_logs", [], [])])
async def test_an_unsupported_method_is_tried_again_after_a_while(
    what: str, answer: object, answered: object, monkeypatch: pytest.MonkeyPatch
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
    assert await ask() == answered


@pytest.mark.parametrize("bloom", ["0x", None, "0x00"])
def test_a_malformed_bloom_excludes_nothing(bloom: str | None) -> None:
    chain, sources = SimChain(), world_sources()
    header = structs.replace(chain.head.header, logs_bloom=bloom)
    fetcher = Fetcher(SimNode(chain), sources)
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
async def test_malformed_logs_are_the_nodes_fault(answering: str, wrong: dict[str, str]) -> None:
    chain, crowd, sources = SimChain(), Crowd("unreadable"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources)

    def answer(method: str, answer: Any) -> Any:
        left_out = method == "logs" and answering == "receipts"
        if method != answering:
            return [] if left_out else answer
        return [structs.replace(log, **wrong) for log in answer]

    node.fault = answer
    with pytest.raises(NodeFault):
        await fetcher.fetch_linked(1, 20, None, chain.head.header)
    if answering == "logs":
        with pytest.raises(NodeFault):
            await fetcher.fetch_history(1, 20)


@pytest.mark.parametrize("wrong", [{"block_timestamp": hex(2**63)}, {"block_timestamp": ""}, {"block_hash": "0x12"}])
async def test_history_with_logs_without_a_block_is_the_nodes_fault(wrong: dict[str, str]) -> None:
    chain, crowd, sources = SimChain(), Crowd("no block"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    chain.mine([])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources)
    node.fault = lambda method, answer: (
        [structs.replace(log, **wrong) for log in answer]
        if method == "logs"
        else None
        if method == "receipts"
        else answer
    )
    with pytest.raises(NodeFault):
        await fetcher.fetch_history(1, 21)


OTHER = "0x" + "7" * 64
MOVED: dict[str, tuple[str, Any]] = {
    "a header names another parent": ("headers", lambda one: structs.replace(one, parent_hash=OTHER)),
    "a header is not there yet": ("headers", lambda _: None),
    "a log is of another block": ("logs", lambda one: structs.replace(one, block_hash=OTHER)),
    "a log was taken back": ("logs", lambda one: structs.replace(one, removed=True)),
}


@pytest.mark.parametrize(("answering", "moved"), MOVED.values(), ids=MOVED)
async def test_a_fork_or_a_lag_does_not_turn_on_strict_decoding(answering: str, moved: Any) -> None:
    """Both are frequent, and strict decoding is slow and would find nothing."""
    chain, crowd, sources = SimChain(), Crowd("moved"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources)
    node.fault = lambda method, answer: [*answer[:-1], moved(answer[-1])] if method == answering and answer else answer
    for fetched in (fetcher.fetch_linked(1, 20, None, chain.head.header), fetcher.fetch_history(1, 20)):
        try:
            await fetched
        except NodeFault as fault:
            met = fault
    assert met.code == "node_fault"
    assert node.closely == 0


async def test_logs_with_padded_numbers_are_of_the_same_blocks() -> None:
    """Also if a node leaves its headers' blooms empty."""
    chain, crowd, sources = SimChain(), Crowd("padded"), world_sources()
    for _ in range(20):
        chain.mine([crowd.next(chain.head.world)])
    node = SimNode(chain)
    fetcher = Fetcher(node, sources)
    expected = await fetcher.fetch_linked(1, 20, None, chain.head.header)

    def padded(method: str, answer: Any) -> Any:
        if method == "headers":
            return [structs.replace(each, logs_bloom="0x" + "0" * 512) for each in answer]
        if method in ("head", "receipts"):
            return None
        return [structs.replace(log, block_number="0x00" + log.block_number[2:]) for log in answer]

    node.fault = padded
    head = structs.replace(chain.head.header, logs_bloom="0x" + "0" * 512)
    assert (await fetcher.fetch_linked(1, 20, None, head)).logs == expected.logs
