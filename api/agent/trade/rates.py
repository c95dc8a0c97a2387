"""Rate limits of trades. A challenge, the paid retry of its idempotency key and the receipt count as one."""

from __future__ import annotations

from collections.abc import Awaitable

from aiohttp import web
from limits import parse

from api.agent.requests import TradeRequest
from api.limits import RateLimits, caller_ip
from api.problems import Problem
from core.config import Settings

TRADE_RATE = parse("10/minute")
# The advised pause before a retry: following it stays within that rate.
AGAIN_SECONDS = 7
# For all wallets of one address, since each call may cost two RPC requests. Thirty wallets behind one address can make
# all of their ten bets; the paid retry of a challenge counts with it, as for the wallet.
EACH_ADDRESS = parse("300/minute")
# For every call of one wallet by one caller, also behind a proxy on this machine: only the database shows whether a
# call counts as a trade. Wide enough to poll for a receipt.
EACH_WALLET = parse("120/minute")
ONCE_A_PAIR = parse("1/2 minutes")
_TOO_MANY = "A wallet may trade 10 times a minute."


class TradeRates:
    """The rate limits of trades by address, wallet and caller. The counts are in the database and the shared limit
    storage, so the limits hold across processes."""

    def __init__(self, limits: RateLimits, settings: Settings) -> None:
        self._limits = limits
        self._settings = settings

    async def count_call(self, request: web.Request, trade: TradeRequest, *, paid: bool) -> bool:
        """Count a call by wallet and address, before any database query. Return whether the call also counts as a
        trade. The first payment after a challenge does not count, since the challenge was counted.

        `paid`: whether the call carries a payment, which is not checked yet.
        """
        caller = self._caller(request, trade)
        await self._limits.take(EACH_WALLET, "agent-wallet", caller, "A wallet may call 120 times a minute.")
        challenged = paid and not await _succeeds(self._limits.check(ONCE_A_PAIR, "agent-challenge", _pair(trade), ""))
        if challenged and await self._counts("agent-paid", trade):
            return False
        address, message = caller_ip(request, self._settings), "One address may trade 300 times a minute."
        await self._limits.take_external(EACH_ADDRESS, "agent-address", address, message)
        return True

    async def count_trade(self, request: web.Request, trade: TradeRequest, *, paid: bool, settled: bool) -> None:
        """Count a trade by wallet and caller, so that a stranger cannot use up a wallet's limit. `settled`: whether the
        call only fetches a receipt. The first receipt is counted with its bet.

        Do not call this for a trade in flight: our own answer asks its caller to repeat the request.
        """
        if settled and await self._counts("agent-receipt", trade):
            return
        await self._limits.take(TRADE_RATE, "agent-trade", self._caller(request, trade), _TOO_MANY)
        if not paid:
            await self._counts("agent-challenge", trade)

    async def count_payment(self, trade: TradeRequest) -> None:
        """Count a call with an unused payment of the wallet. The call is counted by wallet alone."""
        await self._limits.take(TRADE_RATE, "agent-trade-paid", trade.wallet, _TOO_MANY)

    def _caller(self, request: web.Request, trade: TradeRequest) -> str:
        return f"{trade.wallet}|{caller_ip(request, self._settings)}"

    async def _counts(self, rule: str, trade: TradeRequest) -> bool:
        """Count a wallet and key under a rule; return False if the pair was counted a moment ago."""
        return await _succeeds(self._limits.take(ONCE_A_PAIR, rule, _pair(trade), ""))


async def _succeeds(check: Awaitable[None]) -> bool:
    try:
        await check
    except Problem:
        return False
    return True


def _pair(trade: TradeRequest) -> str:
    return f"{trade.wallet}|{trade.idem_key}"
