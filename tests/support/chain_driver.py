"""Drives a local chain: time, blocks, calls and transactions. Blocking, one request at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from core.chain import Call, Contract
from core.contracts.abi import abi
from core.contracts.deployments import Deployment
from scripts._local.anvil import ask
from tests.waiting import PATIENCE, wait

LAST_BLOCK_SECONDS = 0.1  # the block that a node was making when it was asked to stop

K = TypeVar("K")


class Reverted(Exception):
    """A transaction was mined and failed."""


@dataclass(frozen=True)
class ChainDriver(Generic[K]):
    """A local chain that a test drives. `mine_after`: mine a block for each transaction sent here, for a chain that
    mines on demand."""

    url: str
    deployment: Deployment
    contracts: K
    mine_after: bool = False

    def ask(self, method: str, *params: object) -> Any:
        return ask(self.url, method, *params, timeout_seconds=PATIENCE)

    # ------------------------------------------------------------ time and blocks

    def head(self) -> dict[str, Any]:
        return dict(self.ask("eth_getBlockByNumber", "latest", False))

    @property
    def now(self) -> int:
        return int(self.head()["timestamp"], 16)

    @property
    def block(self) -> int:
        return int(self.head()["number"], 16)

    def mine(self, blocks: int = 1) -> None:
        self.ask("anvil_mine", hex(blocks))

    def warp_to(self, timestamp: int) -> None:
        self.ask("evm_setNextBlockTimestamp", hex(timestamp))
        self.ask("evm_mine")

    @contextmanager
    def held(self, block_seconds: int | None = None) -> Iterator[None]:
        """Mine only on request within the context, and mine a block when it ends. block_seconds: the interval of a
        chain with interval mining; None for one that automines. Reorgs and snapshots need this while other programs
        send transactions: a block that the node made at that time would leave accounts whose transactions are in no
        block."""
        mining: tuple[str, object, object] = ("evm_setAutomine", False, True)
        if block_seconds is not None:
            mining = ("evm_setIntervalMining", 0, block_seconds)
        method, off, on = mining
        self.ask(method, off)
        time.sleep(LAST_BLOCK_SECONDS)
        try:
            yield
        finally:
            self.ask(method, on)
            self.mine()

    @contextmanager
    def one_second(self) -> Iterator[None]:
        """Give all blocks within the context the timestamp of the head, as a fast chain does."""
        self.ask("anvil_setBlockTimestampInterval", 0)
        try:
            yield
        finally:
            self.ask("anvil_removeBlockTimestampInterval")

    def until_sent(self) -> None:
        wait(lambda: int(self.ask("txpool_status")["pending"], 16) > 0, "a transaction to be sent")

    # ------------------------------------------------------------ reading and sending

    def read(self, call: Call, block: int | str = "latest") -> Any:
        where = hex(block) if isinstance(block, int) else block
        return call.function.decode(bytes.fromhex(self.ask("eth_call", call.parameters(), where)[2:]))

    def send(self, call: Call, sender: str) -> dict[str, Any]:
        """Send from an account that the node impersonates; return the receipt of a success."""
        self.ask("anvil_setBalance", sender, hex(10**20))
        self.ask("anvil_impersonateAccount", sender)
        sent = self.ask("eth_sendTransaction", {**call.parameters(), "from": sender, "gas": hex(6_000_000)})
        if self.mine_after:
            self.ask("evm_mine")
        return self.receipt(sent)

    def receipt(self, transaction: str) -> dict[str, Any]:
        found = wait(
            lambda: self.ask("eth_getTransactionReceipt", transaction), f"{transaction} to be mined", pause=0.02
        )
        if found["status"] != "0x1":
            raise Reverted(transaction)
        return dict(found)

    # ------------------------------------------------------------ pausing stakes

    def pause(self) -> None:
        self.send(self.pauser.call("pause"), self.deployment.operator_wallets["guardian"])

    def resume(self) -> None:
        assert self.deployment.safe is not None
        self.send(self.pauser.call("resume"), self.deployment.safe.address)

    @property
    def pauser(self) -> Contract:
        return Contract(self.deployment.contract("Pauser").address, abi("Pauser"))
