"""Clients of the stock side: they sign bets, have them relayed, ask again until the answer is definite, and look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from eth_account import Account
from eth_account.messages import encode_typed_data

from core.money import USD
from scripts._stack.wallets import Wallet
from tests.simulator.clients import PAUSE_SECONDS, Clients, Outcome, Seen

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
LARGEST = 40 * USD
NUMBERS = ("value", "validAfter", "validBefore")


@dataclass
class RelayedBet:
    """One bet that was signed, and what its bettor was told."""

    wallet: Wallet
    market: int
    outcome: int
    amount: int
    nonce: str
    body: dict[str, Any]
    told: Outcome = Outcome.WAITING
    told_at: float = 0.0
    position: int | None = None  # as the receipt says
    faults: list[str] = field(default_factory=list)  # what was wrong with a receipt when it came
    last: tuple[int, Any] = (0, None)  # the answer to the same body when all is over
    looked_up: tuple[int, Any] = (0, None)  # and to a question for its receipt
    answers: list[str] = field(default_factory=list)


def _is_booked(status: int, answer: Any) -> bool:
    """Whether an answer of the relay says that the bet is on the chain."""
    return status in (200, 409) and answer.get("receipt") == "confirmed"


@dataclass
class StockCrowd(Clients):
    """The clients of the stock side. `lean`: the share of them that bets on UP."""

    bets: list[RelayedBet] = field(default_factory=list)
    lean: float = 0.5
    judge: Callable[[Any], str | None] = lambda _body: ""
    judge_receipt: Callable[[str, int, int, Any], str | None] = lambda *_: ""

    async def play(self, pace: float) -> None:
        """A bet every `pace` seconds or so, until cancelled; bets that were begun go on."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / pace))
            self.betting.append(asyncio.create_task(self.bet()))

    async def look(self, pace: float) -> None:
        """Reads markets all the while."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / pace))
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
        amount = USD + self.dice.randrange(LARGEST - USD)
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
        bet = RelayedBet(wallet, int(chosen["id"]), outcome, amount, typed["nonce"], body)
        self.bets.append(bet)
        if self.dice.random() < 0.2:  # in a hurry: the same body twice at once
            await asyncio.gather(self.insist(bet), self.insist(bet))
        else:
            await self.insist(bet)

    async def insist(self, bet: RelayedBet) -> None:
        """The same body until the answer is definite."""
        while bet.told is Outcome.WAITING:
            status, answer = await self.call("POST", "/api/relay/enter", bet.body)
            said = answer if isinstance(answer, dict) else {}
            word = str(said.get("error") or said.get("receipt", ""))
            bet.answers.append(f"{self.clock.elapsed:.1f} {status} {word}")
            if not self._told(bet, status, said):
                wait = max(PAUSE_SECONDS, min(float(said.get("retryAfter") or 0), 10.0))
                await asyncio.sleep(wait * self.dice.uniform(0.8, 1.2))

    def _told(self, bet: RelayedBet, status: int, said: Any) -> bool:
        """Whether the bettor knows now; who asked twice at once goes by the first definite answer."""
        if bet.told is not Outcome.WAITING:
            return True
        if _is_booked(status, said):
            bet.told, bet.told_at = Outcome.TAKEN, self.clock.now
            bet.position = int(said["positionId"]) if said.get("positionId") else None
            fault = self.judge_receipt(bet.wallet.address, bet.outcome, bet.amount, said)
            bet.faults += [fault] if fault else []
        elif said.get("error") in REFUSALS or said.get("receipt") == "reverted":
            bet.told = Outcome.REFUSED
        return bet.told is not Outcome.WAITING

    async def ask_again(self, bet: RelayedBet) -> None:
        """The same body once more, long after, and for its receipt; again while the answer says nothing of the bet."""
        for _ in range(20):
            bet.last = status, answer = await self.call("POST", "/api/relay/enter", bet.body)
            said = answer if isinstance(answer, dict) else {}
            if said.get("receipt") in ("confirmed", "reverted") or said.get("error") in REFUSALS:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        for _ in range(20):
            path = f"/api/relay/receipt?from={bet.wallet.address}&nonce={bet.nonce}"
            bet.looked_up = status, answer = await self.call("GET", path)
            if status == 200 and not answer["stale"]:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    @staticmethod
    def says_booked(bet: RelayedBet) -> tuple[bool, bool]:
        """What was said at last: by the relay, and of the receipt."""
        status, answer = bet.last
        seen, receipt = bet.looked_up
        relay = isinstance(answer, dict) and _is_booked(status, answer)
        return relay, seen == 200 and receipt["receipt"] in ("confirmed", "final")
