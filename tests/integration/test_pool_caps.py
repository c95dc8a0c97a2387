"""The pot cap of a pool feed at the public door: each market shows it once it is listed, each bet is held to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.contracts.statuses import Form, MarketKind
from core.money import USD
from scripts._stack import wallets
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis, chain
from tests.support.pool_chain import PoolChain, with_pool_feed
from tests.waiting import until

DEV = wallets.DEV
CAP, LATER_CAP = 20, 30  # USD
HOUR = 3_600
SIDES = {MarketKind.DIRECTION: ("up", "down"), MarketKind.THRESHOLD: ("yes", "no")}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def capped(
    local_genesis: Genesis, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[AgentService, dict[MarketKind, str]]]:
    folder: Path = tmp_path_factory.mktemp("caps")
    deployments = folder / "deployments"
    shutil.copytree(local_genesis.deployments, deployments)
    with chain(local_genesis, "base", folder / "base.log") as running:
        played = with_pool_feed(AgentChain.on(running.url, running.deployment), deployments)
        _allow(played, CAP)
        markets = {
            MarketKind.DIRECTION: played.list(MarketKind.DIRECTION, stakes=HOUR)[0],
            MarketKind.THRESHOLD: played.list(
                MarketKind.THRESHOLD, stakes=HOUR, length=2 * HOUR, target=played.value(), early=True
            )[0],
        }
        _allow(played, LATER_CAP)  # what is listed keeps the cap that it was listed with
        with agent_service(played.agents, database_url, deployments, folder) as service:
            service.start("indexer", "relayer", "api")
            yield service, markets


def _allow(played: PoolChain, cap: int) -> None:
    """Set the cap, as the Safe, for markets listed from now on."""
    feed, safe = played.feed, played.agents.deployment.safe
    assert safe is not None
    given = (feed.address, True, feed.memory_seconds, feed.max_age_seconds, cap * USD, 64_000 * USD)
    played.agents.send(played.agents.contracts.lister.call("setFeed", *given), safe.address)


@pytest.mark.parametrize("kind", SIDES)
@pytest.mark.thorough
async def test_bets_fill_a_side_to_its_cap_and_leave_the_other_open(
    capped: tuple[AgentService, dict[MarketKind, str]], kind: MarketKind
) -> None:
    service, markets = capped
    market, (one, other) = markets[kind], SIDES[kind]
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, service)
        await buyer.shows(market)
        _, shown = await buyer.get(f"/markets/{market}")
        assert shown["market"]["potCapUsd"] == CAP
        most = 20.408163  # CAP less the fee of 2%
        assert await refusal(buyer, bet(market, DEV[0], one, CAP + 0.5)) == {"limit": "pot_cap", "largestSizeUsd": most}
        for size, who in ((8, DEV[0]), (7, DEV[1])):
            # The receive form: only the contract can take what is paid.
            response, body = await buyer.buy(bet(market, who, one, size), who, form=Form.RECEIVE)
            assert response.status == 200, body
        await until_staked(buyer, market, 15)
        left = {"limit": "pot_cap", "largestSizeUsd": 5.408163}
        assert await refusal(buyer, bet(market, DEV[2], one, 5.408164)) == left
        assert await refusal(buyer, bet(market, DEV[2], one, 5.408164, simulate=True)) == left
        response, body = await buyer.buy(bet(market, DEV[2], one, 5.4), DEV[2], form=Form.RECEIVE)
        assert response.status == 200, body
        await until_staked(buyer, market, 20.4)
        assert await refusal(buyer, bet(market, DEV[0], one, 1)) == {"limit": "pot_cap", "largestSizeUsd": 0}
        response, body = await buyer.buy(bet(market, DEV[0], other, 7), DEV[0], form=Form.RECEIVE)
        assert response.status == 200, body  # a filled side leaves the other open
        await until_staked(buyer, market, 27.4)


async def refusal(buyer: Buyer, body: dict[str, Any]) -> dict[str, Any]:
    """Return the refusal of a bet; above 10 USD it is quoted first."""
    if body["sizeUsd"] > 10:
        asked = {name: body[name] for name in ("marketId", "side", "sizeUsd")}
        _, quoted = await buyer.get("/quote", **asked)
        body = {**body, "quoteId": quoted["quote"]["quoteId"], "minSharesOut": 1}
    response, refused = await buyer.post(body)
    assert (response.status, refused["error"]) == (422, "pool_impact_exceeded"), refused
    details: dict[str, Any] = refused["details"]
    return details


async def until_staked(buyer: Buyer, market: str, dollars: float) -> None:
    async def staked() -> bool:
        return bool((await buyer.get(f"/markets/{market}"))[1]["market"]["volumeUsd"] == dollars)

    await until(staked, f"{dollars} dollars on {market}", pause=0.1)
