"""Generated requests against the description of the stock surface: no server error, no undocumented answer."""

from __future__ import annotations

import asyncio

import pytest
from schemathesis import Case

from scripts._local.ports import answers
from scripts._stack import wallets
from tests.support.generated_requests import generated_requests
from tests.support.stock_chain import FLAT_PRICE, USDG
from tests.support.stock_service import CRON_SECRET, StockService
from tests.waiting import until

CRON = "/api/cron/{job}"


@pytest.fixture(scope="module")
def service(stock_venue: StockService) -> StockService:
    """One market that takes bets, one past its bell, each with a bet."""
    chain = stock_venue.chain
    chain.push(FLAT_PRICE)
    closed = chain.open_market(strike_in=60, lasts=60)
    chain.enter(wallets.DEV[1], closed, 1, 5 * USDG)
    chain.warp_to(chain.now + 121)
    chain.push(FLAT_PRICE)
    chain.enter(wallets.DEV[1], chain.open_market(strike_in=86_400, lasts=86_400), 0, 5 * USDG)
    stock_venue.start("indexer", "relayer", "keeper", "api")
    asyncio.run(until(lambda: answers(f"{stock_venue.url}/api/health", 5), seconds=90))  # all are at work
    return stock_venue


@pytest.mark.timeout(600)
@pytest.mark.thorough
def test_every_answer_is_documented(service: StockService) -> None:
    chain = service.chain

    def scheduler(case: Case) -> dict[str, str]:
        return {"Authorization": f"Bearer {CRON_SECRET}"} if case.path == CRON else {}

    def signed(market_id: int, number: int) -> dict[str, object]:
        wallet = wallets.wallet(f"generated {market_id} {number}")
        chain.send(chain.contracts.token.call("transfer", wallet.address, 50 * USDG), wallets.DEV[2].address)
        return chain.signed(wallet, chain.bet(wallet, market_id, number % 2))

    poor = wallets.wallet("without USDG")
    seen = generated_requests(
        f"{service.url}/openapi/stock.json",
        known={
            "id": ["1", "2"],
            "marketId": ["1", "2", "999"],
            "owner": [wallets.DEV[1].address, wallets.DEV[2].address.lower()],
            "from": [wallets.DEV[1].address, chain.deployment.safe.address if chain.deployment.safe else ""],
            "amount": [str(USDG), str(5 * USDG), "1"],
            "validSeconds": [60, 3540],
            "validBefore": [str(chain.now + 600), str(chain.now + 5), str(chain.now + 7200)],
            "before": [2],
            "limit": [1],
            "job": ["open", "resolve", "deliver"],
            "POST /api/relay/enter": [
                *(signed(2, number) for number in range(6)),
                signed(1, 0),
                signed(999, 0),
                chain.signed(poor, chain.bet(poor, 2)),
            ],
        },
        headers=scheduler,
        not_errors=[("GET", "/api/health", 503)],  # reporting an untended market is what health is for
    )
    seen.reached(
        {
            "GET /api/markets": {200, 400},
            "GET /api/markets/{id}": {200, 404},
            "GET /api/positions": {200, 400},
            "POST /api/relay/enter": {200, 400, 404, 409, 415, 422},
            "GET /api/relay/typed-data": {200, 400, 404, 409},
            "GET /api/relay/receipt": {200, 400},
            f"GET {CRON}": {200, 404},
        }
    )
