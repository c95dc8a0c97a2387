"""A database rebuilt from the chain alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scripts._stack import wallets
from tests.conftest import TestPostgres
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis
from tests.waiting import until

DEV = wallets.DEV


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("lasting")
    chain.list("ladder", kind=1, bounds=[50_000_000 * 10**8, 100_000_000 * 10**8])
    base_service.start("indexer", "relayer", "api")
    return base_service


@pytest.fixture
async def buyer(service: AgentService) -> AsyncIterator[Buyer]:
    async with aiohttp.ClientSession() as session:
        made = Buyer(session, service)
        await made.shows("ladder")
        yield made


@pytest.mark.thorough
async def test_a_database_made_anew_shows_the_same(
    buyer: Buyer, service: AgentService, postgres: TestPostgres, local_genesis: Genesis, tmp_path: Path
) -> None:
    """A second service with an empty database on the same chain has equal positions, results, proofs and replays."""
    bodies = [
        bet("lasting", DEV[2], "no", 3, ref="mention:5", builderCode=DEV[7].address),
        bet("ladder", DEV[2], "50m-to-100m", 4),
        bet("lasting", DEV[2], "yes", 1.5),
    ]
    receipts = []
    for body in bodies:
        response, paid = await buyer.buy(body, DEV[2])
        assert response.status == 200, paid
        receipts.append(paid["receipt"])
    paths = [
        f"/positions?wallet={DEV[2].address}",
        "/result?marketId=lasting",
        "/result?marketId=ladder",
        *(f"/proof/{receipt['tradeId']}" for receipt in receipts),
    ]
    shown = [await _comparable(buyer, path) for path in paths]
    url = postgres.create()
    try:
        # The same public address, so that links are the same too.
        with agent_service(
            service.chain, url, local_genesis.deployments, tmp_path, VPM_PUBLIC_URL=service.url
        ) as second:
            second.start("indexer", "relayer", "api")
            anew = Buyer(buyer.session, second)
            await anew.shows("ladder")
            for body, receipt in zip(bodies, receipts, strict=True):

                async def replayed(body: dict[str, Any] = body) -> dict[str, Any] | None:
                    response, answer = await anew.post(body)
                    return dict(answer) if response.status == 200 else None

                again = await until(replayed, "the receipt from the chain")
                assert (again["replay"], again["receipt"]) == (True, receipt)
            assert [await _comparable(anew, path) for path in paths] == shown
            response, conflict = await anew.post({**bodies[0], "side": "yes"})
            assert (response.status, conflict["error"]) == (409, "idem_conflict")
    finally:
        postgres.drop(url)


async def _comparable(buyer: Buyer, path: str) -> bytes:
    async with buyer.session.get(buyer.service.api + buyer.named(path)) as response:
        assert response.status == 200
        return (await response.read()).partition(b'"},')[2]
