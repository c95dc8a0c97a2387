"""Prepares a fresh local chain or fork for the contracts: code at canonical addresses, funded wallets, first prices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.chain import Call, Contract
from core.contracts.abi import abi
from core.contracts.feeds import PriceFeed
from scripts._local.anvil import ask
from scripts._stack import wallets
from scripts._stack.genesis import PlacedContract, compiled_code, safe_contracts, usdc_contracts
from scripts._stack.options import StackError

TOKENS_EACH = 1_000_000 * 10**6  # units a local wallet starts with
ETH_EACH = 1_000 * wallets.ETH
MINED_WITHIN_SECONDS = 30
CALL_GAS = 3_000_000

# Roughly where these stocks trade; the simulated feeds start here. 8 decimals.
FIRST_PRICES = {"NVDA": 187_40000000, "TSLA": 402_15000000, "COIN": 268_90000000}


@dataclass(frozen=True)
class LocalNode:
    """A blocking client of a local node. Call its methods in a thread."""

    url: str

    def ask(self, method: str, *params: object) -> Any:
        return ask(self.url, method, *params)

    def send(self, sender: str, transaction: dict[str, Any], gas: int = CALL_GAS) -> str:
        """Send a transaction from an account that the node impersonates. Return the transaction's hash."""
        return str(self.ask("eth_sendTransaction", {**transaction, "from": sender, "gas": hex(gas)}))

    def wait_for_receipt(self, transaction: str, what: str) -> dict[str, Any]:
        """Wait for a transaction's receipt. Raise StackError if the transaction is not mined in time or reverts."""
        deadline = time.monotonic() + MINED_WITHIN_SECONDS
        while (receipt := self.ask("eth_getTransactionReceipt", transaction)) is None:
            if time.monotonic() > deadline:
                raise StackError(f"setting up the local chain failed: {what} was not mined.")
            time.sleep(0.05)
        if receipt["status"] != "0x1":
            raise StackError(f"setting up the local chain failed: {what} reverted.")
        return dict(receipt)


def place_base(node: LocalNode, usdc: str) -> None:
    place(node, [*safe_contracts(), *usdc_contracts(usdc)])


def place_stock(node: LocalNode, usdg: str, feeds: Sequence[PriceFeed], now: int) -> None:
    """Place tokens and feeds with their names. Each feed gets two rounds, so that a reading exists from the first block
    on."""
    placed = [*safe_contracts(), PlacedContract(usdg, compiled_code("LocalUSDG"))]
    feed_code, stock_code = compiled_code("LocalFeed"), compiled_code("LocalStockToken")
    for one in feeds:
        placed.append(PlacedContract(one.proxy, feed_code))
        placed.append(PlacedContract(one.stock_token, stock_code))
    place(node, placed)
    calls: list[Call] = []
    for one in feeds:
        feed, price = Contract(one.proxy, abi("LocalFeed")), FIRST_PRICES.get(one.ticker, 100_00000000)
        calls.append(feed.call("setDescription", f"{one.ticker} / USD"))
        calls.append(feed.call("pushMany", [price, price + price // 2000], [now - 120, now - 60]))
        calls.append(Contract(one.stock_token, abi("LocalStockToken")).call("setSymbol", one.ticker))
    send_all(node, calls)


def fund(node: LocalNode, token: str) -> None:
    """Give ETH to the wallets that send transactions, and tokens to those that bet or seed."""
    for one in wallets.GAS_HOLDERS:
        node.ask("anvil_setBalance", one.address, hex(ETH_EACH))
    for one in (*wallets.DEV, *wallets.BETTORS, wallets.DEMO, wallets.OPENER):
        node.ask("anvil_dealERC20", one.address, token, hex(TOKENS_EACH))


def place(node: LocalNode, placed: Sequence[PlacedContract]) -> None:
    for one in placed:
        for method, params in one.rpc():
            node.ask(method, *params)


def send_all(node: LocalNode, calls: Sequence[Call], sender: str = wallets.DEPLOYER.address) -> None:
    """Send calls from an account that the node impersonates. Check that each call succeeded."""
    node.ask("anvil_setBalance", sender, hex(ETH_EACH))
    node.ask("anvil_impersonateAccount", sender)
    hashes = [node.send(sender, call.parameters()) for call in calls]
    node.ask("anvil_stopImpersonatingAccount", sender)
    for call, transaction in zip(calls, hashes, strict=True):
        node.wait_for_receipt(transaction, f"a call to {call.to}")
