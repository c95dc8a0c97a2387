"""The stock side's views: what VestedMarkets, RoundResolver and MarketLister say against the stock tables, whose rows
are what their logs make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from core.contracts.events import Role
from core.contracts.statuses import StockMarketStatus
from core.hexadecimal import hex_of
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import DOWN, UP, Moment, Position, VestedMarket
from core.stock.vested_views import PositionView, market_view, position_view
from indexer.audit.compare import under_names
from indexer.audit.pages import AuditStage, Scene, View, compare_views, of_rows, whole
from indexer.fold import stock
from indexer.fold.venues import STOCK_FEED, STOCK_OPENER
from indexer.store.tables import all_rows, rows_by_key

_VENUE = b"""
SELECT (SELECT count(*) FROM stock_market),
  (SELECT coalesce(bool_or(entries_paused), false) FROM stock_venue),
  (SELECT coalesce(sum(fees), 0) FROM stock_market) - (SELECT coalesce(sum(fees_swept), 0) FROM stock_venue),
  -- all that came in, less all that went out
  (SELECT coalesce(sum(offered), 0) FROM stock_position)
    - (SELECT coalesce(sum(paid + refunded + residue_claimed), 0) FROM stock_market)
    - (SELECT coalesce(sum(fees_swept), 0) FROM stock_venue)
"""
# What views tell under our own names.
_FEED = ("stockToken", "ticker", "maxStrikeAge", "maxFinalAge", "sideCap", "allowed")
_SPEC = ("marketId", "feed", "stockToken", "strikeTime", "finalTime", "maxStrikeAge", "maxFinalAge")
_TERMS = (
    *("opener", "resolver", "freezeTime", "voidDelay", "feeBps", "kappa", "seedPerLeg", "minEntry", "maxEntry"),
    "sideCap",
)
_BOOK = ("principal", "acc", "capacity", "vested", "demand", "live")


def stages() -> list[AuditStage]:
    return [
        whole("stock venue", _venue, of_views=True),
        whole("stock lister", _listing, of_views=True),
        of_rows("stock markets", stock.MARKET, "market_id", _markets),
        of_rows("stock positions", stock.POSITION, "position_id", _positions),
    ]


async def _venue(scene: Scene) -> None:
    """The node is asked first: it may have let go of the block by the time the tables are summed."""
    settler = scene.contracts[Role.SETTLER]
    names = ("marketCount", "entriesPaused", "feesAccrued", "liabilities")
    answers = await scene.read(*(settler.call(name) for name in names))
    for name, value, answer in zip(names, await scene.row(_VENUE), answers, strict=True):
        scene.comparison.value("venue", "", name, value, answer)


async def _listing(scene: Scene) -> None:
    """Compare what the lister counts, and what it says of openers and feeds."""
    (listed,) = await scene.row(b"SELECT count(*) FROM stock_market WHERE ticker IS NOT NULL")
    views = [View("lister", "", Role.LISTER, "listingCount", (), listed)]
    openers = await all_rows(scene.connection, STOCK_OPENER)
    views += [View("opener", r.opener, Role.LISTER, "isOpener", (hex_of(r.opener),), r.allowed) for r in openers]
    for row in await all_rows(scene.connection, STOCK_FEED):
        ours = under_names(row, *_FEED)
        views.append(View("stock feed", row.feed, Role.LISTER, "feed", (hex_of(row.feed),), ours))
    await compare_views(scene, views)


async def _markets(scene: Scene, rows: list[Any]) -> list[View]:
    return [view for row in rows for view in _market(row, scene.now)]


def _market(row: Any, now: Moment) -> Iterator[View]:
    market, key = market_of(row), (row.market_id,)
    shown = market_view(market, now)
    ours = {
        **under_names(market.terms, *_TERMS),
        "status": _status(market),
        "vintageBlock": row.pending_vintage or 0,
        **under_names(row, "vintages", "positions"),
        **under_names(shown, "pool", "distributed", "unpaidPrincipal"),
    }
    yield View("market", row.market_id, Role.SETTLER, "market", key, ours)
    books = [under_names(book, *_BOOK) for book in shown.books]
    yield View("book", row.market_id, Role.SETTLER, "books", key, books)
    yield View("headroom", row.market_id, Role.SETTLER, "headroom", key, shown.headroom)
    if row.stock_token is not None:
        yield View("spec", row.market_id, Role.RESOLVER, "spec", key, under_names(row, *_SPEC))


def _status(market: VestedMarket) -> StockMarketStatus:
    if market.voided:
        return StockMarketStatus.VOID
    return {None: StockMarketStatus.OPEN, UP: StockMarketStatus.UP, DOWN: StockMarketStatus.DOWN}[market.winner]


async def _positions(scene: Scene, rows: list[Any]) -> list[View]:
    ids = sorted({row.market_id for row in rows})
    market_rows = await rows_by_key(scene.connection, stock.MARKET, ("market_id",), [(each,) for each in ids])
    markets = {row.market_id: market_of(row) for row in market_rows}
    needed = {(row.market_id, row.vintage) for row in rows}
    vintage_rows = await rows_by_key(scene.connection, stock.VINTAGE, ("market_id", "vintage"), sorted(needed))
    vintages = {(row.market_id, row.vintage): vintage_of(row) for row in vintage_rows}
    views: list[View] = []
    for row in rows:
        position, vintage = position_of(row), vintages[row.market_id, row.vintage]
        views += _position(position, position_view(markets[row.market_id], position, vintage, scene.now))
    return views


def _position(position: Position, shown: PositionView) -> Iterator[View]:
    due, key = shown.settlement, (position.position_id,)
    ours = {
        **under_names(position, "owner", "marketId", "outcome", "offered"),
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
