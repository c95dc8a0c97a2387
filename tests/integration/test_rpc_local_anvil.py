"""Starting local chains: options that reach anvil, and what is said when it does not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import ProcessError
from scripts._local.anvil import MAX_PERSISTED_STATES, AnvilOptions, ask, start_anvil
from scripts._local.ports import free_port
from tests.conftest import StartAnvil


def test_a_chain_of_the_same_id_on_its_port_is_not_taken_for_its_own(anvil: StartAnvil, tmp_path: Path) -> None:
    foreign = anvil(chain_id=8453, timestamp=1_900_000_000)
    options = AnvilOptions(chain_id=8453, port=foreign.options.port)
    with pytest.raises(ProcessError, match="is in use"):
        start_anvil(options, tmp_path / "log")
    block = ask(foreign.url, "eth_getBlockByNumber", "latest", False)
    assert int(block["timestamp"], 16) == 1_900_000_000  # the other one was left alone


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.thorough
def test_states_of_past_blocks_are_few_and_go_with_the_chain(tmp_path: Path, killed: bool) -> None:
    """anvil would write thousands of them into the user's home and leave them there."""
    options = AnvilOptions(chain_id=31337, port=free_port(), mine_on_demand=True)
    running = start_anvil(options, tmp_path / "log")
    try:
        cache = running.plan.scratch
        assert cache is not None
        ask(options.url, "anvil_mine", hex(2 * MAX_PERSISTED_STATES), timeout_seconds=60)
        kept = [path for path in cache.rglob("*") if path.is_file()]
        assert 0 < len(kept) <= MAX_PERSISTED_STATES
        before = hex(2 * MAX_PERSISTED_STATES - MAX_PERSISTED_STATES // 2)
        assert ask(options.url, "eth_getBalance", "0x" + "11" * 20, before) == "0x0"
    finally:
        if killed:
            running.kill()
        running.stop()
    assert not cache.exists()
