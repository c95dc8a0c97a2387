"""Makes a fresh local chain (or fork) ready for the contracts: code at canonical addresses, money, first prices."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from core.chain import Call, Contract
from core.contracts.abi import abi
from core.contracts.feeds import PriceFeed
from core.hexadecimal import hex_of
from scripts._local.anvil import ask
from scripts._stack import wallets
from scripts._stack.genesis import PlacedContract, compiled_code, safe_contracts, usdc_contracts
from scripts._stack.options import StackError

TOKENS_EACH = 1_000_000 * 10**6  # units a local wallet starts with
ETH_EACH = 1_000 * wallets.ETH
MINED_WITHIN_SECONDS = 30
BALANCE_SLOTS = range(256)  # where a token's balances mapping may lie

# Roughly where these stocks trade; the simulated feeds start here. 8 decimals.
FIRST_PRICES = {"NVDA": 187_40000000, "TSLA": 402_15000000, "COIN": 268_90000000}


@dataclass(frozen=True)
class LocalNode:
    """A local node, spoken to one blocking request at a time; run these functions in a thread."""

    url: str

    def ask(self, method: str, *params: object) -> Any:
        return ask(self.url, method, *params)


def place_base(node: LocalNode, usdc: str) -> None:
    place(node, [*safe_contracts(), *usdc_contracts(usdc)])


def place_stock(node: LocalNode, usdg: str, feeds: Sequence[PriceFeed], now: int) -> None:
    """Tokens and feeds with names, and two rounds each, so that a reading exists from the first block on."""
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


def fund(node: LocalNode, token: str, *, local_token: bool) -> None:
    """ETH for everybody who sends, tokens for whoever bets or seeds."""
    for one in wallets.GAS_HOLDERS:
        node.ask("anvil_setBalance", one.address, hex(ETH_EACH))
    holders = [w.address for w in (*wallets.DEV, *wallets.BETTORS, wallets.DEMO, wallets.OPENER)]
    if local_token:
        minting = Contract(token, abi("LocalUSDC"))  # the other local token mints alike
        send_all(node, [minting.call("mint", to, TOKENS_EACH) for to in holders])
    else:
        slot = _balance_slot(node, token)
        for to in holders:
            node.ask("anvil_setStorageAt", token, mapping_slot(to, slot), f"0x{TOKENS_EACH:064x}")


def mapping_slot(key: str, slot: int) -> str:
    return hex_of(keccak(encode(["address", "uint256"], [key, slot])))


def place(node: LocalNode, placed: Sequence[PlacedContract]) -> None:
    for one in placed:
        for method, params in one.rpc():
            node.ask(method, *params)


def send_all(node: LocalNode, calls: Sequence[Call], sender: str = wallets.DEPLOYER.address) -> None:
    """Send from an account the node impersonates, and make sure each call was carried out."""
    node.ask("anvil_setBalance", sender, hex(ETH_EACH))
    node.ask("anvil_impersonateAccount", sender)
    hashes = [
        node.ask("eth_sendTransaction", {**call.parameters(), "from": sender, "gas": hex(3_000_000)}) for call in calls
    ]
    node.ask("anvil_stopImpersonatingAccount", sender)
    deadline = time.monotonic() + MINED_WITHIN_SECONDS
    for call, transaction in zip(calls, hashes, strict=True):
        while (receipt := node.ask("eth_getTransactionReceipt", transaction)) is None:
            if time.monotonic() > deadline:
                raise StackError(f"setting up the local chain failed: a call to {call.to} was not mined.")
            time.sleep(0.05)
        if receipt["status"] != "0x1":
            raise StackError(f"setting up the local chain failed: a call to {call.to} reverted.")


def _balance_slot(node: LocalNode, token: str) -> int:
    """Find the storage slot of a live token's balances by writing a probe and reading it back (forks only)."""
    probe = wallets.DEV[0].address
    marker = 123_456_789
    asked = Contract(token, abi("LocalUSDC")).call("balanceOf", probe).parameters()
    for slot in BALANCE_SLOTS:
        at = mapping_slot(probe, slot)
        before = node.ask("eth_getStorageAt", token, at, "latest")
        node.ask("anvil_setStorageAt", token, at, f"0x{marker:064x}")
        balance = int(node.ask("eth_call", asked, "latest"), 16)
        if balance == marker:
            return slot
        node.ask("anvil_setStorageAt", token, at, before)
    raise StackError(f"cannot find where {token} keeps its balances, so dev wallets cannot be funded on this fork.")
