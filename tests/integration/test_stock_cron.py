"""The scheduler's door with the real keeper behind it: a market goes from its bell to paid by cron calls alone."""

from __future__ import annotations

import time
from typing import Any

import pytest

from api.stock.cron import CronReport
from scripts._stack import wallets
from tests.support.bodies import hold
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG
from tests.support.stock_service import CRON_SECRET, StockService
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    # The keeper must not move the price that decides the market, nor list others in between.
    quiet = {"VPM_KEEPER_LOCAL_PRICES": "0", "VPM_KEEPER_LOCAL_DRILLS": "0"}
    stock_venue.start("indexer", "relayer", "keeper", "api", **quiet)
    return stock_venue


async def run(door: Door, job: str) -> dict[str, Any]:
    response, report = await door.get(f"/api/cron/{job}", headers={"Authorization": f"Bearer {CRON_SECRET}"})
    assert response.status == 200, report
    hold(CronReport, report)
    assert (report["job"], report["ok"], report["errors"]) == (job, True, [])
    return dict(report)


async def test_a_market_is_settled_and_paid_by_cron_calls(service: StockService, door: Door) -> None:
    chain = service.chain
    chain.push(FLAT_PRICE)
    market_id = chain.open_market(strike_in=60, lasts=60)
    chain.enter(wallets.DEV[1], market_id, 0, 20 * USDG)
    chain.warp_to(chain.now + 61)
    chain.push(FLAT_PRICE + 1)
    chain.warp_to(chain.now + 200)
    path = f"/api/markets/{market_id}"
    await door.until(path, lambda body: body["market"]["phase"] in ("frozen", "resolved"))

    async def repeat(job: str, holds: Any) -> Any:
        deadline = time.monotonic() + PATIENCE
        while True:
            await run(door, job)
            _, body = await door.get(path)
            if holds(body):
                return body
            assert time.monotonic() < deadline, body
            chain.mine()

    body = await repeat("resolve", lambda b: b["market"]["phase"] == "resolved")
    assert body["resolution"]["outcome"] == "UP"
    body = await repeat("deliver", lambda b: b["positions"][2]["claimed"])
    paid = int(body["positions"][2]["paidOut"])
    assert paid == int(body["positions"][2]["payout"]) >= 20 * USDG

    # Once more changes nothing.
    before = chain.read(chain.contracts.token.call("balanceOf", wallets.DEV[1].address))
    for job in ("resolve", "deliver"):
        await run(door, job)
        await run(door, job)
    assert chain.read(chain.contracts.token.call("balanceOf", wallets.DEV[1].address)) == before
