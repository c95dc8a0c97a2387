"""Trades on paper markets: once for each trade id, whoever sends it and however often."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg.errors import UniqueViolation

from core.cup import books, ledger
from core.cup.amounts import number_of, text_of
from core.cup.books import PaperMarket
from core.cup.enrolment import require_may_trade
from core.cup.ledger import Connection, market_account, wallet_account
from core.cup.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Order:
    """A signed trade whose signature was found good. `issued_at` is the text that was signed."""

    trade_id: str
    wallet: str
    slug: str
    side: str
    size_cents: int
    issued_at: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class PaperReceipt:
    """The receipt of a trade, or (`trade_id` None) of what one would do. Balance, projection and pool are those
    afterwards; a simulation leaves the balance as it is."""

    trade_id: str | None
    market: PaperMarket
    side: str
    size_cents: int
    shares_cents: int
    balance_cents: int | None
    projected_cents: int
    pool_cents: int
    replay: bool = False


def simulate(market: PaperMarket, side: str, size_cents: int, balance_cents: int | None, now: datetime) -> PaperReceipt:
    outcome = market.outcome(side)
    market.require_open(now)
    book, quote = market.book.staked(outcome, size_cents)
    projected = book.projected(outcome, size_cents, quote.shares)
    return PaperReceipt(None, market, side, size_cents, quote.shares, balance_cents, projected, book.net_pool)


async def replayed(connection: Connection, order: Order) -> PaperReceipt | None:
    """The first receipt of this trade id; a Refusal when the id was used for anything else."""
    cursor = await connection.execute(
        "SELECT wallet, slug, outcome, size_cents, shares_cents, balance_cents, projected_cents, pool_cents "
        "FROM cup_trade WHERE trade_id = %s",
        (order.trade_id,),
    )
    row = await cursor.fetchone()
    if row is None:
        return None
    wallet, slug, outcome, size, shares, left, projected, pool = row
    market = await books.find(connection, slug)
    same = (wallet, slug, market.sides[outcome].key, size) == (order.wallet, order.slug, order.side, order.size_cents)
    if not same:
        raise Refusal(409, "trade_conflict", "This tradeId was used for another trade; choose a new one.")
    return PaperReceipt(order.trade_id, market, order.side, size, shares, left, projected, pool, replay=True)


async def place(connection: Connection, order: Order, now: datetime) -> PaperReceipt:
    """The trade, or the receipt it had when it was first placed."""
    try:
        async with connection.transaction():
            return await _place(connection, order, now)
    except UniqueViolation:
        # Somebody used the id on another market since we looked: markets are what makes others wait.
        done = await replayed(connection, order)
        if done is None:
            raise
        return done


async def _place(connection: Connection, order: Order, now: datetime) -> PaperReceipt:
    market = await books.find(connection, order.slug, lock=True)
    outcome = market.outcome(order.side)
    done = await replayed(connection, order)
    if done is not None:
        return done
    market.require_open(now)
    await require_may_trade(connection, order.wallet)
    account = wallet_account(order.wallet)
    held = await ledger.lock(connection, account) or 0
    require_funds(held, order.size_cents)
    book, quote = market.book.staked(outcome, order.size_cents)
    projected = book.projected(outcome, order.size_cents, quote.shares)
    transaction = await ledger.post(
        connection,
        "trade",
        order.trade_id,
        {account: -order.size_cents, market_account(order.slug): order.size_cents},
    )
    left = held - order.size_cents
    await connection.execute(
        "INSERT INTO cup_trade (trade_id, transaction_id, wallet, slug, outcome, size_cents, shares_cents, issued_at,"
        " signature, balance_cents, projected_cents, pool_cents, at) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            order.trade_id,
            transaction,
            order.wallet,
            order.slug,
            outcome,
            order.size_cents,
            quote.shares,
            order.issued_at,
            order.signature,
            left,
            projected,
            book.net_pool,
            now,
        ),
    )
    await connection.execute(
        "INSERT INTO cup_position AS p (wallet, slug, outcome, cost_cents, shares_cents) VALUES (%s, %s, %s, %s, %s) "
        "ON CONFLICT (wallet, slug, outcome) DO UPDATE SET cost_cents = p.cost_cents + excluded.cost_cents, "
        "shares_cents = p.shares_cents + excluded.shares_cents",
        (order.wallet, order.slug, outcome, order.size_cents, quote.shares),
    )
    await books.write_book(connection, market, book)
    return PaperReceipt(
        order.trade_id, market, order.side, order.size_cents, quote.shares, left, projected, book.net_pool
    )


def require_funds(held_cents: int, needed_cents: int) -> None:
    if held_cents < needed_cents:
        raise Refusal(
            402,
            "insufficient_funds",
            f"This needs {text_of(needed_cents)} pUSDC and the wallet has {text_of(held_cents)}.",
            {"balance": number_of(held_cents), "needed": number_of(needed_cents)},
        )
