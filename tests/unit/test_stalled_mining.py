"""A deployment on a local chain continues where anvil misses a transaction that it should mine at once."""

from __future__ import annotations

from threading import Event, Thread
from typing import Any, cast

import pytest

from scripts._stack import deploying
from scripts._stack.chain_setup import LocalNode


class StalledNode:
    """A node that leaves a transaction pending until it is asked for a block."""

    def __init__(self, *, automines: bool) -> None:
        self.automines, self.blocks, self.pending = automines, 0, 1
        self.mined = Event()

    def ask(self, method: str, *_params: object) -> Any:
        match method:
            case "txpool_status":
                return {"pending": hex(self.pending)}
            case "eth_blockNumber":
                return hex(self.blocks)
            case "anvil_getAutomine":
                return self.automines
            case "evm_mine":
                self.blocks, self.pending = self.blocks + 1, 0
                self.mined.set()
                return "0x0"
        raise AssertionError(method)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deploying, "STALL_POLL_SECONDS", 0.01)
    monkeypatch.setattr(deploying, "STALLED_SECONDS", 0.05)


@pytest.mark.parametrize("automines", [True, False])
def test_a_stalled_transaction_is_mined_once(automines: bool) -> None:
    node, finished = StalledNode(automines=automines), Event()
    watcher = Thread(target=deploying._mine_stalled, args=(cast("LocalNode", node), finished))
    watcher.start()
    assert node.mined.wait(5 if automines else 0.3) is automines
    finished.wait(0.2)
    finished.set()
    watcher.join()
    assert node.blocks == int(automines)
