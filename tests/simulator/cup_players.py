"""Players of the cup. They claim, sign trades and bets on the wheel, repeat requests until the response is definite,
and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct

from api.cup import requests
from core.cup import wheel
from scripts._stack.wallets import Wallet
from tests.simulator.clients import Bet, Clients, Outcome

API = "/api/cup/v1"
REFUSALS = frozenset(
    {
        "bet_conflict",
        "insufficient_funds",
        "invalid_signature",
        "invalid_side",
        "market_closed",
        "market_not_found",
        "round_closed",
        "stake_out_of_bounds",
        "trade_conflict",
    }
)
MAX_TRADE = 300_00
STAKES = (10_00, 25_00, 500_00)


@dataclass(kw_only=True)
class PaperBet(Bet):
    """A trade on a paper market, or a bet on the wheel. `row` identifies it in the tables of its kind."""

    path: str
    body: dict[str, Any]
    row: tuple[str, Any]
    receipt: Mapping[str, Any] = field(default_factory=dict)  # the first, as it came

    @property
    def slug(self) -> str | None:
        return self.body.get("slug")


@dataclass(frozen=True)
class SeenPool:
    """A market's state in a response, and how many trades on it had been acknowledged before the request."""

    slug: str
    trades: int
    cents: int
    acknowledged: int


@dataclass(frozen=True)
class SeenBalance:
    wallet: str
    cents: int


def cents(paper: Any) -> int:
    return int(Decimal(str(paper)) * 100)


@dataclass
class CupCrowd(Clients[PaperBet]):
    """The players of the cup. Their responses are judged at the end, in the order of the ledger."""

    claimed: set[str] = field(default_factory=set)
    pools: list[SeenPool] = field(default_factory=list)
    balances: list[SeenBalance] = field(default_factory=list)
    pockets: set[tuple[int, int]] = field(default_factory=set)
    commitments: set[tuple[int, str]] = field(default_factory=set)

    async def look_once(self) -> None:
        acknowledged = Counter(each.slug for each in self.bets if each.reported is Outcome.TAKEN)
        status, listed = await self.call("GET", f"{API}/markets")
        for each in listed["markets"] if status == 200 else ():
            slug = each["slug"]
            self.pools.append(SeenPool(slug, each["tradeCount"], cents(each["poolPaper"]), acknowledged[slug]))
        status, round_ = await self.call("GET", f"{API}/roulette")
        if status == 200:
            self.commitments.add((round_["roundNo"], round_["commitment"]))
            self.pockets.update((each["roundNo"], each["pocket"]) for each in round_["history"])
        if self.claimed:
            chosen = self.dice.choice(sorted(self.claimed))
            status, wallet = await self.call("GET", f"{API}/wallet/{chosen}")
            if status == 200:
                self.balances.append(SeenBalance(chosen, cents(wallet["balancePaper"])))

    async def bet(self) -> None:
        wallet = self.dice.choice(self.wallets)
        if wallet.address.lower() not in self.claimed:
            status, _ = await self.call("POST", f"{API}/wallet", {"walletAddress": wallet.address})
            if status != 200:
                return
            self.claimed.add(wallet.address.lower())
        made = await (self._trade(wallet) if self.dice.random() < 0.6 else self._spin(wallet))
        if made is not None:
            await self.place(made)

    async def _trade(self, wallet: Wallet) -> PaperBet | None:
        status, listed = await self.call("GET", f"{API}/markets")
        if status != 200 or not listed["markets"]:
            return None
        chosen = listed["markets"][0] if self.dice.random() < 0.8 else self.dice.choice(listed["markets"])
        side = self.dice.choice([each["key"] for each in chosen["outcomes"]])
        amount, trade = self.dice.randrange(1, MAX_TRADE), f"sim-{self.dice.getrandbits(64):016x}"
        message = requests.trade_message(wallet.address, chosen["slug"], side, amount, trade, self._now)
        body = {"slug": chosen["slug"], "side": side, "sizePaper": amount / 100, "tradeId": trade}
        return self._signed(wallet, amount, "/trade", body, message, ("trade", trade))

    async def _spin(self, wallet: Wallet) -> PaperBet | None:
        status, round_ = await self.call("GET", f"{API}/roulette")
        if status != 200:
            return None
        number, key, amount = round_["roundNo"], self.dice.choice(list(wheel.OUTCOMES)), self.dice.choice(STAKES)
        row = ("bet", (number, wallet.address.lower(), key))
        if any(each.row == row for each in self.bets):  # a wallet has one bet on a key
            return None
        message = requests.bet_message(wallet.address, number, key, amount, self._now)
        body = {"roundNo": number, "betKey": key, "stakePaper": amount / 100}
        return self._signed(wallet, amount, "/roulette/bet", body, message, row)

    def _signed(
        self, wallet: Wallet, amount: int, path: str, body: dict[str, Any], message: str, row: tuple[str, Any]
    ) -> PaperBet:
        signature = Account.sign_message(encode_defunct(text=message), wallet.private_key).signature
        whole = {
            **body,
            "walletAddress": wallet.address,
            "issuedAt": message.rsplit("Issued: ", 1)[1],
            "signature": "0x" + bytes(signature).hex(),
        }
        return PaperBet(wallet=wallet, amount=amount, path=API + path, body=whole, row=row)

    @property
    def _now(self) -> str:
        return datetime.fromtimestamp(int(self.clock.now), UTC).isoformat()

    async def send(self, bet: PaperBet) -> tuple[int, Any]:
        return await self.call("POST", bet.path, bet.body)

    def learn(self, bet: PaperBet, status: int, said: Mapping[str, Any]) -> None:
        if status == 200:
            bet.reported, bet.reported_at, bet.receipt = Outcome.TAKEN, self.clock.now, said["receipt"]
        elif said.get("error") in REFUSALS:
            bet.reported, bet.reported_at = Outcome.REFUSED, self.clock.now

    def is_definite(self, status: int, said: Mapping[str, Any]) -> bool:
        return status == 200 or said.get("error") in REFUSALS

    async def ask_again(self, bet: PaperBet) -> None:
        """Repeat the request unless it was refused, because repeating a refused request would be a new bet."""
        if bet.reported is not Outcome.REFUSED:
            await super().ask_again(bet)
