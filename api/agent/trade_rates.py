"""How often a wallet may trade. A challenge and the paid retry of the same idempotency key count once."""

from __future__ import annotations

from aiohttp import web
from limits import RateLimitItem, parse

from api.agent.models import TradeRequest
from api.http.caller import caller_ip
from api.http.limits import RateLimits
from api.http.problem import Problem
from core.config import Settings

TRADE_RATE = parse("10/minute")
ONCE_A_PAIR = parse("1/2 minutes")
_TOO_MANY = "A wallet may trade 10 times a minute."


class TradeRates:
    def __init__(self, limits: RateLimits, settings: Settings) -> None:
        self._limits = limits
        self._settings = settings

    async def unpaid(self, request: web.Request, wanted: TradeRequest) -> None:
        """Counts a call nobody has signed, by wallet and caller: a stranger cannot use up somebody else's minute."""
        who = f"{wanted.wallet}|{caller_ip(request, self._settings)}"
        await self._limits.take(TRADE_RATE, "agent-trade", who, _TOO_MANY)
        await self._fits(ONCE_A_PAIR, "agent-challenge", f"{wanted.wallet}|{wanted.idem_key}")

    async def paid(self, request: web.Request, wanted: TradeRequest) -> None:
        """Counts a signed call by wallet; the first one after a challenge of the same key is counted with it."""
        pair = f"{wanted.wallet}|{wanted.idem_key}"
        challenged = not await self._fits(ONCE_A_PAIR, "agent-challenge", pair)
        if not challenged or not await self._fits(ONCE_A_PAIR, "agent-paid", pair):
            who = f"{wanted.wallet}|{caller_ip(request, self._settings)}"
            await self._limits.take(TRADE_RATE, "agent-trade", who, _TOO_MANY)
        await self._limits.take(TRADE_RATE, "agent-trade-paid", wanted.wallet, _TOO_MANY)

    async def _fits(self, item: RateLimitItem, rule: str, who: str) -> bool:
        try:
            await self._limits.take(item, rule, who, "")
        except Problem:
            return False
        return True
