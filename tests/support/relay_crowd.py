"""A crowd that bets through the public relay endpoint and never gives up on a bet.

What was sent is sent again, the same body, until the answer is final: whatever dies meanwhile, that is all a client has
to do.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from coincurve import PrivateKey

from api.stock.authorization import StockBet
from core.chain import checksum
from core.contracts.deployments import Token
from scripts._stack.wallets import Wallet, wallet
from tests.support.keeper_rig import Rig, call_data
from tests.waiting import wait

DOLLAR = 10**6
EACH = 400 * DOLLAR
"""What every bettor starts with."""
MIN_LEFT_SECONDS = 25
"""A market so near its bell is left alone: not every bet that is refused is worth a retry."""
VALID_SECONDS = 1_200
AGAIN_SECONDS, MAX_AGAIN_SECONDS = 0.7, 10.0
"""First and longest pause before a body is sent again; it grows by half each time."""

MAX_OPEN = 150
"""So many bets may wait for their final answers at once: a crowd that only grew would drown a slow machine."""

LANDED = frozenset({"confirmed", "already_used"})
REFUSED = frozenset({"market_closed", "expired", "simulation_failed", "insufficient_balance", "market_not_found"})


@dataclass
class Placed:
    """One signed bet and how it went: `answers` are the words of the relay in order, `unreachable` for none at all."""

    bet: StockBet
    body: dict[str, Any]
    answers: list[str] = field(default_factory=list)

    @property
    def end(self) -> str | None:
        """The final word, or None while there is none."""
        last = self.answers[-1] if self.answers else ""
        return last if last in LANDED | REFUSED | {"reverted"} else None

    @property
    def accepted(self) -> bool:
        """The relay said at least once that the bet is on its way, or on the chain."""
        return not LANDED.union({"pending", "reverted"}).isdisjoint(self.answers)


class Crowd:
    """Wallets with tokens and no ether, and the bets they placed."""

    def __init__(self, rig: Rig, url: str, size: int, chance: random.Random) -> None:
        deployment = rig.deployment("stock")
        self.rig = rig
        self.url = url
        self.chance = chance
        self.token: Token = deployment.token("USDG")
        self.settler = deployment.contract("VestedMarkets").address
        self.chain_id = deployment.chain_id
        self.wallets = [wallet(f"crowd {number}") for number in range(size)]
        self.placed: list[Placed] = []
        self._turns = itertools.cycle(self.wallets)
        self._calls = itertools.count(1)
        self._open: tuple[float, list[int], int] = (0.0, [], 0)

    def fund(self, rich: Wallet) -> None:
        """Tokens for everybody from one wallet, in as few blocks as it takes."""
        rig = self.rig
        rig.ask("stock", "anvil_impersonateAccount", rich.address)
        hashes = []
        for one in self.wallets:
            data = call_data("transfer(address,uint256)", ["address", "uint256"], [one.address, EACH])
            sent = {"from": rich.address, "to": self.token.address, "data": "0x" + data.hex(), "gas": hex(200_000)}
            hashes.append(rig.ask("stock", "eth_sendTransaction", sent))
        rig.ask("stock", "anvil_stopImpersonatingAccount", rich.address)
        wait(lambda: rig.ask("stock", "eth_getTransactionReceipt", hashes[-1]), "the crowd's money")
        assert [self.held(one) for one in self.wallets] == [EACH] * len(self.wallets)

    def held(self, one: Wallet) -> int:
        return self.rig.balance("stock", self.token.address, one.address)

    # ---------------------------------------------------------------- betting

    async def bet(self, seconds: float, per_second: int) -> None:
        """Starts so many bets a second, as long as not too many wait, and returns when each has its final answer."""
        loop = asyncio.get_running_loop()
        timeout = aiohttp.ClientTimeout(total=30)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session, asyncio.TaskGroup() as group:
            started = loop.time()
            waiting: set[asyncio.Task[None]] = set()
            for number in range(int(seconds * per_second)):
                await asyncio.sleep(max(0.0, started + number / per_second - loop.time()))
                market = self._market()
                if market is not None and len(waiting) < MAX_OPEN:
                    placed = self._sign(next(self._turns), market)
                    self.placed.append(placed)
                    task = group.create_task(self._insist(session, placed, seconds=600))
                    waiting.add(task)
                    task.add_done_callback(waiting.discard)

    async def _insist(self, session: aiohttp.ClientSession, placed: Placed, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while placed.end is None and time.monotonic() < deadline:
            if placed.answers:
                pause = min(AGAIN_SECONDS * 1.5 ** (len(placed.answers) - 1), MAX_AGAIN_SECONDS)
                await asyncio.sleep(pause * self.chance.uniform(0.7, 1.3))
            placed.answers.append(await self._post(session, placed.body))

    async def _post(self, session: aiohttp.ClientSession, body: dict[str, Any]) -> str:
        number = next(self._calls)
        headers = {"X-Forwarded-For": f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"}
        try:
            async with session.post(f"{self.url}/api/relay/enter", json=body, headers=headers) as response:
                answer = await response.json()
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return "unreachable"
        word = answer.get("receipt") or answer.get("error")
        assert isinstance(word, str), answer
        assert response.status == 200 or answer.get("message"), answer
        return word

    def _market(self) -> int | None:
        """A short one that takes bets for a while yet; looked up twice a second."""
        looked, found, _ = self._open
        if time.monotonic() - looked > 0.5:
            rows = self.rig.rows(
                "SELECT m.market_id FROM stock_market m, chain_cursor c WHERE m.closed_tx IS NULL AND m.family = 2 "
                "AND m.freeze_time > greatest(c.block_time, c.head_time) + %s ORDER BY m.market_id",
                MIN_LEFT_SECONDS,
            )
            found = [int(market) for (market,) in rows]
            self._open = (time.monotonic(), found, self.rig.now("stock"))
        return self.chance.choice(found) if found else None

    def _sign(self, one: Wallet, market_id: int) -> Placed:
        bet = StockBet(
            chain_id=self.chain_id,
            settler=self.settler,
            signer=checksum(one.address),
            market_id=market_id,
            outcome=self.chance.randrange(2),
            amount=self.chance.randint(DOLLAR, 4 * DOLLAR),
            valid_after=0,
            valid_before=self._open[2] + VALID_SECONDS,
            salt=secrets.token_bytes(32),
        )
        key = PrivateKey(bytes.fromhex(one.private_key[2:]))
        signed = key.sign_recoverable(bet.digest(self.token), hasher=None)
        signature = signed[:64] + bytes([signed[64] + 27])
        return Placed(
            bet,
            {
                "from": bet.signer,
                "marketId": str(bet.market_id),
                "outcome": bet.outcome,
                "amount": str(bet.amount),
                "validAfter": "0",
                "validBefore": str(bet.valid_before),
                "salt": "0x" + bet.salt.hex(),
                "signature": "0x" + signature.hex(),
            },
        )

    def words(self) -> Counter[str]:
        """Final answers by number."""
        return Counter(placed.end or "open" for placed in self.placed)
