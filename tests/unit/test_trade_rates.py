"""How many bets get through from one address, whosever they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.agent.trade import rates
from api.agent.trade.rates import TradeRates
from api.http.limits import RateLimits
from api.http.problem import Problem

WALLETS, BETS = 20, 10
REQUEST = cast(Any, None)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> TradeRates:
    monkeypatch.setattr(rates, "caller_ip", lambda _request, _settings: "192.0.2.7")
    return TradeRates(RateLimits("memory://"), cast(Any, None))


def trade(wallet: int, key: int) -> Any:
    return SimpleNamespace(wallet=f"0x{wallet:040x}", idem_key=f"key-{wallet}-{key}")


async def test_wallets_behind_one_address_have_their_ten_bets_a_minute_each(desk: TradeRates) -> None:
    for key in range(BETS):
        for wallet in range(WALLETS):
            await desk.unpaid(REQUEST, trade(wallet, key))
            await desk.offered(REQUEST, trade(wallet, key))
    with pytest.raises(Problem, match="A wallet may trade 10 times a minute"):
        await desk.unpaid(REQUEST, trade(0, BETS))


async def test_an_address_that_names_ever_other_wallets_comes_to_an_end(desk: TradeRates) -> None:
    """Each call may cost a node two questions, whatever is in it."""
    for wallet in range(300):
        await desk.offered(REQUEST, trade(wallet, 0))
    with pytest.raises(Problem, match="One address"):
        await desk.offered(REQUEST, trade(300, 0))
    with pytest.raises(Problem, match="One address"):
        await desk.unpaid(REQUEST, trade(1_000, 0))
