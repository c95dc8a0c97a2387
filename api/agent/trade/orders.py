"""Orders of bets, all checks of an order before payment, and the price locks of quotes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from api.agent.chain import AgentContracts
from api.agent.errors import problem
from api.agent.facts import ListedMarket, MarketsSnapshot
from api.agent.requests import MIN_SIZE, TradeRequest
from api.agent.storage import free_connection, storage
from api.agent.switch import Trading
from api.agent.trade.rates import AGAIN_SECONDS
from api.head import chain_now
from api.problems import Problem
from core.agent.bet import ZERO_ADDRESS, Bet, bet_hash
from core.agent.book import MAX_STAKE, Book, Quote
from core.db.engine import Connection, ConnectionPool
from core.hexadecimal import bytes_of, hex_of
from core.money import USD, decimal_text, json_number

LOCK_SECONDS = 60
SIMPLE_MAX = 10 * USD
MAX_POINTS = 40 * 10**16  # wad: what one trade may move the price by


@dataclass(frozen=True, slots=True)
class Order:
    """A requested bet with the terms on which it would settle. `hash`: the public id of the trade. `got`: the book's
    current quote for the bet."""

    request: TradeRequest
    market: ListedMarket
    outcome: int
    got: Quote
    bet: Bet
    hash: bytes

    @property
    def wallet(self) -> str:
        return self.bet.wallet

    @property
    def resource_hash(self) -> str:
        return hex_of(self.hash)


class OrderEntry:
    """The maker of orders. It turns a request into the bet that the payer signs."""

    def __init__(self, pool: ConnectionPool, contracts: AgentContracts, switch: Trading) -> None:
        self._pool = pool
        self._contracts = contracts
        self._switch = switch

    def order(self, trade: TradeRequest, market: ListedMarket, key_hash: bytes) -> Order | None:
        """Return the order for a request, even if the order cannot be accepted. Return None if the market has no such
        side."""
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
        hashed = bet_hash(bet, self._contracts.chain_id, self._contracts.settlement.address)
        return Order(trade, market, outcome, got, bet, hashed)

    async def check(
        self, trade: TradeRequest, market: ListedMarket, order: Order | None, snapshot: MarketsSnapshot
    ) -> Order:
        """Return the order if it passes all checks; otherwise raise the refusal. The checks run in the documented
        order."""
        if (reason := self._switch.why_off(snapshot)) is not None:
            raise problem("platform_paused", reason, retry_after=AGAIN_SECONDS)
        check_open(market, chain_now(snapshot.now))
        if order is None:
            raise no_such_side(market, trade.side)
        if trade.size > SIMPLE_MAX:
            await self._check_lock(order)
        if order.got.shares < order.bet.min_shares:
            raise problem(
                "slippage_exceeded",
                f"The bet would get {decimal_text(order.got.shares)} shares now; your limits require "
                f"{decimal_text(order.bet.min_shares)}.",
            )
        check_impact(market, order.outcome, order.got)
        return order

    async def _check_lock(self, order: Order) -> None:
        trade = order.request
        if trade.quote_id is None or (trade.min_shares is None and trade.max_price_cents is None):
            raise problem(
                "quote_required",
                "A bet above 10 USD needs quoteId, and minSharesOut or maxPriceCents with it.",
            )
        async with storage("The price locks"), free_connection(self._pool) as connection:
            lock = await find_lock(connection, trade.quote_id)
        if lock is None:
            raise problem("quote_mismatch", "There is no such quote.")
        if (lock.market_key, lock.outcome, lock.amount) != (order.market.key, order.outcome, trade.size):
            raise problem("quote_mismatch", "The quote is for another market, side or size.")
        mine = (bytes_of(trade.wallet), order.bet.idem_hash)
        if lock.wallet is not None and (lock.wallet, lock.idem_hash) != mine:
            raise problem("quote_mismatch", "The quote was used for another trade.")
        if lock.expired:
            raise problem("quote_expired", "The quote is older than 60 seconds.")


def check_open(market: ListedMarket, now: int) -> None:
    """Raise 409 unless the contract accepts stakes on the market at `now`."""
    if market.opens_later(now):
        raise problem("market_closed", f"Market {market.id} is not open yet.")
    if market.status(now) != "open":
        raise problem("market_closed", f"Market {market.id} is {market.status(now)}; it takes no bets.")
    if not market.supported:
        raise problem("unsupported_market", f"Market {market.id} cannot be settled by this service on Base.")


def side_of(market: ListedMarket, side: str) -> int:
    outcome = market.outcome(side)
    if outcome is None:
        raise no_such_side(market, side)
    return outcome


def no_such_side(market: ListedMarket, side: str) -> Problem:
    keys = ", ".join(each.key for each in market.outcomes)
    return problem("invalid_side", f"Market {market.id} has no side {side!r}; it has {keys}.")


def check_impact(market: ListedMarket, outcome: int, got: Quote) -> None:
    """Raise 422 if the bet alone would move the price too far, or if its side has no room for the bet."""
    room = market.book.room(outcome, market.pot_cap)
    if got.amount > room:
        side = market.outcomes[outcome].key
        limit, why = (
            "pot_cap",
            f"The side {side} takes {decimal_text(room)} USDC more; each side has its own limit.",
        )
    elif got.price_after - got.price_before > MAX_POINTS:
        limit, why = "price", "This bet alone would move the price by more than 40 points."
    else:
        return
    fits = largest_size(market, outcome)
    hint = f"Bet {decimal_text(fits)} USD at most." if fits else "Pick another market from GET /markets."
    details = {"limit": limit, "largestSizeUsd": json_number(fits)}
    raise problem("pool_impact_exceeded", why, hint=hint, details=details)


def largest_size(market: ListedMarket, outcome: int) -> int:
    """Return the largest bet that neither limit refuses. Return 0 if not even the smallest bet fits."""
    largest = min(market.book.room(outcome, market.pot_cap), max_unmoving(market.book, outcome))
    return largest if largest >= MIN_SIZE else 0


def max_unmoving(book: Book, outcome: int) -> int:
    """Return the largest stake that moves the price by no more than one trade may move it. A larger stake always moves
    the price further."""
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


@dataclass(frozen=True, slots=True)
class Lock:
    """A stored price lock. `expired`: whether the lock has expired by the database's clock."""

    market_key: bytes
    outcome: int
    amount: int
    expired: bool
    wallet: bytes | None
    idem_hash: bytes | None


def new_quote_id() -> str:
    return f"q_{secrets.token_hex(16)}"


async def save_lock(
    connection: Connection, quote_id: str, market_key: bytes, outcome: int, amount: int, seconds: int
) -> datetime:
    """Store a lock for `seconds` and return when it expires."""
    cursor = await connection.execute(
        "INSERT INTO agent_quote (quote_id, market_id, outcome, amount, expires_at) "
        "VALUES (%s, %s, %s, %s, now() + make_interval(secs => %s)) RETURNING expires_at",
        (quote_id, market_key, outcome, amount, seconds),
    )
    row = await cursor.fetchone()
    assert row is not None
    expires_at: datetime = row[0]
    return expires_at


async def find_lock(connection: Connection, quote_id: str) -> Lock | None:
    cursor = await connection.execute(
        "SELECT market_id, outcome, amount, expires_at <= now(), wallet, idem_hash "
        "FROM agent_quote WHERE quote_id = %s",
        (quote_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    return Lock(row[0], row[1], int(row[2]), *row[3:])


async def use_lock(connection: Connection, quote_id: str, wallet: bytes, idem_hash: bytes) -> None:
    """Bind a price lock to a trade. Refuse the trade if the lock was used for another one."""
    cursor = await connection.execute(
        "UPDATE agent_quote SET wallet = %s, idem_hash = %s WHERE quote_id = %s "
        "AND (wallet IS NULL OR (wallet = %s AND idem_hash = %s)) RETURNING quote_id",
        (wallet, idem_hash, quote_id, wallet, idem_hash),
    )
    if await cursor.fetchone() is None:
        raise problem("quote_mismatch", "The quote was used for another trade.")
