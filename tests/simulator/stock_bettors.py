"""Clients of the stock side. They sign bets, send them to the relay, repeat requests until the response is definite,
and read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from core.money import USD
from tests.simulator.clients import PAUSE_SECONDS, TIMES_AGAIN, Bet, Clients, Outcome, Seen

REFUSALS = frozenset(
    {
        "already_used",
        "bad_signature",
        "expired",
        "insufficient_balance",
        "invalid_amount",
        "market_closed",
        "market_not_found",
        "simulation_failed",
    }
)
MAX_STAKE = 40 * USD
NUMBERS = ("value", "validAfter", "validBefore")


@dataclass(kw_only=True)
class RelayedBet(Bet):
    market: int
    outcome: int
    nonce: str
    body: dict[str, Any]
    position: int | None = None  # as the receipt says
    looked_up: tuple[int, Any] = (0, None)  # what was said of its receipt when all is over


def _is_booked(status: int, answer: Any) -> bool:
    return status in (200, 409) and answer.get("receipt") == "confirmed"


@dataclass
class StockCrowd(Clients[RelayedBet]):
    """The clients of the stock side. `lean`: the share of them that bets on UP."""

    lean: float = 0.5
    judge: Callable[[Any], str | None] = lambda _body: ""
    judge_receipt: Callable[[str, int, int, Any], str | None] = lambda *_: ""

    async def look_once(self) -> None:
        status, listed = await self.call("GET", "/api/markets")
        if status == 200 and listed["markets"]:
            chosen = self.dice.choice(listed["markets"][:6])["id"]
            status, body = await self.call("GET", f"/api/markets/{chosen}")
            if status == 200:
                self.seen.append(Seen(chosen, self.judge(body)))

    async def bet(self) -> None:
        wallet = self.dice.choice(self.wallets)
        status, listed = await self.call("GET", "/api/markets")
        near = self.clock.now + 20
        choices = (
            [] if status != 200 else [m for m in listed["markets"] if m["acceptingBets"] and m["finalTime"] > near]
        )
        if not choices:
            return
        soonest = min(choices, key=lambda each: (each["finalTime"], int(each["id"])))
        chosen = soonest if self.dice.random() < 0.7 else self.dice.choice(choices)
        outcome = 0 if self.dice.random() < self.lean else 1
        amount = USD + self.dice.randrange(MAX_STAKE - USD)
        salt, seconds = f"0x{self.dice.getrandbits(256):064x}", self.dice.choice((60, 120, 600))
        status, typed = await self.call(
            "GET",
            f"/api/relay/typed-data?marketId={chosen['id']}&outcome={outcome}&amount={amount}&from={wallet.address}"
            f"&salt={salt}&validSeconds={seconds}",
        )
        if status != 200:
            return
        message = {name: int(value) if name in NUMBERS else value for name, value in typed["message"].items()}
        whole = {**{name: typed[name] for name in ("domain", "types", "primaryType")}, "message": message}
        signature = Account.sign_message(encode_typed_data(full_message=whole), wallet.private_key).signature
        body = {**typed["request"], "from": wallet.address, "signature": "0x" + bytes(signature).hex()}
        bet = RelayedBet(
            wallet=wallet,
            amount=amount,
            market=int(chosen["id"]),
            outcome=outcome,
            nonce=typed["nonce"],
            body=body,
        )
        await self.place(bet)

    async def send(self, bet: RelayedBet) -> tuple[int, Any]:
        return await self.call("POST", "/api/relay/enter", bet.body)

    def learn(self, bet: RelayedBet, status: int, said: Mapping[str, Any]) -> None:
        if _is_booked(status, said):
            bet.reported, bet.reported_at = Outcome.TAKEN, self.clock.now
            bet.position = int(said["positionId"]) if said.get("positionId") else None
            fault = self.judge_receipt(bet.wallet.address, bet.outcome, bet.amount, said)
            bet.faults += [fault] if fault else []
        elif said.get("error") in REFUSALS or said.get("receipt") == "reverted":
            bet.reported, bet.reported_at = Outcome.REFUSED, self.clock.now
            bet.is_refused_for_now = said.get("final") is False

    def is_definite(self, status: int, said: Mapping[str, Any]) -> bool:
        return said.get("receipt") in ("confirmed", "reverted") or said.get("error") in REFUSALS

    async def ask_again(self, bet: RelayedBet) -> None:
        """Repeat the request and ask for the receipt. A refused request is not repeated, because that would be a new
        bet."""
        if bet.reported is not Outcome.REFUSED:
            await super().ask_again(bet)
        for _ in range(TIMES_AGAIN):
            path = f"/api/relay/receipt?from={bet.wallet.address}&nonce={bet.nonce}"
            bet.looked_up = status, answer = await self.call("GET", path)
            if status == 200 and not answer["stale"]:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    @staticmethod
    def says_booked(bet: RelayedBet) -> tuple[bool, bool]:
        """Return whether the relay's last response, and the receipt, say that the bet is on the chain."""
        status, answer = bet.last
        seen, receipt = bet.looked_up
        relay = isinstance(answer, dict) and _is_booked(status, answer)
        return relay, seen == 200 and receipt["receipt"] in ("confirmed", "final")
