"""The contracts' own views against the rows that say the same: those of small tables, whose columns are declared here,
those of markets, stakes and positions, and sums over them. The rows are by then what their logs make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from core.agent.bet import is_marked
from core.agent.book import Book
from core.chain.errors import RpcError
from core.contracts.events import Role
from core.contracts.statuses import AgentMarketStatus, StakeStatus, StockMarketStatus
from core.hexadecimal import hex_of
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import DOWN, UP, Moment, Position, VestedMarket
from core.stock.vested_views import PositionView, market_view, position_view
from indexer.audit.compare import as_view_fields, as_view_value
from indexer.audit.pages import AuditStage, Snapshot, View, compare_views, of_rows, whole
from indexer.fold import agent, stock
from indexer.fold.rows import RowKind
from indexer.fold.venues import AGENT_FEED, AGENT_ROLE, AGENT_VENUE, GUARDIAN, LISTER, STOCK_FEED, STOCK_OPENER
from indexer.store.payments import BookedStake, unpaid_stakes
from indexer.store.tables import all_rows, rows_after, rows_by_key

BOOKS_AT_ONCE = 1_000


def stages() -> list[AuditStage]:
    """Return the stages; each asks only the contracts that the chain has."""
    return [
        whole("permissions and bounds", _small_tables, of_views=True),
        whole("sums", _sums, of_views=True),
        of_rows("stock markets", stock.MARKET, "market_id", _stock_markets, Role.SETTLER),
        of_rows("stock positions", stock.POSITION, "position_id", _positions, Role.SETTLER),
        of_rows("agent markets", agent.MARKET, "index", _agent_markets, Role.WALLET),
        of_rows("agent stakes", agent.STAKE, "stake_id", _stakes, Role.WALLET),
        whole("agent liabilities", _liabilities, of_views=True),
    ]


# ---------------------------------------------------------------- small tables


@dataclass(frozen=True, slots=True)
class SmallTable:
    """A table whose rows a view answers for: the columns that are the view's arguments, and those that it returns, by
    its own names; a view of one value returns `allowed`."""

    kind: RowKind
    role: Role
    function: str
    arguments: tuple[str, ...]
    fields: tuple[str, ...] = ()
    chosen: Callable[[Any], bool] = lambda _row: True


SMALL_TABLES = (
    SmallTable(STOCK_OPENER, Role.LISTER, "isOpener", ("opener",)),
    SmallTable(
        STOCK_FEED,
        Role.LISTER,
        "feed",
        ("feed",),
        ("stockToken", "ticker", "maxStrikeAge", "maxFinalAge", "sideCap", "allowed"),
    ),
    SmallTable(AGENT_ROLE, Role.AGENT_LISTER, "isLister", ("account",), chosen=lambda row: row.role == LISTER),
    SmallTable(AGENT_ROLE, Role.WALLET, "hasRole", ("role", "account"), chosen=lambda row: row.role != LISTER),
    SmallTable(
        AGENT_FEED,
        Role.AGENT_LISTER,
        "feed",
        ("feed",),
        ("allowed", "condemned", "published", "memory_", "maxAge", "lag", "potCap", "step", "feedCap"),
    ),
    SmallTable(
        AGENT_VENUE,
        Role.AGENT_LISTER,
        "bounds",
        (),
        ("feeBps", "minWeight", "maxWeight", "disputeWindow", "voidDelay"),
    ),
    SmallTable(GUARDIAN, Role.PAUSER, "isGuardian", ("account",)),
)


async def _small_tables(snapshot: Snapshot) -> None:
    views = []
    for table in SMALL_TABLES:
        if table.role not in snapshot.contracts:
            continue
        for row in await all_rows(snapshot.connection, table.kind):
            # Both chains' rows may be in one database.
            if table.chosen(row) and getattr(row, "chain_id", snapshot.sources.chain_id) == snapshot.sources.chain_id:
                key = tuple(getattr(row, name) for name in table.arguments)
                ours = as_view_fields(row, *table.fields) if table.fields else row.allowed
                arguments = tuple(as_view_value(value) for value in key)
                views.append(View(table.kind.table.name, key, table.role, table.function, arguments, ours))
    await compare_views(snapshot, views)


# ---------------------------------------------------------------- sums


SUMS = (
    (
        Role.SETTLER,
        ("marketCount", "entriesPaused", "feesAccrued", "liabilities"),
        b"""
        SELECT (SELECT count(*) FROM stock_market),
          (SELECT coalesce(bool_or(entries_paused), false) FROM stock_venue),
          (SELECT coalesce(sum(fees), 0) FROM stock_market) - (SELECT coalesce(sum(fees_swept), 0) FROM stock_venue),
          -- all that came in, less all that went out
          (SELECT coalesce(sum(offered), 0) FROM stock_position)
            - (SELECT coalesce(sum(paid + refunded + residue_claimed), 0) FROM stock_market)
            - (SELECT coalesce(sum(fees_swept), 0) FROM stock_venue)
        """,
    ),
    (Role.LISTER, ("listingCount",), b"SELECT count(*) FROM stock_market WHERE ticker IS NOT NULL"),
    (
        Role.WALLET,
        ("marketCount", "paused"),
        b"""
        SELECT (SELECT count(*) FROM agent_market),
          (SELECT coalesce(bool_or(stakes_paused), false) FROM agent_venue)
        """,
    ),
)
"""Views of one number each, and the query for the same numbers."""


async def _sums(snapshot: Snapshot) -> None:
    """Compare the contracts' sums with the tables'. The node is asked first: it may have let go of the block by the
    time the tables are summed."""
    for role, names, query in SUMS:
        if role in snapshot.contracts:
            answers = await snapshot.read(*(snapshot.contracts[role].call(name) for name in names))
            for name, ours, answer in zip(names, await snapshot.row(query), answers, strict=True):
                snapshot.comparison.value(str(role), "", name, ours, answer)


_LIABILITIES = f"""
SELECT coalesce(sum(amount) FILTER (WHERE status = {StakeStatus.OWED_BACK:d}), 0),
  coalesce(sum(amount) FILTER (WHERE status = {StakeStatus.REFUNDED:d} AND refund_reason IS NULL), 0),
  (SELECT coalesce(sum(fees_swept), 0) FROM agent_venue) FROM agent_stake
""".encode()  # noqa: S608
_UNBOOKED = b"""
SELECT coalesce(sum(a.value), 0) FROM token_authorization a WHERE a.chain_id = %s AND a.state = 'paid'
AND a.recipient = %s AND NOT EXISTS (SELECT FROM agent_stake s WHERE s.wallet = a.authorizer AND s.nonce = a.nonce)
"""


async def _liabilities(snapshot: Snapshot) -> None:
    """Compare what the settlement wallet owes by our sums and by its own; check that unbooked money is still there.

    The node is asked first: it may have let go of the block by the time the tables are summed.
    """
    if Role.WALLET not in snapshot.contracts:
        return
    wallet = snapshot.contracts[Role.WALLET]
    calls = [wallet.call("liabilities")]
    if Role.TOKEN in snapshot.contracts:
        calls.append(snapshot.contracts[Role.TOKEN].call("balanceOf", wallet.address))
    stated, *more = await snapshot.read(*calls)
    open_stakes, unpaid, fees = await _owed_of_markets(snapshot)
    late, given_back, swept = await snapshot.row(_LIABILITIES)
    # What was given back of stakes in books leaves `unpaid`, as does every late payment that was sent back.
    ours = (open_stakes, unpaid + int(late) - int(given_back), fees - int(swept))
    snapshot.comparison.value("wallet", "", "liabilities", ours, stated)
    if more and not isinstance(stated, RpcError) and not isinstance(more[0], RpcError):
        values = (snapshot.sources.chain_id, snapshot.sources.contracts[Role.WALLET])
        (unbooked,) = await snapshot.row(_UNBOOKED, values)
        # Money that is sent to the contract in another way adds to what is there.
        left = more[0] - sum(stated)
        snapshot.comparison.value("wallet", "", "unbooked money is there", left >= int(unbooked), True)


async def _owed_of_markets(snapshot: Snapshot) -> tuple[int, int, int]:
    """Sum the stakes of open markets, what settled ones have not paid, and fees: all in one snapshot, a few markets at
    a time."""
    open_stakes = unpaid = fees = 0
    after = None
    while rows := await rows_after(snapshot.connection, agent.MARKET, ("index",), after, BOOKS_AT_ONCE):
        books = await _books(snapshot, rows)
        for row in rows:
            book = books[row.market_id]
            if row.status == AgentMarketStatus.OPEN:
                open_stakes += row.staked
            elif book.refunds(row.winner):
                unpaid += row.staked
            else:
                fees += row.staked - row.net_pool
                if row.paid_shares == book.shares[row.winner]:
                    fees += row.net_pool - row.paid_out  # every winner is paid: the dust has no owner
                else:
                    unpaid += row.net_pool - row.paid_out
        after = [rows[-1].index]
    return open_stakes, unpaid, fees


# ---------------------------------------------------------------- agent markets and stakes


async def _books(snapshot: Snapshot, markets: list[Any]) -> dict[bytes, Book]:
    keys = [(each.market_id,) for each in markets]
    outcomes: dict[bytes, list[Any]] = {row.market_id: [] for row in markets}
    rows = await rows_by_key(snapshot.connection, agent.OUTCOME, ("market_id",), keys)
    for row in sorted(rows, key=lambda each: each.outcome):
        outcomes[row.market_id].append(row)
    return {row.market_id: Book.from_rows(row, outcomes[row.market_id]) for row in markets}


async def _agent_markets(snapshot: Snapshot, rows: list[Any]) -> list[View]:
    books = await _books(snapshot, rows)
    return [view for row in rows for view in _agent_market(row, books[row.market_id])]


def _agent_market(row: Any, book: Book) -> Iterator[View]:
    """Compare one market, its outcomes and its terms."""
    key = hex_of(row.market_id)
    ours = {
        **as_view_fields(row, "index", "status", "outcomes", "opensAt", "closesAt", "feeBps", "potCap", "weights"),
        "winner": row.winner or 0,
        "refunding": row.status != AgentMarketStatus.OPEN and book.refunds(row.winner),
        "stakes": row.stakes + row.late_payments,
        **as_view_fields(row, "staked", "netPool", "paidShares", "paidOut"),
    }
    yield View("agent market", key, Role.WALLET, "market", (row.market_id,), ours)
    for outcome in range(row.outcomes):
        ours_book = {
            "net": book.net[outcome],
            "shares": book.shares[outcome],
            "excess": book.excess[outcome],
            "weight": book.weight(outcome),
            "price": book.price(outcome),
        }
        arguments = (row.market_id, outcome)
        yield View("outcome book", f"{key}/{outcome}", Role.WALLET, "outcomeBook", arguments, ours_book)
    terms = ("kind", "feed", "earlyResolvable", "published", "maxAge", "target", "bounds")
    moments = ("startAt", "endsAt", "earlyFrom", "settlesAfter", "voidsAfter")
    stated = as_view_fields(row, *terms, *moments)
    yield View("agent terms", key, Role.AGENT_RESOLVER, "terms", (row.market_id,), stated)


async def _stakes(snapshot: Snapshot, rows: list[Any]) -> list[View]:
    """Build the views to compare stakes with, of any markets: the contract numbers stakes by market and order of
    payment."""
    ids = sorted({row.market_id for row in rows})
    market_rows = await rows_by_key(snapshot.connection, agent.MARKET, ("market_id",), [(each,) for each in ids])
    markets = {row.market_id: row for row in market_rows}
    books = await _books(snapshot, market_rows)
    booked = [
        BookedStake(r.stake_id, r.wallet, r.nonce, r.amount, r.staked_block, r.staked_log_index, r.staked_tx)
        for r in rows
    ]
    unpaid = set(await unpaid_stakes(snapshot.connection, snapshot.sources, booked))
    for row in rows:
        snapshot.comparison.value("stake", row.stake_id, "paid", True, row.stake_id not in unpaid)
    return [view for row in rows for view in _stake(row, markets[row.market_id], books[row.market_id])]


def _stake(row: Any, market: Any, book: Book) -> Iterator[View]:
    payable = row.amount if row.status == StakeStatus.OWED_BACK else 0
    if row.status == StakeStatus.IN_BOOK and market.status != AgentMarketStatus.OPEN:
        payable = book.owed(market.winner, row.outcome, row.amount, row.shares)
    ours = {**as_view_fields(row, "marketId", "wallet", "status", "amount", "fee", "shares"), "payable_": payable}
    if row.outcome is not None:
        ours["outcome"] = row.outcome
    yield View("stake", row.stake_id, Role.WALLET, "stake", (row.stake_id,), ours)
    # The receive form needs no record: nothing but the contract itself can take such a payment.
    is_booked = not is_marked(row.nonce)
    yield View("stake", row.stake_id, Role.WALLET, "booked", (hex_of(row.wallet), row.nonce), is_booked)


# ---------------------------------------------------------------- stock markets and positions


async def _stock_markets(snapshot: Snapshot, rows: list[Any]) -> list[View]:
    return [view for row in rows for view in _stock_market(row, snapshot.now)]


def _stock_market(row: Any, now: Moment) -> Iterator[View]:
    market, key = market_of(row), (row.market_id,)
    shown = market_view(market, now)
    chosen = ("opener", "resolver", "freezeTime", "voidDelay", "feeBps", "kappa", "seedPerLeg", "minEntry", "maxEntry")
    ours = {
        **as_view_fields(market.terms, *chosen, "sideCap"),
        "status": _status(market),
        "vintageBlock": row.pending_vintage or 0,
        **as_view_fields(row, "vintages", "positions"),
        "pool": shown.pool,
        **as_view_fields(market, "distributed", "unpaidPrincipal"),
    }
    yield View("market", row.market_id, Role.SETTLER, "market", key, ours)
    totals = ("principal", "acc", "capacity", "vested", "demand", "live")
    books = [as_view_fields(book, *totals) for book in shown.books]
    yield View("book", row.market_id, Role.SETTLER, "books", key, books)
    yield View("headroom", row.market_id, Role.SETTLER, "headroom", key, shown.headroom)
    if row.stock_token is not None:
        settled_by = ("marketId", "feed", "stockToken", "strikeTime", "finalTime", "maxStrikeAge", "maxFinalAge")
        yield View("spec", row.market_id, Role.RESOLVER, "spec", key, as_view_fields(row, *settled_by))


def _status(market: VestedMarket) -> StockMarketStatus:
    if market.voided:
        return StockMarketStatus.VOID
    return {None: StockMarketStatus.OPEN, UP: StockMarketStatus.UP, DOWN: StockMarketStatus.DOWN}[market.winner]


async def _positions(snapshot: Snapshot, rows: list[Any]) -> list[View]:
    ids = sorted({row.market_id for row in rows})
    market_rows = await rows_by_key(snapshot.connection, stock.MARKET, ("market_id",), [(each,) for each in ids])
    markets = {row.market_id: market_of(row) for row in market_rows}
    vintage_keys = {(row.market_id, row.vintage) for row in rows}
    vintage_rows = await rows_by_key(snapshot.connection, stock.VINTAGE, ("market_id", "vintage"), sorted(vintage_keys))
    vintages = {(row.market_id, row.vintage): vintage_of(row) for row in vintage_rows}
    views: list[View] = []
    for row in rows:
        position, vintage = position_of(row), vintages[row.market_id, row.vintage]
        views += _position(position, position_view(markets[row.market_id], position, vintage, snapshot.now))
    return views


def _position(position: Position, shown: PositionView) -> Iterator[View]:
    due, key = shown.settlement, (position.position_id,)
    ours = {
        **as_view_fields(position, "owner", "marketId", "outcome", "offered"),
        "accepted": shown.accepted or 0,
        "refused": shown.refused,
        "vintage": position.vintage,
        "entryAcc": shown.entry_acc or 0,
        "seed": position.seed,
        "finalized": shown.accepted is not None,
    }
    # The contract also flags a position as claimed and refunded when there was nothing of that kind to send.
    if due.gross:
        ours["claimed"] = position.claimed
    if due.refund:
        ours["refunded"] = position.refunded
    yield View("position", position.position_id, Role.SETTLER, "position", key, ours)
    yield View("accrued", position.position_id, Role.SETTLER, "accrued", key, shown.accrued)
    all_due = (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
    yield View("settlement", position.position_id, Role.SETTLER, "settlement", key, all_due)
