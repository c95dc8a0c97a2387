"""Orders, their checks before payment, the price locks of quotes, and the rate limits of trades."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web
from limits import parse

from api.agent.chain import AgentContracts
from api.agent.errors import free_connection, problem, storage
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.index import AgentParts
from api.agent.requests import MIN_SIZE, TradeRequest
from api.head import chain_now
from api.limits import RateLimits, caller_ip
from api.problems import Problem
from core.agent.bet import ZERO_ADDRESS, Bet, bet_hash
from core.agent.book import MAX_STAKE, Book, Quote
from core.config import Settings
from core.db.engine import Connection, ConnectionPool
from core.hexadecimal import bytes_of, hex_of
from core.money import USD, decimal_text, json_number

LOCK_SECONDS = 60
SIMPLE_MAX = 10 * USD
MAX_POINTS = 40 * 10**16  # wad: what one trade may move the price by

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


@dataclass(frozen=True, slots=True)
class Order:
    """A requested bet with its terms. `hash`: the trade's public id. `got`: the current quote."""

    request: TradeRequest
    market: ListedMarket
    outcome: int
    got: Quote
    bet: Bet
    hash: bytes

    @property
    def resource_hash(self) -> str:
        return hex_of(self.hash)


def order_for(contracts: AgentContracts, trade: TradeRequest, market: ListedMarket, key_hash: bytes) -> Order | None:
    """Return the order for a request, even if it will be refused. Return None if the market has no such side."""
    outcome = market.outcome(trade.side)
    if outcome is None:
        return None
    got = market.book.quote(outcome, trade.size)
    bet = Bet(
        market_id=market.key,
        outcome=outcome,
        amount=trade.size,
        min_shares=trade.required_shares(got.net),
        wallet=trade.wallet,
        idem_hash=key_hash,
        builder=trade.builder or ZERO_ADDRESS,
        ref=(trade.ref or "").encode().ljust(32, b"\0"),
    )
    return Order(trade, market, outcome, got, bet, bet_hash(bet, contracts.chain_id, contracts.settlement.address))


async def check_order(
    parts: AgentParts, trade: TradeRequest, market: ListedMarket, order: Order | None, snapshot: MarketsSnapshot
) -> Order:
    """Run the checks in the documented sequence. Return the order, or raise the refusal of the first failed check."""
    if (reason := parts.switch.why_off(snapshot)) is not None:
        raise problem("platform_paused", reason, retry_after=AGAIN_SECONDS)
    check_open(market, chain_now(snapshot.now))
    if order is None:
        raise no_such_side(market, trade.side)
    if trade.size > SIMPLE_MAX:
        await _check_lock(parts.context.pool, order)
    if order.got.shares < order.bet.min_shares:
        raise problem(
            "slippage_exceeded",
            f"The bet would get {decimal_text(order.got.shares)} shares now; your limits require "
            f"{decimal_text(order.bet.min_shares)}.",
        )
    check_impact(market, order.outcome, order.got)
    return order


async def _check_lock(pool: ConnectionPool, order: Order) -> None:
    trade = order.request
    if trade.quote_id is None or (trade.min_shares is None and trade.max_price_cents is None):
        raise problem("quote_required", "A bet above 10 USD needs quoteId and either minSharesOut or maxPriceCents.")
    async with storage("The price locks"), free_connection(pool) as connection:
        row = await connection.fetch_one(
            "SELECT market_id, outcome, amount, expires_at <= now(), wallet, idem_hash FROM agent_quote"
            " WHERE quote_id = %s",
            (trade.quote_id,),
        )
    if row is None:
        raise problem("quote_mismatch", "There is no such quote.")
    market_key, outcome, amount, is_expired, wallet, idem_hash = row
    if (market_key, outcome, amount) != (order.market.key, order.outcome, trade.size):
        raise problem("quote_mismatch", "The quote is for another market, side or size.")
    if wallet is not None and (wallet, idem_hash) != (bytes_of(trade.wallet), order.bet.idem_hash):
        raise problem("quote_mismatch", "The quote was used for another trade.")
    if is_expired:
        raise problem("quote_expired", "The quote is older than 60 seconds.")


def check_open(market: ListedMarket, now: int) -> None:
    """Raise 409 unless the contract accepts stakes on the market at `now`."""
    if market.opens_later(now):
        raise problem("market_closed", f"Market {market.id} is not open yet.")
    if market.status(now) != "open":
        raise problem("market_closed", f"Market {market.id} is {market.status(now)} and accepts no bets.")
    if not market.supported:
        raise problem("unsupported_market", f"Market {market.id} cannot be settled by this service on Base.")


def side_of(market: ListedMarket, side: str) -> int:
    outcome = market.outcome(side)
    if outcome is None:
        raise no_such_side(market, side)
    return outcome


def no_such_side(market: ListedMarket, side: str) -> Problem:
    keys = ", ".join(each.key for each in market.outcomes)
    return problem("invalid_side", f"Market {market.id} has no side {side!r}; its sides are {keys}.")


def check_impact(market: ListedMarket, outcome: int, got: Quote) -> None:
    """Raise 422 if the bet alone would move the price too far, or if its side has no room for the bet."""
    room = market.book.room(outcome, market.pot_cap)
    if got.amount > room:
        side = market.outcomes[outcome].key
        limit, why = "pot_cap", f"The side {side} has room for {decimal_text(room)} USDC; each side has its own limit."
    elif got.price_after - got.price_before > MAX_POINTS:
        limit, why = "price", "This bet alone would move the price by more than 40 points."
    else:
        return
    fits = largest_size(market, outcome)
    hint = f"Bet {decimal_text(fits)} USD at most." if fits else "Pick another market from GET /markets."
    details = {"limit": limit, "largestSizeUsd": json_number(fits)}
    raise problem("pool_impact_exceeded", why, hint=hint, details=details)


def largest_size(market: ListedMarket, outcome: int) -> int:
    """Return the largest bet that `check_impact` allows. Return 0 if even the smallest bet is too large."""
    largest = min(market.book.room(outcome, market.pot_cap), max_unmoving(market.book, outcome))
    return largest if largest >= MIN_SIZE else 0


def max_unmoving(book: Book, outcome: int) -> int:
    """Return the largest stake that moves the price by at most MAX_POINTS. A larger stake always moves the price
    further."""
    least, most = 0, MAX_STAKE
    while least < most:
        middle = (least + most + 1) // 2
        got = book.quote(outcome, middle)
        if got.price_after - got.price_before <= MAX_POINTS:
            least = middle
        else:
            most = middle - 1
    return least


# ---------------------------------------------------------------- price locks


async def save_lock(
    connection: Connection, quote_id: str, market_key: bytes, outcome: int, amount: int, seconds: int
) -> datetime:
    expires_at: datetime = await connection.fetch_value(
        "INSERT INTO agent_quote (quote_id, market_id, outcome, amount, expires_at) "
        "VALUES (%s, %s, %s, %s, now() + make_interval(secs => %s)) RETURNING expires_at",
        (quote_id, market_key, outcome, amount, seconds),
    )
    return expires_at


async def use_lock(connection: Connection, quote_id: str, wallet: bytes, idem_hash: bytes) -> None:
    """Bind a price lock to a trade. Refuse the trade if the lock was used for another trade."""
    bound = await connection.fetch_one(
        "UPDATE agent_quote SET wallet = %s, idem_hash = %s WHERE quote_id = %s "
        "AND (wallet IS NULL OR (wallet = %s AND idem_hash = %s)) RETURNING quote_id",
        (wallet, idem_hash, quote_id, wallet, idem_hash),
    )
    if bound is None:
        raise problem("quote_mismatch", "The quote was used for another trade.")


# ---------------------------------------------------------------- rate limits


class TradeRates:
    """Counts trades by address, wallet and caller. A challenge, its paid retry and the receipt count as one trade."""

    def __init__(self, limits: RateLimits, settings: Settings) -> None:
        self._limits = limits
        self._settings = settings

    async def count_call(self, request: web.Request, trade: TradeRequest, *, paid: bool) -> bool:
        """Count a call before any database query. Return whether the call also counts as a trade. The first payment
        after a challenge does not, since the challenge was counted."""
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
        call only fetches a receipt. The first such call is not counted, since its trade was. Do not call this for a
        trade in flight, because the service itself asks the caller to repeat the request."""
        if settled and await self._counts("agent-receipt", trade):
            return
        await self._limits.take(TRADE_RATE, "agent-trade", self._caller(request, trade), _TOO_MANY)
        if not paid:
            await self._counts("agent-challenge", trade)

    async def count_payment(self, trade: TradeRequest) -> None:
        """Count a call with an unused payment against the wallet's limit, no matter which IP address it comes from."""
        await self._limits.take(TRADE_RATE, "agent-trade-paid", trade.wallet, _TOO_MANY)

    def _caller(self, request: web.Request, trade: TradeRequest) -> str:
        return f"{trade.wallet}|{caller_ip(request, self._settings)}"

    async def _counts(self, rule: str, trade: TradeRequest) -> bool:
        """Count a wallet and key under a rule. Return False if the pair was already counted."""
        return await _succeeds(self._limits.take(ONCE_A_PAIR, rule, _pair(trade), ""))


async def _succeeds(check: Awaitable[None]) -> bool:
    try:
        await check
    except Problem:
        return False
    return True


def _pair(trade: TradeRequest) -> str:
    return f"{trade.wallet}|{trade.idem_key}"
