"""What a node was found not to know is asked for again: another may answer at its address by then."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.chain.errors import RpcError, RpcErrorKind
from core.chain.provider import ChainProvider
from indexer import node as nodes
from indexer.node import RpcNode
from indexer.wire import Header

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
