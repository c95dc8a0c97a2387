"""Trades on paper markets: once for each trade id, no matter who sends it and how often."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import psycopg
from psycopg.errors import UniqueViolation

from core.agent.book import Book
from core.cup import Refusal, books, enrolment, ledger
from core.cup.amounts import number_of, text_of
from core.cup.books import PaperMarket
from core.db.engine import Connection


@dataclass(frozen=True, slots=True)
class PaperOrder:
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


async def require_allowed(connection: Connection, wallet: str, size_cents: int, balance_cents: int) -> None:
    """Refuse a trade of this size that the wallet may not make, in whichever market."""
    await enrolment.require_may_trade(connection, wallet)
    require_funds(balance_cents, size_cents)


@dataclass(frozen=True, slots=True)
class PlacedTrade:
    """A trade as it was written; the amounts after it are those of its receipt."""

    wallet: str
    slug: str
    outcome: int
    size_cents: int
    shares_cents: int
    balance_cents: int
    projected_cents: int
    pool_cents: int

    def receipt(self, order: PaperOrder, market: PaperMarket, *, replay: bool = True) -> PaperReceipt:
        """The receipt it had; a Refusal when `order`, on `market`, is another trade under the same id."""
        asked = (order.wallet, order.slug, order.size_cents)
        if (self.wallet, self.slug, self.size_cents) != asked or market.sides[self.outcome].key != order.side:
            raise Refusal(409, "trade_conflict", "This tradeId was used for another trade; choose a new one.")
        return PaperReceipt(
            order.trade_id,
            market,
            order.side,
            self.size_cents,
            self.shares_cents,
            self.balance_cents,
            self.projected_cents,
            self.pool_cents,
            replay,
        )


async def placed(connection: Connection, trade_ids: Sequence[str]) -> dict[str, PlacedTrade]:
    """Return those of these trades that were made, by id."""
    rows = await connection.fetch_all(
        "SELECT trade_id, wallet, slug, outcome, size_cents, shares_cents, balance_cents, projected_cents, pool_cents "
        "FROM cup_trade WHERE trade_id = ANY(%s)",
        (list(trade_ids),),
    )
    return {trade_id: PlacedTrade(*row) for trade_id, *row in rows}


class WalletBusy(Exception):
    """The news that another transaction holds the wallet: nothing was written of its trade or bet, which may be placed
    again."""


async def place(
    connection: Connection, orders: Sequence[PaperOrder], clock: Callable[[], datetime]
) -> list[PaperReceipt | Exception]:
    """Place the orders; return for each its receipt, the one from when it was first placed, or why there is none.

    All are one transaction, made in the order given: when this returns they are as durable as the database makes them.
    A refusal affects its order only. A database error undoes all of them, and each is tried alone. The clock is read
    once the locks are held, and may refuse: orders that waited for them past the tournament's close.
    """
    try:
        async with connection.transaction():
            return await _place(connection, orders, clock)
    except psycopg.OperationalError:
        raise  # the connection's: no order is at fault, and whether they went through is not known
    except psycopg.Error as error:
        if len(orders) > 1:
            return [each for order in orders for each in await place(connection, [order], clock)]
        if not isinstance(error, UniqueViolation):
            return [error]
    # Another request used the id on another market since we looked: only a market's lock makes others wait.
    return [await _replayed(connection, orders[0])]


async def _replayed(connection: Connection, order: PaperOrder) -> PaperReceipt | Exception:
    try:
        market = await books.find(connection, order.slug)
        return (await placed(connection, [order.trade_id]))[order.trade_id].receipt(order, market)
    except Refusal as refusal:
        return refusal


async def _place(
    connection: Connection, orders: Sequence[PaperOrder], clock: Callable[[], datetime]
) -> list[PaperReceipt | Exception]:
    markets = await books.lock_all(connection, {order.slug for order in orders})
    done = await placed(connection, [order.trade_id for order in orders])
    wallets = await _lock_wallets(connection, {order.wallet for order in orders})
    try:
        now = clock()
    except Refusal as closed:  # an answer like any other: raised, it would be taken for that of orders made before
        return [closed] * len(orders)
    group = _Group(markets, done, wallets, now)
    answers = [group.answer(order) for order in orders]
    if group.decided:
        await _write(connection, group)
    return answers


@dataclass(slots=True)
class _Wallet:
    """What decides whether a wallet may trade. `balance_cents` is None while another transaction holds it."""

    barred: bool
    balance_cents: int | None


async def _lock_wallets(connection: Connection, wallets: Collection[str]) -> dict[str, _Wallet]:
    """Lock the wallets that are free. A settlement holds many for long: their orders wait, the others' do not."""
    rows = await connection.fetch_all(
        f"SELECT w, {enrolment.BARRED}, EXISTS (SELECT FROM cup_account WHERE account = 'wallet:' || w) "  # noqa: S608
        "FROM unnest(%(wallets)s::text[]) AS u(w)".encode(),
        {"wallets": list(wallets), "halt": enrolment.HALT_SWITCH},
    )
    locked = {wallet: _Wallet(barred, None if claimed else 0) for wallet, barred, claimed in rows}
    for wallet, cents in (await ledger.lock_free_wallets(connection, wallets)).items():
        locked[wallet].balance_cents = cents
    return locked


@dataclass(slots=True)
class _Group:
    """Orders that are decided together, one after the other."""

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
            raise enrolment.halted()
        balance = wallet.balance_cents
        if balance is None:
            raise WalletBusy
        require_funds(balance, order.size_cents)
        book, quote = self.books.get(order.slug, market.book).staked(outcome, order.size_cents)
        trade = PlacedTrade(
            order.wallet,
            order.slug,
            outcome,
            order.size_cents,
            quote.shares,
            balance - order.size_cents,
            book.projected(outcome, order.size_cents, quote.shares),
            book.net_pool,
        )
        self.books[order.slug] = book
        wallet.balance_cents = trade.balance_cents
        self.done[order.trade_id] = trade
        self.decided.append((order, trade))
        return trade.receipt(order, market, replay=False)


# One statement for all that a group writes: in fourteen, their way there and back took longer than their work.
_WRITE: Final = """
WITH made AS MATERIALIZED (
    -- Taken in the order of the book and while the locks are held: by their ids, too, no transaction of an account
    -- comes before one that it needs.
    SELECT nextval(pg_get_serial_sequence('cup_transaction', 'id')) AS id, t.*
    FROM (SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::smallint[], %s::bigint[], %s::bigint[],
        %s::text[], %s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[]) WITH ORDINALITY
        AS u(trade_id, wallet, slug, outcome, size_cents, shares_cents, issued_at, signature, balance_cents,
        projected_cents, pool_cents, n) ORDER BY n) AS t
), transactions AS (
    -- In the order of their keys, like the trades, which may come first: two groups that have keys in common do not
    -- wait for each other in a circle.
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
            trade.projected_cents,
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
    """Format numbers as PostgreSQL writes an array: arrays of unequal length make no array of arrays."""
    return f"{{{','.join(map(str, numbers))}}}"


def require_funds(held_cents: int, needed_cents: int) -> None:
    if held_cents < needed_cents:
        raise Refusal(
            402,
            "insufficient_funds",
            f"This needs {text_of(needed_cents)} pUSDC and the wallet has {text_of(held_cents)}.",
            {"balance": number_of(held_cents), "needed": number_of(needed_cents)},
        )
