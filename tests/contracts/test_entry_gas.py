"""A wallet's own gas estimate for an entry, made while a vintage is open and mined in a block in which that vintage has
to be finalized."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.chain import Call
from core.hexadecimal import bytes_of
from scripts._stack import wallets
from tests.support.genesis import Genesis, chain
from tests.support.stock_chain import USDG, StockChain

BLOCKS = 20
GAS = 6_000_000
BETTOR, FIRST, SECOND = wallets.DEV[:3]


@pytest.fixture
def stock(local_genesis: Genesis, tmp_path: Path) -> Iterator[StockChain]:
    with chain(local_genesis, "stock", tmp_path / "anvil.log", mine_on_demand=True) as running:
        yield StockChain.on(running.url, running.deployment, mine_after=True)


def direct(stock: StockChain, market: int, outcome: int, amount: int) -> Call:
    return stock.contracts.settler.call("enter", market, outcome, amount)


def signed(stock: StockChain, market: int, outcome: int, amount: int) -> Call:
    bet = stock.bet(BETTOR, market, outcome, amount)
    return bet.call(stock.contracts.settler, bytes_of(stock.signed(BETTOR, bet)["signature"]))


@pytest.mark.parametrize("amount", [USDG, 1_000 * USDG], ids=["whole", "rationed"])
@pytest.mark.parametrize("way", [direct, signed])
def test_an_estimate_still_suffices_when_the_vintage_before_has_to_be_finalized(
    stock: StockChain, way: Callable[[StockChain, int, int, int], Call], amount: int
) -> None:
    """`FIRST` bets early in each block; `SECOND` bets with its own estimate and is mined in the next one."""
    settler = stock.contracts.settler
    market = stock.open_market(strike_in=86_400, max_entry=1_000 * USDG)
    for each in (FIRST, SECOND):
        stock.send(stock.contracts.token.call("approve", settler.address, 2**60), each.address)
    failed = []
    for n in range(BLOCKS):
        early = _sent(stock, {**direct(stock, market, n % 2, amount).parameters(), "from": FIRST.address})
        call = {**way(stock, market, n % 2, amount).parameters(), "from": SECOND.address}
        estimate = stock.ask("eth_estimateGas", call, "pending")
        stock.mine()
        stock.receipt(early)
        late = _sent(stock, {**call, "gas": estimate})
        stock.mine()
        receipt = stock.ask("eth_getTransactionReceipt", late)
        if receipt["status"] != "0x1":
            failed.append((n, int(estimate, 16), int(receipt["gasUsed"], 16)))
        else:
            events = [log for log in receipt["logs"] if log["address"] == settler.address.lower()]
            assert len(events) == 2, "it finalizes the vintage before it, and enters"
    assert failed == []


def _sent(stock: StockChain, transaction: dict[str, Any]) -> str:
    return str(stock.ask("eth_sendTransaction", {"gas": hex(GAS), **transaction}))
