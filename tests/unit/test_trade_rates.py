"""How many bets get through from one address, whosever they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.agent.trade import orders as rates
from api.agent.trade.orders import TradeRates
from api.limits import RateLimits
from api.problems import Problem

WALLETS, BETS = 20, 10
REQUEST = cast(Any, None)


@pytest.fixture
def trade_rates(monkeypatch: pytest.MonkeyPatch) -> TradeRates:
    monkeypatch.setattr(rates, "caller_ip", lambda _request, _settings: "192.0.2.7")
    return TradeRates(RateLimits("memory://"), cast(Any, None))


def trade(wallet: int, key: int) -> Any:
    return SimpleNamespace(wallet=f"0x{wallet:040x}", idem_key=f"key-{wallet}-{key}")


async def called(trade_rates: TradeRates, asked: Any, *, paid: bool = False, settled: bool = False) -> None:
    if await trade_rates.count_call(REQUEST, asked, paid=paid):
        await trade_rates.count_trade(REQUEST, asked, paid=paid, settled=settled)


async def test_wallets_behind_one_address_have_their_ten_bets_a_minute_each(trade_rates: TradeRates) -> None:
    for key in range(BETS):
        for wallet in range(WALLETS):
            await called(trade_rates, trade(wallet, key))
            await called(trade_rates, trade(wallet, key), paid=True)
    with pytest.raises(Problem, match="A wallet may trade 10 times a minute"):
        await called(trade_rates, trade(0, BETS))


async def test_an_address_is_limited_however_many_wallets_it_names(trade_rates: TradeRates) -> None:
    """Any call may cost a node two requests, even a repeated one with a made-up payment."""
    for wallet in range(150):
        for _ in range(2):
            await called(trade_rates, trade(wallet, 0), paid=True)
    with pytest.raises(Problem, match="One address"):
        await called(trade_rates, trade(300, 0), paid=True)
    with pytest.raises(Problem, match="One address"):
        await called(trade_rates, trade(1_000, 0))


@pytest.mark.parametrize("address", ["192.0.2.7", "127.0.0.1"])
async def test_a_wallet_over_its_limit_is_refused_before_anything_is_read(
    trade_rates: TradeRates, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Behind an untrusted proxy all callers seem to be the machine."""
    monkeypatch.setattr(rates, "caller_ip", lambda _request, _settings: address)
    for call in range(120):
        await trade_rates.count_call(REQUEST, trade(0, call), paid=False)
    with pytest.raises(Problem, match="A wallet may call 120 times a minute"):
        await trade_rates.count_call(REQUEST, trade(0, 120), paid=False)
    await trade_rates.count_call(REQUEST, trade(1, 0), paid=False)


async def test_the_first_receipt_counts_with_its_bet_and_later_ones_count_alone(trade_rates: TradeRates) -> None:
    """However long ten bets took, a payer asked to come back for the receipts gets them."""
    for key in range(BETS):
        await called(trade_rates, trade(0, key))
        await called(trade_rates, trade(0, key), paid=True)
    for key in range(BETS):
        await called(trade_rates, trade(0, key), settled=True)
    with pytest.raises(Problem, match="A wallet may trade 10 times a minute"):
        await called(trade_rates, trade(0, 0), settled=True)


async def test_a_challenge_that_was_refused_makes_no_payment_free(trade_rates: TradeRates) -> None:
    for key in range(BETS):
        await called(trade_rates, trade(0, key))
    for paid in (False, True):
        with pytest.raises(Problem, match="A wallet may trade 10 times a minute"):
            await called(trade_rates, trade(0, BETS), paid=paid)
