"""Clients: they pay for bets, ask again until the answer is definite, and look things up meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from core.contracts.statuses import Form
from core.money import USD
from scripts._stack.payments import bound_header
from scripts._stack.wallets import Wallet
from tests.simulator.clients import PAUSE_SECONDS, Clients, Outcome, Seen

API = "/api/agent/v1"
REFUSALS = frozenset({"market_closed", "idem_conflict", "payment_invalid", "insufficient_balance", "bet_mismatch"})


@dataclass
class Bet:
    """One bet that was paid for, and what its bettor was told."""

    wallet: Wallet
    key: str
    market: str
    amount: int
    request: tuple[Any, Mapping[str, str]]
    valid_until: float
    told: Outcome = Outcome.WAITING
    told_at: float = 0.0
    faults: list[str] = field(default_factory=list)  # what was wrong with a receipt when it came
    last: tuple[int, Any] = (0, None)  # the answer to the same request when all is over
    tries: int = 0
    answers: list[str] = field(default_factory=list)


@dataclass
class Crowd(Clients):
    """The clients of the agent API."""

    bets: list[Bet] = field(default_factory=list)
    judge: Callable[[Any, int], str | None] = lambda _market, _block: ""
    judge_receipt: Callable[[str, str, Any], str | None] = lambda _owner, _key, _answer: ""

    async def play(self, pace: float) -> None:
        """A bet every `pace` seconds or so, until cancelled; bets that were begun go on."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / pace))
            self.betting.append(asyncio.create_task(self.bet()))

    async def look(self, pace: float) -> None:
        """Reads markets all the while."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / pace))
            status, listed = await self.call("GET", f"{API}/markets?limit=50")
            if status == 200:
                self._saw(listed)

    def _saw(self, listed: Any) -> None:
        block = listed["meta"]["freshness"]["block"]
        for each in listed["markets"]:
            self.seen.append(Seen(each["id"], self.judge(each, block)))

    async def bet(self) -> None:
        wallet = self.dice.choice(self.wallets)
        status, listed = await self.call("GET", f"{API}/markets?limit=50")
        near = datetime.fromtimestamp(self.clock.now + 4, UTC).isoformat()
        choices = [] if status != 200 else [each for each in listed["markets"] if each["deadlineAt"] > near]
        if not choices:
            return
        soonest = min(choices, key=lambda each: (each["deadlineAt"], each["id"]))
        chosen = soonest if self.dice.random() < 0.8 else self.dice.choice(choices)
        sides = [each["key"] for each in chosen["outcomes"] or ()] or ["yes", "no"]
        amount = USD + self.dice.randrange(2 * USD)
        body = {
            "marketId": chosen["id"],
            "side": self.dice.choice(sides),
            "sizeUsd": amount / USD,
            "idemKey": f"sim-{self.dice.getrandbits(64):016x}",
            "walletAddress": wallet.address,
        }
        status, challenge = await self.call("POST", f"{API}/trade", body)
        if status != 402:
            return
        offer = challenge["accepts"][0]
        now = int(self.clock.now)
        header = bound_header(offer, wallet, now, self.dice.choice((Form.TRANSFER, Form.RECEIVE)))
        until = now + offer["maxTimeoutSeconds"]
        bet = Bet(wallet, str(body["idemKey"]), chosen["id"], amount, (body, header), until)
        self.bets.append(bet)
        if self.dice.random() < 0.2:  # in a hurry: the same request twice at once
            await asyncio.gather(self.insist(bet), self.insist(bet))
        else:
            await self.insist(bet)

    async def insist(self, bet: Bet) -> None:
        """The same request until the answer is definite."""
        body, headers = bet.request
        while bet.told is Outcome.WAITING:
            bet.tries += 1
            status, answer = await self.call("POST", f"{API}/trade", body, headers)
            said = answer if isinstance(answer, dict) else {}
            bet.answers.append(
                f"{self.clock.elapsed:.1f} {status} {said.get('error') or said.get('receipt', '')!s:.60}"
            )
            if status == 200:
                bet.told, bet.told_at = Outcome.TAKEN, self.clock.now
                fault = self.judge_receipt(bet.wallet.address, bet.key, answer)
                bet.faults += [fault] if fault else []
            elif said.get("error") in REFUSALS:
                bet.told = Outcome.REFUSED
            elif status == 402 and self.clock.now > bet.valid_until + 30:
                bet.told = Outcome.REFUSED  # the payment can no longer be taken, and the service says it was not
            else:
                wait = max(PAUSE_SECONDS, min(float(said.get("retryAfter") or 0), 10.0))
                await asyncio.sleep(wait * self.dice.uniform(0.8, 1.2))

    async def ask_again(self, bet: Bet) -> None:
        """The same request once more, long after; again while the answer says nothing of the bet."""
        body, headers = bet.request
        for _ in range(20):
            status, answer = await self.call("POST", f"{API}/trade", body, headers)
            bet.last = status, answer
            if status == 200 or (isinstance(answer, dict) and (status == 402 or answer.get("error") in REFUSALS)):
                return
            await asyncio.sleep(PAUSE_SECONDS)
