"""The checks of /api/health that report work left undone, each at its own minute: the chain's clock is moved to both
sides of it."""

from __future__ import annotations

from typing import Any

import pytest

from core.stock.sessions import TradingDay, trading_day
from scripts._stack import wallets
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService
from tests.waiting import PATIENCE, until

MINUTE, DAY = 60, 86_400


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    """Without a keeper, so that nothing is done unless a test does it."""
    chain = stock_venue.chain
    chain.push(FLAT_PRICE)
    stock_venue.start("indexer", "api")
    return stock_venue


async def finding(door: Door, chain: StockChain, name: str, *, seconds: float = PATIENCE) -> tuple[bool, str]:
    block = chain.block
    body: dict[str, Any] = {}

    async def found() -> tuple[bool, str] | None:
        nonlocal body
        response, body = await door.get("/api/health")
        checks = {each["name"]: each for each in body["checks"]}
        assert response.status == (200 if all(each["ok"] for each in body["checks"]) else 503)
        is_there = checks["market-logs"]["detail"].startswith(f"block {block},")
        return (checks[name]["ok"], checks[name]["detail"]) if is_there else None

    return await until(found, lambda: f"block {block} in {body}", seconds)


@pytest.mark.thorough
async def test_a_venue_that_has_never_listed_anything_is_reported(service: StockService, door: Door) -> None:
    chain = service.chain
    assert chain.read(chain.contracts.settler.call("marketCount")) == 0
    session = first_day_of_a_week(chain.now + 3 * DAY)
    chain.warp_to(session.opens)
    tickers = sorted(feed.ticker for feed in chain.deployment.price_feeds)
    missing = [f"{ticker} {family}" for family in ("daily", "weekly") for ticker in tickers]
    await says(door, "open-schedule", False, f"not listed: {', '.join(missing)}")
    chain.push(FLAT_PRICE)  # for the markets of other tests: the last one is days old now


async def test_what_is_left_unsettled_or_undelivered_too_long_is_named(service: StockService, door: Door) -> None:
    chain = service.chain
    market = chain.open_market(strike_in=MINUTE, lasts=MINUTE)
    chain.enter(wallets.DEV[1], market, 0, 5 * USDG)
    final = chain.read(chain.contracts.resolver.call("spec", market))["finalTime"]
    chain.warp_to(final + 30 * MINUTE)
    assert await finding(door, chain, "settlement") == (True, "every market past its bell is settled")
    chain.warp_to(final + 30 * MINUTE + 1)
    assert await finding(door, chain, "settlement") == (False, f"1 unsettled 30 min after the bell: {market}")

    chain.send(chain.contracts.resolver.call("resolve", market), wallets.DEV[5].address)
    settled = chain.now
    assert (await finding(door, chain, "settlement"))[0]
    chain.warp_to(settled + 20 * MINUTE)
    assert await finding(door, chain, "delivery") == (True, "everything settled is delivered")
    chain.warp_to(settled + 20 * MINUTE + 1)
    assert await finding(door, chain, "delivery") == (False, f"1 undelivered 20 min after settlement: {market}")
    chain.send(chain.contracts.settler.call("deliver", chain.positions(market)), wallets.DEV[5].address)
    assert (await finding(door, chain, "delivery"))[0]


@pytest.mark.thorough
async def test_a_losers_remainder_that_was_never_sent_is_undelivered_too(service: StockService, door: Door) -> None:
    chain = service.chain
    chain.push(FLAT_PRICE)
    market = chain.open_market(strike_in=MINUTE, lasts=MINUTE, seed=USDG)
    chain.enter(wallets.DEV[2], market, 0, 50 * USDG)
    chain.warp_to(chain.now + 61)
    chain.push(FLAT_PRICE - 1)
    chain.warp_to(chain.now + 61)
    chain.send(chain.contracts.resolver.call("resolve", market), wallets.DEV[5].address)
    settled = chain.now
    *seeds, loser = chain.positions(market)
    chain.send(chain.contracts.settler.call("deliver", seeds), wallets.DEV[5].address)
    chain.warp_to(settled + 20 * MINUTE)
    assert await finding(door, chain, "delivery") == (True, "everything settled is delivered")
    chain.warp_to(settled + 20 * MINUTE + 1)
    assert await finding(door, chain, "delivery") == (False, f"1 undelivered 20 min after settlement: {market}")

    # An owner whom the token refuses is passed over; once all were tried, nothing is late.
    token = chain.contracts.token
    chain.send(token.call("freeze", wallets.DEV[2].address), wallets.DEPLOYER.address)
    chain.send(chain.contracts.settler.call("deliver", [loser]), wallets.DEV[5].address)
    assert await finding(door, chain, "delivery") == (True, "everything settled is delivered")
    chain.send(token.call("unfreeze", wallets.DEV[2].address), wallets.DEPLOYER.address)
    chain.send(chain.contracts.settler.call("deliver", [loser]), wallets.DEV[5].address)
    assert (await finding(door, chain, "delivery"))[0]


def first_day_of_a_week(after: int) -> TradingDay:
    while True:
        session = trading_day(after)
        if session is not None and session.opens_week:
            return session
        after += DAY


async def test_a_trading_day_without_its_markets_or_fresh_feeds_is_reported(service: StockService, door: Door) -> None:
    chain = service.chain
    tickers = [feed.ticker for feed in chain.deployment.price_feeds]
    chain.push(FLAT_PRICE)
    chain.open_market(strike_in=MINUTE, lasts=MINUTE)  # from before this day, so the venue is no newcomer
    session = first_day_of_a_week(chain.now + 3 * DAY)
    chain.warp_to(session.opens - 1)
    assert await finding(door, chain, "open-schedule") == (True, "the session is not open")
    # The exchange is closed, so feeds may stand still for days.
    await says(door, "feeds", True, f"{len(tickers)} feeds, no session now")

    chain.warp_to(session.opens)
    missing = [f"{ticker} {family}" for family in ("daily", "weekly") for ticker in sorted(tickers)]
    assert await finding(door, chain, "open-schedule") == (False, f"not listed: {', '.join(missing)}")
    await says(door, "feeds", False, f"silent: {', '.join(tickers)}")
    for ticker in tickers[1:]:
        chain.push(FLAT_PRICE, ticker=ticker)
    await says(door, "feeds", False, f"silent: {tickers[0]}")
    chain.push(FLAT_PRICE, ticker=tickers[0])
    await says(door, "feeds", True, f"{len(tickers)} feeds are fresh")

    for ticker in tickers:
        chain.open_market(ticker=ticker, strike_in=MINUTE, family=0, final_at=session.closes)
    assert await finding(door, chain, "open-schedule") == (False, f"not listed: {', '.join(missing[len(tickers) :])}")
    for ticker in tickers:
        chain.open_market(ticker=ticker, strike_in=MINUTE, family=1, final_at=session.week_closes)
    assert await finding(door, chain, "open-schedule") == (True, f"{len(tickers)} tickers are listed")


async def says(door: Door, name: str, ok: bool, detail: str, *, seconds: float = PATIENCE) -> None:
    found: dict[str, Any] = {}

    async def is_said() -> bool:
        nonlocal found
        _, body = await door.get("/api/health")
        found = next(each for each in body["checks"] if each["name"] == name)
        return (found["ok"], found["detail"]) == (ok, detail)

    await until(is_said, lambda: f"{detail!r}, not {found}", seconds, pause=0.1)
