"""Starting local chains: options that reach anvil, and what is said when it does not start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from core.errors import ProcessError
from scripts._local.anvil import PAST_STATES, AnvilOptions, anvil_answers, anvil_plan, ask, start_anvil
from scripts._local.ports import free_port
from scripts._local.process import start_process, wait_until
from tests.conftest import StartAnvil


def test_options_reach_the_chain(anvil: StartAnvil, tmp_path: Path) -> None:
    chain = anvil(chain_id=8453, accounts=3, balance_ether=7, timestamp=1_900_000_000, gas_limit=50_000_000)
    assert ask(chain.url, "eth_chainId") == hex(8453)
    accounts = ask(chain.url, "eth_accounts")
    assert len(accounts) == 3
    assert ask(chain.url, "eth_getBalance", accounts[0], "latest") == hex(7 * 10**18)
    block = ask(chain.url, "eth_getBlockByNumber", "latest", False)
    assert int(block["timestamp"], 16) == 1_900_000_000
    assert int(block["gasLimit"], 16) == 50_000_000


def test_a_fork_of_another_local_chain_sees_its_state(anvil: StartAnvil) -> None:
    base = anvil(chain_id=8453)
    account = "0x" + "ab" * 20
    ask(base.url, "anvil_setBalance", account, hex(5))
    ask(base.url, "evm_mine")
    fork = anvil(chain_id=8453, fork_url=base.url)
    assert ask(fork.url, "eth_getBalance", account, "latest") == hex(5)
    ask(fork.url, "anvil_setBalance", account, hex(6))
    assert ask(base.url, "eth_getBalance", account, "latest") == hex(5)


def test_mining_on_demand(anvil: StartAnvil) -> None:
    chain = anvil(mine_on_demand=True)
    assert ask(chain.url, "eth_blockNumber") == "0x0"
    ask(chain.url, "evm_mine")
    assert ask(chain.url, "eth_blockNumber") == "0x1"


def test_state_survives_a_restart(anvil: StartAnvil, tmp_path: Path) -> None:
    account = "0x" + "ab" * 20
    first = anvil(state=tmp_path / "state.json")
    ask(first.url, "anvil_setBalance", account, hex(5))
    first.stop()
    second = anvil(state=tmp_path / "state.json")
    assert ask(second.url, "eth_getBalance", account, "latest") == hex(5)


def test_a_port_another_chain_answers_on_is_named(anvil: StartAnvil, tmp_path: Path) -> None:
    other = anvil(chain_id=1)
    options = AnvilOptions(chain_id=8453, port=other.options.port)
    with pytest.raises(ProcessError, match=r"taken by another chain \(1 instead of 8453\)"):
        start_anvil(options, tmp_path / "log")


def test_a_chain_of_the_same_id_on_its_port_is_not_taken_for_its_own(anvil: StartAnvil, tmp_path: Path) -> None:
    foreign = anvil(chain_id=8453, timestamp=1_900_000_000)
    options = AnvilOptions(chain_id=8453, port=foreign.options.port)
    with pytest.raises(ProcessError, match=r"ended before it was ready(.|\n)*Address already in use"):
        start_anvil(options, tmp_path / "log")
    block = ask(foreign.url, "eth_getBlockByNumber", "latest", False)
    assert int(block["timestamp"], 16) == 1_900_000_000  # the other one was left alone


@pytest.mark.thorough
def test_an_occupied_port_shows_the_last_words(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = AnvilOptions(chain_id=8453, port=taken.getsockname()[1])
        with pytest.raises(ProcessError, match="ended before it was ready"):
            start_anvil(options, tmp_path / "log")


def test_a_supervisor_may_own_the_process(tmp_path: Path) -> None:
    options = AnvilOptions(chain_id=31337, port=free_port(), block_time_seconds=1)
    running = start_process(anvil_plan(options), tmp_path / "log")
    try:
        wait_until(lambda: anvil_answers(options), running, 30, "the chain")
        # It answers a moment before it says so.
        wait_until(lambda: "Listening on" in running.log_path.read_text(), running, 10, "its last line")
    finally:
        running.stop()
    assert not running.alive()


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.thorough
def test_states_of_past_blocks_are_few_and_go_with_the_chain(tmp_path: Path, killed: bool) -> None:
    """anvil would write thousands of them into the user's home and leave them there."""
    options = AnvilOptions(chain_id=31337, port=free_port(), mine_on_demand=True)
    running = start_anvil(options, tmp_path / "log")
    try:
        past = running.plan.scratch
        assert past is not None
        ask(options.url, "anvil_mine", hex(2 * PAST_STATES), timeout_seconds=60)
        kept = [path for path in past.rglob("*") if path.is_file()]
        assert 0 < len(kept) <= PAST_STATES
        before = hex(2 * PAST_STATES - PAST_STATES // 2)
        assert ask(options.url, "eth_getBalance", "0x" + "11" * 20, before) == "0x0"
    finally:
        if killed:
            running.kill_program()
        running.stop()
    assert not past.exists()
