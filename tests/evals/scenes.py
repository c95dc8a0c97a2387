"""The scenes of the tasks: what is there before an agent begins, and what must hold when it has ended.

What moved is asked of the token on the chain; on what it was staked, of the public REST API.
"""

from __future__ import annotations

import asyncio
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import aiohttp

from core.contracts.statuses import MarketKind
from core.money import USD
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_service import AgentService
from tests.support.buyer import Buyer, bet
from tests.support.stock_chain import USDG, StockChain

TASKS: Mapping[str, Mapping[str, str]] = tomllib.loads(Path(__file__).with_name("tasks.toml").read_text())
SECONDS = 20.0
# Of three ranges the middle one is the cheapest.
RANGES = (40_000_000 * 10**8, 160_000_000 * 10**8)
WEIGHTS = (500 * USD, 200 * USD, 300 * USD)
MAX_STAKE = 40 * USDG

Stakes = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True)
class Scene:
    """A task as an agent is given it, and its end.

    given: what its words name. answer: a number, which the answer must hold to a hundredth, or a word in it. stakes and
    positions: all that the wallet has in the end, as (market, side, units). spent: units of the server's token that the
    wallet has paid since the scene was set.
    """

    task: str
    wallet: Wallet
    given: Mapping[str, str]
    answer: Fraction | str | None = None
    stakes: Stakes = ()
    positions: Stakes = ()
    spent: int = 0
    held: Mapping[str, int] = field(default_factory=dict)

    @property
    def prompt(self) -> str:
        return TASKS[self.task]["prompt"].strip().format(**self.given)


class World:
    """A running service on both chains, and the scenes on it: every task has markets and a wallet of its own."""

    def __init__(self, service: AgentService, stock: StockChain, session: aiohttp.ClientSession) -> None:
        self._service = service
        self._chain = stock
        self._session = session
        self._buyer = Buyer(session, service)

    @property
    def servers(self) -> dict[str, str]:
        return {name: f"{self._service.url}/api/{name}/mcp" for name in ("agent", "stock")}

    async def scene(self, task: str) -> Scene:
        who = (
            wallets.DEV[list(TASKS).index(task) % len(wallets.DEV)] if task != "unfunded" else wallets.wallet("nobody")
        )
        made: Scene = await getattr(self, f"_{task}")(who)
        held = {"agent": self._dollars(who), "stock": self._units(who)}
        return Scene(made.task, who, made.given, made.answer, made.stakes, made.positions, made.spent, held)

    async def faults(self, scene: Scene, answer: str, seconds: float = SECONDS) -> list[str]:
        """What does not hold, in words; nothing when the task is done. `seconds`: how long the index may take."""
        server = TASKS[scene.task]["server"]
        now = self._dollars(scene.wallet) if server == "agent" else self._units(scene.wallet)
        found = []
        if not _answers(answer, scene.answer):
            found.append(f"the answer is {answer!r}, not {scene.answer}")
        if (paid := scene.held[server] - now) != scene.spent:
            found.append(f"{paid} units were paid, not {scene.spent}")
        wanted = scene.stakes if server == "agent" else scene.positions
        if (there := await self._shown(scene, wanted, seconds)) != wanted:
            found.append(f"the wallet has {there}, not {wanted}")
        return found

    # ------------------------------------------------------------ scenes

    async def _fee(self, who: Wallet) -> Scene:
        market = await self._market("fee")
        return Scene("fee", who, {"market": market["id"]}, answer=Fraction(market["feeBps"]))

    async def _rehearse(self, who: Wallet) -> Scene:
        market = await self._market("rehearse")
        _, told = await self._buyer.get("/quote", marketId=market["id"], side="yes", sizeUsd=5)
        shares = Fraction(str(told["quote"]["estimatedShares"]))
        return Scene("rehearse", who, {"market": market["id"]}, answer=shares)

    async def _holdings(self, who: Wallet) -> Scene:
        market = await self._market("holdings")
        for side, size in (("yes", 5), ("no", 7)):
            await self._placed(bet(market["id"], who, side, size), who)
        stakes = ((market["id"], "yes", 5 * USD), (market["id"], "no", 7 * USD))
        return Scene("holdings", who, {"wallet": who.address}, answer=Fraction(12), stakes=stakes)

    async def _small(self, who: Wallet) -> Scene:
        market = await self._market("small")
        stakes = ((market["id"], "yes", 2 * USD),)
        return Scene("small", who, {"market": market["id"]}, stakes=stakes, spent=2 * USD)

    async def _locked(self, who: Wallet) -> Scene:
        market = await self._market("locked")
        stakes = ((market["id"], "no", 25 * USD),)
        return Scene("locked", who, {"market": market["id"]}, stakes=stakes, spent=25 * USD)

    async def _cheapest(self, who: Wallet) -> Scene:
        market = await self._market("cheapest", kind=MarketKind.RANGE, bounds=RANGES, weights=WEIGHTS)
        stakes = ((market["id"], market["outcomes"][1]["key"], USD),)
        return Scene("cheapest", who, {"market": market["id"]}, stakes=stakes, spent=USD)

    async def _unfunded(self, who: Wallet) -> Scene:
        market = await self._market("unfunded")
        return Scene("unfunded", who, {"market": market["id"]}, answer="insufficient_balance")

    async def _once(self, who: Wallet) -> Scene:
        market = await self._market("once")
        body = bet(market["id"], who, "yes", 3)
        await self._placed(body, who)
        given = {"market": market["id"], "idem_key": body["idemKey"]}
        return Scene("once", who, given, stakes=((market["id"], "yes", 3 * USD),))

    async def _stock(self, who: Wallet) -> Scene:
        market = await self._stock_market()
        return Scene("stock", who, {"market": market}, positions=((market, "UP", 5 * USDG),), spent=5 * USDG)

    async def _largest(self, who: Wallet) -> Scene:
        market = await self._stock_market()
        return Scene("largest", who, {"market": market}, positions=((market, "DOWN", MAX_STAKE),), spent=MAX_STAKE)

    async def _market(self, name: str, **how: Any) -> dict[str, Any]:
        self._service.chain.list(name, **how)
        await self._buyer.shows(name)
        _, body = await self._buyer.get(f"/markets/{name}")
        return dict(body["market"])

    async def _stock_market(self) -> str:
        number = str(self._chain.open_market(strike_in=86_400, lasts=86_400, max_entry=MAX_STAKE))
        async with asyncio.timeout(SECONDS):
            while (await self._read(f"/api/markets/{number}"))[0] != 200:
                await asyncio.sleep(0.05)
        return number

    async def _placed(self, body: dict[str, Any], who: Wallet) -> None:
        response, answer = await self._buyer.buy(body, who)
        assert response.status == 200, answer

    # ------------------------------------------------------------ what there is

    def _dollars(self, who: Wallet) -> int:
        chain = self._service.chain
        return int(chain.read(chain.contracts.token.call("balanceOf", who.address)))

    def _units(self, who: Wallet) -> int:
        return int(self._chain.read(self._chain.contracts.token.call("balanceOf", who.address)))

    async def _shown(self, scene: Scene, wanted: Stakes, seconds: float) -> Stakes:
        """What the wallet has in the scene's market, oldest first."""
        deadline = time.monotonic() + seconds
        while True:
            there = await (self._staked(scene) if TASKS[scene.task]["server"] == "agent" else self._entered(scene))
            if there == wanted or time.monotonic() > deadline:
                return there
            await asyncio.sleep(0.1)

    async def _staked(self, scene: Scene) -> Stakes:
        _, body = await self._read(f"/api/agent/v1/positions?wallet={scene.wallet.address}")
        mine = self._service.chain.ids[scene.task]
        return tuple(
            (each["marketId"], each["side"], int(Fraction(str(each["stakedUsd"])) * USD))
            for each in reversed(body["positions"])
            if each["marketId"] == mine
        )

    async def _entered(self, scene: Scene) -> Stakes:
        _, body = await self._read(f"/api/positions?owner={scene.wallet.address}")
        return tuple(
            (each["marketId"], each["side"], int(each["offered"]))
            for each in reversed(body["positions"])
            if each["marketId"] == scene.given["market"]
        )

    async def _read(self, path: str) -> tuple[int, Any]:
        async with self._session.get(self._service.url + path) as response:
            return response.status, await response.json()


def _answers(answer: str, wanted: Fraction | str | None) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return wanted in re.findall(r"\w+", answer)
    numbers = [Fraction(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", answer)]
    return any(abs(each - wanted) * 100 <= wanted for each in numbers)
