"""How often a wallet may trade. A challenge and the paid retry of the same idempotency key count once."""

from __future__ import annotations

from aiohttp import web
from limits import RateLimitItem, parse

from api.agent.requests import TradeRequest
from api.http.caller import caller_ip
from api.http.limits import RateLimits
from api.http.problem import Problem
from api.kept import Kept
from core.config import Settings

TRADE_RATE = parse("10/minute")
# Whatever wallets a caller names: each call may cost a node two questions. Thirty wallets behind one address have all
# of their ten bets; the paid retry of a challenge counts with it, as for the wallet.
EACH_ADDRESS = parse("300/minute")
ONCE_A_PAIR = parse("1/2 minutes")
SETTLING_KEPT = 10_000
_TOO_MANY = "A wallet may trade 10 times a minute."


class TradeRates:
    """The limits on how often trades are asked for, by address, wallet and caller."""

    def __init__(self, limits: RateLimits, settings: Settings) -> None:
        self._limits = limits
        self._settings = settings
        self._settling: Kept[str, bool] = Kept(SETTLING_KEPT)

    async def unpaid(self, request: web.Request, trade: TradeRequest) -> None:
        """Counts a call that pays nothing, by wallet and caller: a stranger cannot use up somebody else's minute."""
        await self._by_address(request)
        await self._by_caller(request, trade)
        await self._fits(ONCE_A_PAIR, "agent-challenge", _pair(trade))

    async def offered(self, request: web.Request, trade: TradeRequest) -> None:
        """Counts a call with a payment that has not been looked at closely yet, by wallet and caller, too; the first
        one after a challenge of the same key is counted with it."""
        challenged = not await self._has_room(ONCE_A_PAIR, "agent-challenge", _pair(trade))
        if not challenged or not await self._fits(ONCE_A_PAIR, "agent-paid", _pair(trade)):
            await self._by_address(request)
            await self._by_caller(request, trade)

    async def paid(self, trade: TradeRequest) -> None:
        """Counts a call whose payment is the wallet's own and has served no trade, by wallet alone."""
        await self._limits.take(TRADE_RATE, "agent-trade-paid", trade.wallet, _TOO_MANY)

    def is_settling(self, trade: TradeRequest) -> None:
        """From now on repeats of this key are counted by their address alone: they ask for a receipt, as they were told
        to, and bet nothing."""
        self._settling.put(_pair(trade), True)

    async def _by_address(self, request: web.Request) -> None:
        who, message = caller_ip(request, self._settings), "One address may trade 300 times a minute."
        await self._limits.take_from_outside(EACH_ADDRESS, "agent-address", who, message)

    async def _by_caller(self, request: web.Request, trade: TradeRequest) -> None:
        if self._settling.get(_pair(trade)):
            return
        who = f"{trade.wallet}|{caller_ip(request, self._settings)}"
        await self._limits.take(TRADE_RATE, "agent-trade", who, _TOO_MANY)

    async def _has_room(self, item: RateLimitItem, rule: str, who: str) -> bool:
        """Whether one would still fit, without counting it."""
        try:
            await self._limits.check(item, rule, who, "")
        except Problem:
            return False
        return True

    async def _fits(self, item: RateLimitItem, rule: str, who: str) -> bool:
        try:
            await self._limits.take(item, rule, who, "")
        except Problem:
            return False
        return True


def _pair(trade: TradeRequest) -> str:
    return f"{trade.wallet}|{trade.idem_key}"
