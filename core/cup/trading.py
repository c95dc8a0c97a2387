"""Trades on paper markets. The trade id ensures that no trade is made twice."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import psycopg
from psycopg.errors import UniqueViolation

from core.agent.book import Book
from core.cup import Refusal, books, ledger, number_of, text_of
from core.cup.books import PaperMarket
from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class PaperOrder:
    """A trade whose signature has been verified. `issued_at` is the time exactly as it was signed."""

    trade_id: str
    wallet: str
    slug: str
    side: str
    size_cents: int
    issued_at: str
    signature: bytes


@dataclass(frozen=True, slots=True)
class PaperReceipt:
    """The receipt of a trade, or of a simulation if `trade_id` is None."""

    trade_id: str | None
    market: PaperMarket
    trade: PlacedTrade
    replay: bool = False

    @property
    def side(self) -> str:
        return self.market.sides[self.trade.outcome].key


@dataclass(frozen=True, slots=True)
class PlacedTrade:
    """A stored trade with the amounts that its receipt shows. The projected payout, the pool and the balance are those
    after the trade; a simulation does not change the balance."""

    wallet: str | None
    slug: str
    outcome: int
    size_cents: int
    shares_cents: int
    balance_cents: int | None
    projected_payout_cents: int
    pool_cents: int

    def receipt(self, order: PaperOrder, market: PaperMarket, *, replay: bool = True) -> PaperReceipt:
        """Return the receipt of this trade. Raise a Refusal if `order` uses the same trade id for a different trade."""
        receipt = PaperReceipt(order.trade_id, market, self, replay)
        asked = (order.wallet, order.slug, order.size_cents, order.side)
        if (self.wallet, self.slug, self.size_cents, receipt.side) != asked:
            raise Refusal(409, "trade_conflict", "This tradeId was already used for another trade; choose a new one.")
        return receipt


def simulate(
    market: PaperMarket, wallet: str | None, side: str, size_cents: int, balance_cents: int | None, now: datetime
) -> PaperReceipt:
    outcome = market.outcome(side)
    market.require_open(now)
    _, trade = _traded(market.book, wallet, market.slug, outcome, size_cents, balance_cents)
    return PaperReceipt(None, market, trade)


def _traded(
    book: Book, wallet: str | None, slug: str, outcome: int, size_cents: int, balance_cents: int | None
) -> tuple[Book, PlacedTrade]:
    """Return the book after a trade, and the trade itself. `balance_cents` is the wallet's balance after the trade."""
    after, quote = book.staked(outcome, size_cents)
    projected = after.projected(outcome, size_cents, quote.shares)
    trade = PlacedTrade(wallet, slug, outcome, size_cents, quote.shares, balance_cents, projected, after.net_pool)
    return after, trade


async def require_allowed(connection: Connection, wallet: str, size_cents: int, balance_cents: int) -> None:
    """Raise a Refusal if the wallet may not trade at all or its balance is less than the trade's size."""
    await ledger.require_may_trade(connection, wallet)
    require_funds(balance_cents, size_cents)


async def find_trades(connection: Connection, trade_ids: Sequence[str]) -> dict[str, PlacedTrade]:
    """Return the stored trades that have these trade ids, keyed by trade id."""
    rows = await connection.fetch_all(
        "SELECT trade_id, wallet, slug, outcome, size_cents, shares_cents, balance_cents, projected_cents, pool_cents "
        "FROM cup_trade WHERE trade_id = ANY(%s)",
        (list(trade_ids),),
    )
    return {trade_id: PlacedTrade(*row) for trade_id, *row in rows}


class WalletBusy(Exception):
    """Another transaction has locked the wallet. Nothing was stored, so the trade or bet may be tried again."""


async def place(
    connection: Connection, orders: Sequence[PaperOrder], clock: Callable[[], datetime]
) -> list[PaperReceipt | Exception]:
    """Place the orders. Return each order's receipt or error; an order that was placed before gets the original
    receipt.

    All orders are placed in one transaction, in the order given, and are committed when this returns. A refusal affects
    only its own order. After a database error, each order is tried alone. The clock is read after taking the locks and
    may raise a Refusal, so orders that waited past the tournament's close are refused.
    """
    try:
        async with connection.transaction():
            return await _place(connection, orders, clock)
    except psycopg.OperationalError:
        raise  # a connection error: no order is at fault, and it is unknown whether they were stored
    except psycopg.Error as error:
        if len(orders) > 1:
            return [each for order in orders for each in await place(connection, [order], clock)]
        if not isinstance(error, UniqueViolation):
            return [error]
    # Another request has just used the id on another market; only the lock of the same market would have made it wait.
    return [await _replayed(connection, orders[0])]


async def _replayed(connection: Connection, order: PaperOrder) -> PaperReceipt | Exception:
    try:
        market = await books.find(connection, order.slug)
        return (await find_trades(connection, [order.trade_id]))[order.trade_id].receipt(order, market)
    except Refusal as refusal:
        return refusal


async def _place(
    connection: Connection, orders: Sequence[PaperOrder], clock: Callable[[], datetime]
) -> list[PaperReceipt | Exception]:
    markets = await books.lock_all(connection, {order.slug for order in orders})
    done = await find_trades(connection, [order.trade_id for order in orders])
    wallets = await _lock_wallets(connection, {order.wallet for order in orders})
    try:
        now = clock()
    except Refusal as closed:  # returned, not raised, or it would count for orders placed before
        return [closed] * len(orders)
    group = _Group(markets, done, wallets, now)
    answers = [group.answer(order) for order in orders]
    if group.decided:
        await _write(connection, group)
    return answers


@dataclass(slots=True)
class _Wallet:
    """A wallet's balance, and whether the wallet may trade. The balance is None while another transaction holds the
    wallet's lock."""

    barred: bool
    balance_cents: int | None


async def _lock_wallets(connection: Connection, wallets: Collection[str]) -> dict[str, _Wallet]:
    """Lock the wallets that no other transaction has locked. A settlement may lock many wallets for a long time; only
    the orders of those wallets have to be tried again."""
    rows = await connection.fetch_all(
        f"SELECT w, {ledger.BARRED}, EXISTS (SELECT FROM cup_account WHERE account = 'wallet:' || w) "  # noqa: S608
        "FROM unnest(%(wallets)s::text[]) AS u(w)".encode(),
        {"wallets": list(wallets), "halt": ledger.HALT_SWITCH},
    )
    locked = {wallet: _Wallet(barred, None if claimed else 0) for wallet, barred, claimed in rows}
    for wallet, cents in (await ledger.lock_free_wallets(connection, wallets)).items():
        locked[wallet].balance_cents = cents
    return locked


@dataclass(slots=True)
class _Group:
    """A group of orders that are decided in one transaction, one after another."""

    markets: dict[str, PaperMarket]
    done: dict[str, PlacedTrade]
    wallets: dict[str, _Wallet]
    now: datetime
    books: dict[str, Book] = field(default_factory=dict)
    decided: list[tuple[PaperOrder, PlacedTrade]] = field(default_factory=list)

    def answer(self, order: PaperOrder) -> PaperReceipt | Exception:
        try:
            return self._decide(order)
        except (Refusal, WalletBusy) as why:
            return why

    def _decide(self, order: PaperOrder) -> PaperReceipt:
        market = self.markets.get(order.slug)
        if market is None:
            raise books.no_market()
        outcome = market.outcome(order.side)
        if (earlier := self.done.get(order.trade_id)) is not None:
            return earlier.receipt(order, market)
        market.require_open(self.now)
        wallet = self.wallets[order.wallet]
        if wallet.barred:
            raise ledger.halted()
        balance = wallet.balance_cents
        if balance is None:
            raise WalletBusy
        require_funds(balance, order.size_cents)
        book, left = self.books.get(order.slug, market.book), balance - order.size_cents
        self.books[order.slug], trade = _traded(book, order.wallet, order.slug, outcome, order.size_cents, left)
        wallet.balance_cents = left
        self.done[order.trade_id] = trade
        self.decided.append((order, trade))
        return trade.receipt(order, market, replay=False)


# One statement for everything a group writes: with fourteen, the round trips took longer than the work.
_WRITE: Final = """
WITH made AS MATERIALIZED (
    -- Ids are assigned in book order while the locks are held, so no transaction of an account precedes one it needs.
    SELECT nextval(pg_get_serial_sequence('cup_transaction', 'id')) AS id, t.*
    FROM (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::smallint[], %s::bigint[], %s::bigint[],
        %s::text[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[]) WITH ORDINALITY
        AS u(trade_id, wallet, slug, outcome, size_cents, shares_cents, issued_at, signature, balance_cents,
        projected_cents, pool_cents, n) ORDER BY n) AS t
), transactions AS (
    -- Ordered by key, like the trades, so that two groups with keys in common cannot deadlock.
    INSERT INTO cup_transaction (id, kind, key) OVERRIDING SYSTEM VALUE
    SELECT id, 'trade', 'trade:' || trade_id FROM made ORDER BY trade_id
), entries AS (
    INSERT INTO cup_entry (transaction_id, account, amount_cents)
    SELECT id, 'wallet:' || wallet, -size_cents FROM made
    UNION ALL SELECT id, 'market:' || slug, size_cents FROM made
), trades AS (
    INSERT INTO cup_trade (trade_id, transaction_id, wallet, slug, outcome, size_cents, shares_cents, issued_at,
        signature, balance_cents, projected_cents, pool_cents, at)
    SELECT trade_id, id, wallet, slug, outcome, size_cents, shares_cents, issued_at, signature, balance_cents,
        projected_cents, pool_cents, %s FROM made ORDER BY trade_id
), positions AS (
    INSERT INTO cup_position AS p (wallet, slug, outcome, cost_cents, shares_cents)
    SELECT wallet, slug, outcome, sum(size_cents), sum(shares_cents) FROM made GROUP BY wallet, slug, outcome
    ON CONFLICT (wallet, slug, outcome) DO UPDATE SET cost_cents = p.cost_cents + excluded.cost_cents,
        shares_cents = p.shares_cents + excluded.shares_cents
)
UPDATE cup_market m SET net_cents = b.net::bigint[], shares_cents = b.shares::bigint[],
    trades = m.trades + (SELECT count(*) FROM made WHERE made.slug = m.slug)
FROM unnest(%s::text[], %s::text[], %s::text[]) AS b(slug, net, shares) WHERE m.slug = b.slug
"""


async def _write(connection: Connection, group: _Group) -> None:
    made = [
        (
            order.trade_id,
            order.wallet,
            order.slug,
            trade.outcome,
            order.size_cents,
            trade.shares_cents,
            order.issued_at,
            order.signature,
            trade.balance_cents,
            trade.projected_payout_cents,
            trade.pool_cents,
        )
        for order, trade in group.decided
    ]
    after = [(slug, _array(book.net), _array(book.shares)) for slug, book in group.books.items()]
    columns = (list(column) for column in zip(*made, strict=True))
    await connection.execute(
        _WRITE.encode(), (*columns, group.now, *(list(column) for column in zip(*after, strict=True)))
    )


def _array(numbers: Sequence[int]) -> str:
    """Format the numbers as a PostgreSQL array literal. The arrays of several markets may differ in length, so they
    cannot form an array of arrays."""
    return f"{{{','.join(map(str, numbers))}}}"


def require_funds(held_cents: int, needed_cents: int) -> None:
    if held_cents < needed_cents:
        raise Refusal(
            402,
            "insufficient_funds",
            f"This needs {text_of(needed_cents)} pUSDC, but the wallet has only {text_of(held_cents)}.",
            {"balance": number_of(held_cents), "needed": number_of(needed_cents)},
        )
