"""The official MCP clients, which know nothing of this service, play on a running `./vpm up`: Python and TypeScript."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp.client import Client

from tests.cup_rig import Signer
from tests.integration.test_cup_mcp import NAMES
from tests.support.genesis import Genesis
from tests.support.stack import Stack, stack_of

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[2]
TYPESCRIPT_CLIENT = ROOT / "tests" / "clients" / "cup.mjs"

Call = Callable[..., Awaitable[dict[str, Any]]]


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


def node() -> str:
    found = shutil.which("node")
    assert found is not None
    return found


class Refused(Exception):
    """What a tool said of an error, as a client shows it: the body of the same refusal over HTTP."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["error"])
        self.body = body


@asynccontextmanager
async def python_client(url: str) -> AsyncIterator[tuple[list[dict[str, Any]], Call]]:
    async with Client(url) as client:
        tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools]

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            if result.is_error:
                assert result.structured_content is None
                raise Refused(json.loads(result.content[0].text))
            body: dict[str, Any] = result.structured_content
            assert json.loads(result.content[0].text) == body
            return body

        yield tools, call


@asynccontextmanager
async def typescript_client(url: str) -> AsyncIterator[tuple[list[dict[str, Any]], Call]]:
    process = await asyncio.create_subprocess_exec(
        node(),
        str(TYPESCRIPT_CLIENT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        limit=8 * 1024 * 1024,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sink, source = process.stdin, process.stdout

    async def exchange(line: str) -> Any:
        sink.write(line.encode() + b"\n")
        await sink.drain()
        answer = await source.readline()
        assert answer, "the client ended"
        return json.loads(answer)

    async def call(name: str, **arguments: Any) -> dict[str, Any]:
        result = await exchange(json.dumps({"tool": name, "arguments": arguments}))
        if result["isError"]:
            assert result["structured"] is None
            raise Refused(json.loads(result["text"]))
        assert json.loads(result["text"]) == result["structured"]
        return dict(result["structured"])

    try:
        yield (await exchange(url))["tools"], call
        sink.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


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
