"""Clients of the agent side. They pay for bets, repeat requests until the response is definite, and read markets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.contracts.statuses import Form
from core.money import USD
from tests.simulator.clients import Bet, Clients, Outcome, Seen
from tests.support.buyer import bound_header

API = "/api/agent/v1"
REFUSALS = frozenset(
    {
        "bet_mismatch",
        "idem_conflict",
        "insufficient_balance",
        "market_closed",
        "market_not_found",  # a fork undid it before the payment came, and nothing was sent
        "payment_invalid",
    }
)


@dataclass(kw_only=True)
class PaidBet(Bet):
    key: str
    market: str
    request: tuple[Any, Mapping[str, str]]
    valid_until: float


@dataclass
class Crowd(Clients[PaidBet]):
    judge: Callable[[Any, int], str | None] = lambda _market, _block: ""
    judge_receipt: Callable[[str, str, Any], str | None] = lambda _owner, _key, _answer: ""

    async def look_once(self) -> None:
        status, listed = await self.call("GET", f"{API}/markets?limit=50")
        if status == 200:
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
        bet = PaidBet(
            wallet=wallet,
            amount=amount,
            key=str(body["idemKey"]),
            market=chosen["id"],
            request=(body, header),
            valid_until=now + offer["maxTimeoutSeconds"],
        )
        await self.place(bet)

    async def send(self, bet: PaidBet) -> tuple[int, Any]:
        body, headers = bet.request
        return await self.call("POST", f"{API}/trade", body, headers)

    def learn(self, bet: PaidBet, status: int, said: Mapping[str, Any]) -> None:
        if status == 200:
            bet.reported, bet.reported_at = Outcome.TAKEN, self.clock.now
            fault = self.judge_receipt(bet.wallet.address, bet.key, said)
            bet.faults += [fault] if fault else []
        elif said.get("error") in REFUSALS:
            bet.reported, bet.reported_at = Outcome.REFUSED, self.clock.now
            bet.is_refused_for_now = said.get("final") is False
        elif status == 402 and self.clock.now > bet.valid_until + 30:
            bet.reported = Outcome.REFUSED  # the payment can no longer be taken, and the service says it was not

    def is_definite(self, status: int, said: Mapping[str, Any]) -> bool:
        return status in (200, 402) or said.get("error") in REFUSALS
