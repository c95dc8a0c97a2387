"""Prepares a fresh local chain or fork for our contracts. It funds wallets, sets first prices, and places the contracts
that live chains already have (tokens, feeds, stock tokens and the Safe contracts). Each contract has the same address
as on the live chain, so that EIP-712 domains and clients work unchanged. `anvil_setCode` is enough to place these
contracts, because they have no constructor and no immutables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from core.chain import Call, Contract
from core.contracts.abi import abi
from core.contracts.feeds import PriceFeed
from scripts._deploy import safe
from scripts._deploy.build import compiled_code
from scripts._local.anvil import ask
from scripts._stack import wallets
from scripts._stack.state import StackError

TOKENS_EACH = 1_000_000 * 10**6  # units a local wallet starts with
ETH_EACH = 1_000 * wallets.ETH
MINED_WITHIN_SECONDS = 30
CALL_GAS = 3_000_000

SAFE_THRESHOLD_SLOT = 4
IMPLEMENTATION_SLOT = int.from_bytes(keccak(text="org.zeppelinos.proxy.implementation"))
ADMIN_SLOT = int.from_bytes(keccak(text="org.zeppelinos.proxy.admin"))
USDC_NAME_SLOT = 5  # `_name` of LocalUSDC, after LocalToken's storage
USDC_IMPLEMENTATION = to_checksum_address(keccak(text="vpm local stack: USDC implementation")[12:])
# Not the zero address: eth_call without a sender uses that one, and the proxy serves its admin no token calls.
USDC_ADMIN = to_checksum_address(keccak(text="vpm local stack: USDC admin")[12:])

# Roughly where these stocks trade; the simulated feeds start here. 8 decimals.
FIRST_PRICES = {"NVDA": 187_40000000, "TSLA": 402_15000000, "COIN": 268_90000000}


@dataclass(frozen=True)
class LocalNode:
    """A blocking client for a local node. From async code, call its methods in a thread."""

    url: str

    def ask(self, method: str, *params: object) -> Any:
        return ask(self.url, method, *params)

    def send(self, sender: str, transaction: dict[str, Any], gas: int = CALL_GAS) -> str:
        """Send a transaction from an impersonated account and return its hash."""
        return str(self.ask("eth_sendTransaction", {**transaction, "from": sender, "gas": hex(gas)}))

    def wait_for_receipt(self, transaction: str, what: str) -> dict[str, Any]:
        """Return a transaction's receipt. Raise StackError if the transaction reverts or is not mined in time."""
        deadline = time.monotonic() + MINED_WITHIN_SECONDS
        while (receipt := self.ask("eth_getTransactionReceipt", transaction)) is None:
            if time.monotonic() > deadline:
                raise StackError(f"the local chain could not be set up: {what} was not mined.")
            time.sleep(0.05)
        if receipt["status"] != "0x1":
            raise StackError(f"the local chain could not be set up: {what} reverted.")
        return dict(receipt)


def place_base(node: LocalNode, usdc: str) -> None:
    place(node, [*safe_contracts(), *usdc_contracts(usdc)])


def place_stock(node: LocalNode, usdg: str, feeds: Sequence[PriceFeed], now: int) -> None:
    """Place the tokens and feeds with their names. Each feed gets two rounds, so that readings exist from the first
    block on."""
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
    """Give ETH to the wallets that send transactions, and tokens to the wallets that bet or seed."""
    for one in wallets.GAS_HOLDERS:
        node.ask("anvil_setBalance", one.address, hex(ETH_EACH))
    for one in (*wallets.DEV, *wallets.BETTORS, wallets.DEMO, wallets.OPENER):
        node.ask("anvil_dealERC20", one.address, token, hex(TOKENS_EACH))


def place(node: LocalNode, placed: Sequence[PlacedContract]) -> None:
    for one in placed:
        for method, params in one.rpc():
            node.ask(method, *params)


def send_all(node: LocalNode, calls: Sequence[Call], sender: str = wallets.DEPLOYER.address) -> None:
    """Send calls from an impersonated account. Check that each one succeeded."""
    node.ask("anvil_setBalance", sender, hex(ETH_EACH))
    node.ask("anvil_impersonateAccount", sender)
    hashes = [node.send(sender, call.parameters()) for call in calls]
    node.ask("anvil_stopImpersonatingAccount", sender)
    for call, transaction in zip(calls, hashes, strict=True):
        node.wait_for_receipt(transaction, f"a call to {call.to}")


# ---------------------------------------------------------------- placed contracts


@dataclass(frozen=True)
class PlacedContract:
    address: str
    code: str
    storage: Mapping[int, int] = field(default_factory=dict)

    def rpc(self) -> list[tuple[str, list[Any]]]:
        calls: list[tuple[str, list[Any]]] = [("anvil_setCode", [self.address, self.code])]
        for slot, value in self.storage.items():
            calls.append(("anvil_setStorageAt", [self.address, f"0x{slot:064x}", f"0x{value:064x}"]))
        return calls


def safe_contracts() -> list[PlacedContract]:
    return [
        # The singleton's own constructor sets its threshold to 1, so it can never be set up as a wallet.
        PlacedContract(safe.SINGLETON, _safe_code("SafeL2.sol/SafeL2"), {SAFE_THRESHOLD_SLOT: 1}),
        PlacedContract(safe.PROXY_FACTORY, _safe_code("proxies/SafeProxyFactory.sol/SafeProxyFactory")),
        PlacedContract(
            safe.FALLBACK_HANDLER,
            _safe_code("handler/CompatibilityFallbackHandler.sol/CompatibilityFallbackHandler"),
        ),
    ]


def usdc_contracts(token: str) -> list[PlacedContract]:
    """Return USDC behind a proxy, with its name in storage, so that calls cost as much gas as with the real USDC."""
    name = b"USD Coin"
    stored = int.from_bytes(name.ljust(31, b"\0") + bytes([2 * len(name)]))  # a short string in one slot
    storage = {
        IMPLEMENTATION_SLOT: int(USDC_IMPLEMENTATION, 16),
        ADMIN_SLOT: int(USDC_ADMIN, 16),
        USDC_NAME_SLOT: stored,
    }
    return [
        PlacedContract(USDC_IMPLEMENTATION, compiled_code("LocalUSDC")),
        PlacedContract(token, compiled_code("LocalUSDCProxy"), storage),
    ]


def _safe_code(artifact: str) -> str:
    return str(json.loads((safe.ARTIFACTS / f"{artifact}.json").read_text())["deployedBytecode"])
