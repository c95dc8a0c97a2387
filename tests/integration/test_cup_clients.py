"""The official MCP clients, which know nothing of this service, play on a running `./vpm up`: Python and TypeScript."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from tests.cup_rig import Signer
from tests.integration.test_cup_mcp import NAMES
from tests.support.genesis import Genesis
from tests.support.mcp_clients import Call, Refused, python_client, typescript_client
from tests.support.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def stack(local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with stack_of(local_genesis, tmp_path_factory.mktemp("cup")) as running:
        running.ready()
        yield running


@pytest.fixture
async def url(stack: Stack) -> str:
    """The MCP server's, once a paper market is open and the first round has opened."""
    cup = f"http://127.0.0.1:{stack.port}/api/cup"
    async with aiohttp.ClientSession() as session, asyncio.timeout(90):
        for path in ("/v1/markets", "/v1/roulette"):
            while True:
                async with session.get(cup + path) as response:
                    body = await response.json()
                    if response.status == 200 and body["markets"]:
                        break
                await asyncio.sleep(0.2)
    return f"{cup}/mcp"


@pytest.mark.proves(
    "cup.mcp.endpoint.server",
    "cup.mcp.behaviour.trade_defaults_simulate",
    "cup.mcp.auth.no_keys",
    "cup.service.decision.local_window",  # without one every tool would answer 409
)
@pytest.mark.parametrize("connected", [python_client, typescript_client], ids=["python", "typescript"])
async def test_the_official_clients_play(url: str, connected: Any) -> None:
    """Claim, quote, simulate, signed trade, roulette bet, positions and board."""
    signer = Signer()
    async with connected(url) as (tools, call):
        assert sorted(tool["name"] for tool in tools) == sorted(NAMES)
        assert len(tools) == 9
        guide = await call("getting_started")
        assert guide["meta"]["version"] == "service-cup-api-v1"
        claimed = await call("create_wallet", walletAddress=signer.address)
        assert (claimed["balancePaper"], claimed["minted"]) == (10_000, True)
        assert (await call("create_wallet", walletAddress=signer.address))["minted"] is False

        market = (await call("list_markets", limit=100))["markets"][-1]  # the last deadline: open for long
        slug, side = market["slug"], market["outcomes"][0]["key"]
        with pytest.raises(Refused) as refused:
            await call("get_quote", slug=slug, side="neither", sizePaper=25)
        assert (refused.value.body["error"], refused.value.body["status"]) == ("invalid_side", 422)
        assert side in refused.value.body["validSides"]
        quote = await call("get_quote", slug=slug, side=side, sizePaper=25.05)
        body = signer.trade(slug, side, 2505)
        dry = (await call("place_paper_trade", **body))["receipt"]
        assert (dry["simulated"], dry["shares"]) == (True, quote["shares"])
        done = (await call("place_paper_trade", **body, simulate=False))["receipt"]
        assert (done["simulated"], done["tradeId"], done["balancePaper"]) == (False, body["tradeId"], 9974.95)

        # The keeper turns the wheel.
        live = await wheel(call, signer)
        bet = signer.bet(live["roundNo"], "colour:red", 1000)
        placed = (await call("place_roulette_bet", **bet, simulate=False))["receipt"]
        assert (placed["simulated"], placed["betKey"], placed["balancePaper"]) == (False, "colour:red", 9964.95)
        held = await call("get_positions", walletAddress=signer.address)
        assert [(each["side"], each["costPaper"], each["status"]) for each in held["positions"]] == [
            (side, 25.05, "open")
        ]
        board = await call("get_leaderboard", wallet=signer.address, limit=5)
        assert set(board) >= {"entries", "total", "week", "you"}


async def wheel(call: Call, signer: Signer) -> dict[str, Any]:
    """The live round, with enough time left to bet on it."""
    async with asyncio.timeout(90):
        while True:
            live = await call("get_roulette_round", wallet=signer.address)
            assert len(live["markets"]) == 42
            if live["phase"] == "bet" and live["secondsToClose"] > 10:
                return live
            await asyncio.sleep(0.5)
