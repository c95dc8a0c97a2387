"""Compares rows with the contracts' own views, after the rows were found to agree with their logs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from core.agent.bet import is_marked
from core.agent.book import Book
from core.chain import Contract
from core.chain.errors import RpcError, RpcErrorKind
from core.contracts.abi import abi
from core.contracts.events import Role
from core.contracts.names import camel_fields
from core.contracts.statuses import AgentMarketStatus, StakeStatus, StockMarketStatus
from core.feeds.grid import grid_time
from core.hexadecimal import hex_of
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import DOWN, UP, Moment, Position, PositionView, VestedMarket, market_view, position_view
from indexer.audit.rows import AuditStage, Place, Snapshot
from indexer.fold import agent, stock
from indexer.fold.rows import RowKind
from indexer.fold.venues import AGENT_FEED, AGENT_ROLE, AGENT_VENUE, GUARDIAN, LISTER, STOCK_FEED, STOCK_OPENER
from indexer.store.payments import BookedStake, unpaid_stakes
from indexer.store.tables import rows_after, rows_by_key

ADDRESS_BYTES = 20
ROWS_AT_ONCE = 250
BOOKS_AT_ONCE = 1_000
MARKETS_AT_ONCE = 500
RECENT_STEPS = 1_440


class View(NamedTuple):
    """The result that a contract's view must return. `ours` is a mapping of the result's fields by name, a list of such
    mappings, or the plain result."""

    what: str
    key: object
    contract: Role | Contract
    function: str
    arguments: tuple[Any, ...]
    ours: Any


def stages() -> list[AuditStage]:
    return [
        _small_table(STOCK_OPENER, Role.LISTER, "isOpener", "opener"),
        _small_table(STOCK_FEED, Role.LISTER, "feed", "feed", fields=_STOCK_FEED),
        _small_table(AGENT_ROLE, Role.AGENT_LISTER, "isLister", "account", chosen=lambda row: row.role == LISTER),
        _small_table(AGENT_ROLE, Role.WALLET, "hasRole", "role account", chosen=lambda row: row.role != LISTER),
        _small_table(AGENT_FEED, Role.AGENT_LISTER, "feed", "feed", fields=_AGENT_FEED),
        _small_table(AGENT_VENUE, Role.AGENT_LISTER, "bounds", fields=_AGENT_BOUNDS),
        _small_table(GUARDIAN, Role.PAUSER, "isGuardian", "account"),
        AuditStage("sums", _sums, only_if_equal=True),
        _rows("stock markets", stock.MARKET, ("market_id",), Role.SETTLER, _stock_markets),
        _rows("stock positions", stock.POSITION, ("position_id",), Role.SETTLER, _positions),
        _rows("agent markets", agent.MARKET, ("index",), Role.WALLET, _agent_markets),
        _rows("agent stakes", agent.STAKE, ("stake_id",), Role.WALLET, _stakes),
        AuditStage("agent liabilities", _liabilities, only_if_equal=True),
        AuditStage("readings of pool feeds", _readings, only_if_equal=True),
        AuditStage("unrecorded readings", _unrecorded_readings, only_if_equal=True),
    ]


_STOCK_FEED = "stockToken ticker maxStrikeAge maxFinalAge sideCap allowed"
_AGENT_BOUNDS = "feeBps minWeight maxWeight disputeWindow voidDelay"
_AGENT_FEED = "allowed condemned published memory_ maxAge lag potCap step feedCap"


def _rows(
    name: str,
    kind: RowKind,
    key: tuple[str, ...],
    role: Role,
    views: Callable[[Snapshot, list[Any]], Awaitable[list[View]]],
) -> AuditStage:
    """Return a stage that compares a table's rows, in the order of an indexed key, with the contract's views. The stage
    does nothing on a chain without the contract."""

    async def page(snapshot: Snapshot, after: Place | None) -> Place | None:
        if role not in snapshot.contracts:
            return None
        rows = await rows_after(snapshot.connection, kind, key, after, ROWS_AT_ONCE)
        if not rows:
            return None
        await _compare(snapshot, await views(snapshot, rows))
        return [getattr(rows[-1], each) for each in key]

    return AuditStage(name, page, only_if_equal=True)


async def _compare(snapshot: Snapshot, views: Iterable[View]) -> None:
    """Read and compare the views of the contracts that exist on the chain."""
    asked = [
        (view, contract)
        for view in views
        if (contract := snapshot.contracts.get(view.contract) if isinstance(view.contract, Role) else view.contract)
    ]
    answers = await snapshot.read(*(contract.call(view.function, *view.arguments) for view, contract in asked))
    for (view, _), answer in zip(asked, answers, strict=True):
        if isinstance(view.ours, Mapping):
            snapshot.comparison.fields(view.what, view.key, view.ours, answer)
        elif isinstance(view.ours, list):
            for at, ours in enumerate(view.ours):
                part = answer if isinstance(answer, RpcError) else answer[at]
                snapshot.comparison.fields(view.what, f"{view.key}/{at}", ours, part)
        else:
            snapshot.comparison.value(view.what, view.key, view.function, view.ours, answer)


def as_view_fields(row: Any, *names: str) -> dict[str, Any]:
    """Return a row's columns under the names that the contracts' views use, with the types of decoded results."""
    return {name: as_view_value(value) for name, value in camel_fields(row, *names).items()}


def as_view_value(value: Any) -> Any:
    if isinstance(value, bytes) and len(value) == ADDRESS_BYTES:
        return hex_of(value)
    return [int(each) for each in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- small tables


def _small_table(
    kind: RowKind,
    role: Role,
    function: str,
    arguments: str = "",
    *,
    fields: str = "",
    chosen: Callable[[Any], bool] = lambda _row: True,
) -> AuditStage:
    """Return a stage that compares a small table's rows with a view. The view takes the columns in `arguments`. It
    returns the columns in `fields`, under the view's own names, or just the column `allowed`."""
    name = kind.table.name

    async def views(snapshot: Snapshot, rows: list[Any]) -> list[View]:
        chain_id, views = snapshot.sources.chain_id, []
        for row in rows:
            # One database may hold the rows of both chains.
            if chosen(row) and getattr(row, "chain_id", chain_id) == chain_id:
                key = tuple(getattr(row, column) for column in arguments.split())
                ours = as_view_fields(row, *fields.split()) if fields else row.allowed
                views.append(View(name, key, role, function, tuple(map(as_view_value, key)), ours))
        return views

    return _rows(name, kind, kind.key, role, views)


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


async def _sums(snapshot: Snapshot, _after: Place | None) -> None:
    """Compare the contracts' sums with the tables' sums. The node is read before the tables are summed, because
    afterwards it may no longer have the block."""
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


async def _liabilities(snapshot: Snapshot, _after: Place | None) -> None:
    """Compare the settlement wallet's own sums with its debts in our rows, and check that it still holds the unbooked
    money. The node is read before the tables are summed, because afterwards it may no longer have the block."""
    if Role.WALLET not in snapshot.contracts:
        return
    wallet = snapshot.contracts[Role.WALLET]
    calls = [wallet.call("liabilities")]
    if Role.TOKEN in snapshot.contracts:
        calls.append(snapshot.contracts[Role.TOKEN].call("balanceOf", wallet.address))
    stated, *more = await snapshot.read(*calls)
    open_stakes, unpaid, fees = await _owed_of_markets(snapshot)
    late, given_back, swept = await snapshot.row(_LIABILITIES)
    # Refunds of stakes in books reduce `unpaid`; a refunded late payment is no longer owed.
    ours = (open_stakes, unpaid + int(late) - int(given_back), fees - int(swept))
    snapshot.comparison.value("wallet", "", "liabilities", ours, stated)
    if more and not isinstance(stated, RpcError) and not isinstance(more[0], RpcError):
        values = (snapshot.sources.chain_id, snapshot.sources.contracts[Role.WALLET])
        (unbooked,) = await snapshot.row(_UNBOOKED, values)
        # Plain transfers to the contract may add to the unbooked money.
        left = more[0] - sum(stated)
        snapshot.comparison.value("wallet", "", "unbooked money is there", left >= int(unbooked), True)


async def _owed_of_markets(snapshot: Snapshot) -> tuple[int, int, int]:
    """Return three sums: the stakes of open markets, the unpaid amounts of settled markets, and the fees."""
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
                    fees += row.net_pool - row.paid_out  # every winner is paid, so the rounding remainder is a fee
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
    """Check that the stakes were paid, and return the views to compare with the stakes."""
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
    # The contract does not record payments of the receive form, because only the contract itself can take them.
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
    # The contract also flags a position as claimed or refunded if there was nothing to send.
    if due.gross:
        ours["claimed"] = position.claimed
    if due.refund:
        ours["refunded"] = position.refunded
    yield View("position", position.position_id, Role.SETTLER, "position", key, ours)
    yield View("accrued", position.position_id, Role.SETTLER, "accrued", key, shown.accrued)
    all_due = (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
    yield View("settlement", position.position_id, Role.SETTLER, "settlement", key, all_due)


# ---------------------------------------------------------------- pool feeds


# A reading's measure is the log directly after its round. A round without a measure has no quality, a mismatch.
_READINGS = b"""
SELECT r.block_number, r.log_index, r.feed, m.quality, r.round_id, r.answer, r.updated_at FROM oracle_round r
LEFT JOIN oracle_measure m
ON m.chain_id = r.chain_id AND m.block_number = r.block_number AND m.log_index = r.log_index + 1 AND m.feed = r.feed
WHERE r.chain_id = %s AND (r.block_number, r.log_index) > (%s, %s) ORDER BY r.block_number, r.log_index LIMIT %s
"""
_MOMENTS = b"SELECT index, feed, start_at, ends_at FROM agent_market WHERE index > %s ORDER BY index LIMIT %s"
_KNOWN = b"SELECT updated_at FROM oracle_round WHERE chain_id = %s AND feed = %s AND updated_at = ANY(%s)"
_NEWEST = b"SELECT coalesce(max(round_id), 0) FROM oracle_measure WHERE chain_id = %s AND feed = %s"


def _pool_feed(feed: bytes) -> Contract:
    return Contract(hex_of(feed), abi("PoolFeed"))


async def _readings(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Compare the stored readings of pool feeds with the feeds. Rounds of other feeds exist only as logs."""
    chain_id, views = snapshot.sources.chain_id, []
    rows = await snapshot.connection.fetch_all(_READINGS, (chain_id, *(after or (-1, -1)), ROWS_AT_ONCE))
    for _, _, feed, quality, *numbers in rows:
        round_id, answer, at = map(int, numbers)
        if feed in snapshot.sources.steps:
            key, contract = f"{hex_of(feed)}/{round_id}", _pool_feed(feed)
            data = (round_id, answer, at, at, round_id)
            views.append(View("reading", key, contract, "getRoundData", (round_id,), data))
            views.append(View("reading", key, contract, "qualityOf", (at,), quality))
    await _compare(snapshot, views)
    return [*rows[-1][:2]] if rows else None


async def _unrecorded_readings(snapshot: Snapshot, after: Place | None) -> Place | None:
    """Look for readings that are missing from the tables: the newest reading of each pool feed, the readings of the
    last day, and the readings that decide markets. A feed has no count of its readings, so there is no total to
    compare."""
    chain_id, steps, now = snapshot.sources.chain_id, snapshot.sources.steps, snapshot.now.timestamp
    if not steps:
        return None
    markets = await snapshot.connection.fetch_all(_MOMENTS, ((after or [0])[0], MARKETS_AT_ONCE))
    for feed, step in sorted(steps.items()):
        times = {
            grid_time(at, step) for _, of, *moments in markets if bytes(of) == feed for at in moments if 0 < at < now
        }
        if after is None:
            await _newest_reading(snapshot, feed)
            newest = grid_time(now - 1, step)
            times |= {newest - n * step for n in range(RECENT_STEPS)}
        known = {at for (at,) in await snapshot.connection.fetch_all(_KNOWN, (chain_id, feed, list(times)))}
        unknown = sorted(at for at in times - known if at > 0)
        qualities = await snapshot.read(*(_pool_feed(feed).call("qualityOf", at) for at in unknown))
        for at, quality in zip(unknown, qualities, strict=True):
            snapshot.comparison.value("reading", f"{hex_of(feed)}/{at // step}", "quality", 0, quality)
    return [markets[-1][0]] if markets else None


async def _newest_reading(snapshot: Snapshot, feed: bytes) -> None:
    (ours,) = await snapshot.row(_NEWEST, (snapshot.sources.chain_id, feed))
    (answer,) = await snapshot.read(_pool_feed(feed).call("latestRoundData"))
    if isinstance(answer, RpcError) and answer.kind is RpcErrorKind.REVERTED:
        answer = (0,)  # there is none yet
    newest = answer if isinstance(answer, RpcError) else answer[0]
    snapshot.comparison.value("pool feed", feed, "newest round", int(ours), newest)
