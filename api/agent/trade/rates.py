"""How often a wallet may trade. A challenge, the paid retry of the same idempotency key and its receipt count once."""

from __future__ import annotations

from collections.abc import Awaitable

from aiohttp import web
from limits import parse

from api.agent.requests import TradeRequest
from api.http.caller import caller_ip
from api.http.limits import RateLimits
from api.http.problem import Problem
from core.config import Settings

TRADE_RATE = parse("10/minute")
# The advised pause before the same request again: following it, also for a minute, stays within that rate.
AGAIN_SECONDS = 7
# For all wallets that a caller names: each call may cost a node two queries. Thirty wallets behind one address can make
# all of their ten bets; the paid retry of a challenge counts with it, as for the wallet.
EACH_ADDRESS = parse("300/minute")
# For one wallet by one caller, for every call, also where all callers seem to be this machine: only the database shows
# whether a call counts for the wallet. Wide enough to ask for a receipt until it is there.
EACH_WALLET = parse("120/minute")
ONCE_A_PAIR = parse("1/2 minutes")
_TOO_MANY = "A wallet may trade 10 times a minute."


class TradeRates:
    """The limits on how often trades are asked for, by address, wallet and caller. What they go by is in the database
    and in what counts for all processes: none of them remembers a trade."""

    def __init__(self, limits: RateLimits, settings: Settings) -> None:
        self._limits = limits
        self._settings = settings

    async def arrived(self, request: web.Request, trade: TradeRequest, *, paid: bool) -> bool:
        """Counts a call by its wallet and its address, before anything is asked of the database. `paid`: it brings a
        payment, which has not been looked at closely yet. Returns whether the call counts for its wallet, too: the
        first payment after a challenge of the same key was counted with that."""
        who = self._caller(request, trade)
        await self._limits.take(EACH_WALLET, "agent-wallet", who, "A wallet may call 120 times a minute.")
        challenged = paid and not await _succeeds(self._limits.check(ONCE_A_PAIR, "agent-challenge", _pair(trade), ""))
        if challenged and await self._counts("agent-paid", trade):
            return False
        address, message = caller_ip(request, self._settings), "One address may trade 300 times a minute."
        await self._limits.take_from_outside(EACH_ADDRESS, "agent-address", address, message)
        return True

    async def asked(self, request: web.Request, trade: TradeRequest, *, paid: bool, settled: bool) -> None:
        """Count a call by wallet and caller: a stranger cannot use up another's minute. `settled`: it asks for a
        receipt, of which the first is counted with its bet.

        Not for a trade on its way: our own answer asked its caller to repeat the request, and it bets nothing."""
        if settled and await self._counts("agent-receipt", trade):
            return
        await self._limits.take(TRADE_RATE, "agent-trade", self._caller(request, trade), _TOO_MANY)
        if not paid:
            await self._counts("agent-challenge", trade)

    async def taken(self, trade: TradeRequest) -> None:
        """Counts a call whose payment is the wallet's own and has served no trade, by wallet alone."""
        await self._limits.take(TRADE_RATE, "agent-trade-paid", trade.wallet, _TOO_MANY)

    def _caller(self, request: web.Request, trade: TradeRequest) -> str:
        return f"{trade.wallet}|{caller_ip(request, self._settings)}"

    async def _counts(self, rule: str, trade: TradeRequest) -> bool:
        """Count a pair of wallet and key under a rule; False where it was counted a moment ago."""
        return await _succeeds(self._limits.take(ONCE_A_PAIR, rule, _pair(trade), ""))


async def _succeeds(asked: Awaitable[None]) -> bool:
    try:
        await asked
    except Problem:
        return False
    return True


def _pair(trade: TradeRequest) -> str:
    return f"{trade.wallet}|{trade.idem_key}"
