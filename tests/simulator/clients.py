"""The common part of all clients: they send a request, repeat it until the response is definite, and record it."""

from __future__ import annotations

import asyncio
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

import aiohttp

from scripts._stack.wallets import Wallet
from tests.simulator.clock import VirtualClock

ANSWER_SECONDS = 25.0
PAUSE_SECONDS = 1.5
TIMES_AGAIN = 10


class Outcome(StrEnum):
    WAITING = "waiting"
    TAKEN = "taken"
    REFUSED = "refused"


@dataclass
class Seen:
    """A response about one market, judged when it came. `true` is empty if the response was true at the block it names,
    a sentence if it was not, and None if a fork undid that block at about that time."""

    market: str
    true: str | None


@dataclass(kw_only=True)
class Bet:
    """One bet, and the outcome reported to its bettor."""

    wallet: Wallet
    amount: int
    reported: Outcome = Outcome.WAITING
    reported_at: float = 0.0
    is_refused_for_now: bool = False  # in a block that is not final, according to the answer
    faults: list[str] = field(default_factory=list)  # what was wrong with a receipt when it came
    last: tuple[int, Any] = (0, None)  # the answer to the same request when all is over
    answers: list[str] = field(default_factory=list)


B = TypeVar("B", bound=Bet)


@dataclass
class Clients(ABC, Generic[B]):
    """All clients of a world. They sign by its clock, and their responses are kept for the judgement."""

    url: str
    clock: VirtualClock
    dice: random.Random
    wallets: list[Wallet]
    seen: list[Seen] = field(default_factory=list)
    bets: list[B] = field(default_factory=list)
    callers: int = 0
    betting: list[asyncio.Task[None]] = field(default_factory=list)
    session: aiohttp.ClientSession | None = None

    @abstractmethod
    async def bet(self) -> None:
        """Choose, sign and place a bet."""

    @abstractmethod
    async def look_once(self) -> None:
        """Read markets, and record the responses."""

    @abstractmethod
    async def send(self, bet: B) -> tuple[int, Any]:
        """Send the bet's request, which is the same each time."""

    @abstractmethod
    def learn(self, bet: B, status: int, said: Mapping[str, Any]) -> None:
        """Record what the bettor learns from this response."""

    @abstractmethod
    def is_definite(self, status: int, said: Mapping[str, Any]) -> bool:
        """Return whether a late response settles the outcome of the bet."""

    async def play(self, pace: float) -> None:
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / pace))
            self.betting.append(asyncio.create_task(self.bet()))

    async def look(self, pace: float) -> None:
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / pace))
            await self.look_once()

    async def place(self, bet: B) -> None:
        self.bets.append(bet)
        if self.dice.random() < 0.2:  # in a hurry: the same request twice at once
            await asyncio.gather(self.insist(bet), self.insist(bet))
        else:
            await self.insist(bet)

    async def insist(self, bet: B) -> None:
        """Repeat the request until the response is definite. Of two sent at once, the first definite response
        counts."""
        while bet.reported is Outcome.WAITING:
            status, answer = await self.send(bet)
            said = answer if isinstance(answer, dict) else {}
            word = str(said.get("error") or said.get("receipt", ""))
            bet.answers.append(f"{self.clock.elapsed:.1f} {status} {word:.60}")
            if bet.reported is Outcome.WAITING:
                self.learn(bet, status, said)
            if bet.reported is Outcome.WAITING:
                wait = max(PAUSE_SECONDS, min(float(said.get("retryAfter") or 0), 10.0))
                await asyncio.sleep(wait * self.dice.uniform(0.8, 1.2))

    async def ask_again(self, bet: B) -> None:
        """Repeat the request much later, until the response mentions the bet."""
        for _ in range(TIMES_AGAIN):
            bet.last = status, answer = await self.send(bet)
            if self.is_definite(status, answer if isinstance(answer, dict) else {}):
                return
            await asyncio.sleep(PAUSE_SECONDS)

    @property
    def somebody_waits(self) -> bool:
        return any(each.reported is Outcome.WAITING for each in self.bets)

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        assert self.session is not None
        self.callers += 1
        caller = {"X-Forwarded-For": f"10.{self.callers >> 16 & 255}.{self.callers >> 8 & 255}.{self.callers & 255}"}
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with self.session.request(
                method, self.url + path, json=body, headers={**caller, **(headers or {})}, timeout=patience
            ) as answer:
                return answer.status, json.loads(await answer.read() or b"null")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return 0, None
