"""The stock side's views: what VestedMarkets, RoundResolver and MarketLister say against the stock tables, whose rows
are what their logs make."""

from __future__ import annotations

from typing import Any

from core.contracts.events import Role
from core.hexadecimal import hex_of
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import Position, VestedMarket, Vintage
from core.stock.vested_views import market_view, position_view
from indexer.audit.compare import under_names
from indexer.audit.pages import AuditStage, Place, Scene, whole
from indexer.fold import stock
from indexer.fold.venues import STOCK_FEED, STOCK_OPENER
from indexer.store.tables import all_rows, rows_after, rows_by_key

MARKETS_AT_ONCE = 50
POSITIONS_AT_ONCE = 500

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
        AuditStage("stock markets", _markets_page, of_views=True),
        AuditStage("stock positions", _positions_page, of_views=True),
    ]


# ---------------------------------------------------------------- the venue


async def _venue(scene: Scene) -> None:
    """The node is asked first: it may have let go of the block by the time the tables are summed."""
    settler = scene.contracts[Role.SETTLER]
    names = ("marketCount", "entriesPaused", "feesAccrued", "liabilities")
    answers = await scene.read(*(settler.call(name) for name in names))
    for name, value, answer in zip(names, await scene.row(_VENUE), answers, strict=True):
        scene.comparison.value("venue", "", name, value, answer)


async def _listing(scene: Scene) -> None:
    """What the lister counts, and what it says of openers and feeds."""
    lister = scene.contracts.get(Role.LISTER)
    if lister is None:
        return
    openers = await all_rows(scene.connection, STOCK_OPENER)
    feeds = await all_rows(scene.connection, STOCK_FEED)
    calls = [lister.call("listingCount")]
    calls += [lister.call("isOpener", hex_of(row.opener)) for row in openers]
    calls += [lister.call("feed", hex_of(row.feed)) for row in feeds]
    count, *answers = await scene.read(*calls)
    (listed,) = await scene.row(b"SELECT count(*) FROM stock_market WHERE ticker IS NOT NULL")
    scene.comparison.value("lister", "", "listingCount", listed, count)
    for row, answer in zip(openers, answers[: len(openers)], strict=True):
        scene.comparison.value("opener", row.opener, "allowed", row.allowed, answer)
    for row, answer in zip(feeds, answers[len(openers) :], strict=True):
        scene.comparison.fields("stock feed", row.feed, under_names(row, *_FEED), answer)


# ---------------------------------------------------------------- markets


async def _markets_page(scene: Scene, after: Place | None) -> Place | None:
    rows = await rows_after(scene.connection, stock.MARKET, ("market_id",), after, MARKETS_AT_ONCE)
    if not rows:
        return None
    await _markets(scene, rows)
    await _specs(scene, rows)
    return [rows[-1].market_id]


async def _markets(scene: Scene, rows: list[Any]) -> None:
    settler = scene.contracts[Role.SETTLER]
    names = ("market", "books", "headroom")
    answers = await scene.read(*(settler.call(name, row.market_id) for row in rows for name in names))
    for at, row in enumerate(rows):
        market_answer, books_answer, headroom_answer = answers[3 * at : 3 * at + 3]
        market = market_of(row)
        view = market_view(market, scene.now)
        ours = {
            **under_names(market.terms, *_TERMS),
            "status": _status(market),
            "vintageBlock": row.pending_vintage or 0,
            **under_names(row, "vintages", "positions"),
            **under_names(view, "pool", "distributed", "unpaidPrincipal"),
        }
        scene.comparison.fields("market", row.market_id, ours, market_answer)
        for side, book in enumerate(view.books):
            answer = books_answer[side] if isinstance(books_answer, list | tuple) else books_answer
            scene.comparison.fields("book", f"{row.market_id}/{side}", under_names(book, *_BOOK), answer)
        scene.comparison.value("headroom", row.market_id, "both", view.headroom, headroom_answer)


async def _specs(scene: Scene, rows: list[Any]) -> None:
    resolver = scene.contracts.get(Role.RESOLVER)
    if resolver is None:
        return
    registered = [row for row in rows if row.stock_token is not None]
    answers = await scene.read(*(resolver.call("spec", row.market_id) for row in registered))
    for row, answer in zip(registered, answers, strict=True):
        scene.comparison.fields("spec", row.market_id, under_names(row, *_SPEC), answer)


def _status(market: VestedMarket) -> int:
    """0 none, 1 open, 2 UP, 3 DOWN, 4 void."""
    if market.voided:
        return 4
    return 1 if market.winner is None else 2 + market.winner


# ---------------------------------------------------------------- positions


async def _positions_page(scene: Scene, after: Place | None) -> Place | None:
    """Positions by id: ids go by market and order of entry."""
    rows = await rows_after(scene.connection, stock.POSITION, ("position_id",), after, POSITIONS_AT_ONCE)
    if not rows:
        return None
    ids = sorted({row.market_id for row in rows})
    market_rows = await rows_by_key(scene.connection, stock.MARKET, ("market_id",), [(each,) for each in ids])
    markets = {row.market_id: market_of(row) for row in market_rows}
    needed = {(row.market_id, row.vintage) for row in rows}
    vintage_rows = await rows_by_key(scene.connection, stock.VINTAGE, ("market_id", "vintage"), sorted(needed))
    vintages = {(row.market_id, row.vintage): vintage_of(row) for row in vintage_rows}
    settler = scene.contracts[Role.SETTLER]
    names = ("position", "accrued", "settlement")
    answers = await scene.read(*(settler.call(name, row.position_id) for row in rows for name in names))
    for at, row in enumerate(rows):
        vintage = vintages[row.market_id, row.vintage]
        _position(scene, markets[row.market_id], position_of(row), vintage, answers[3 * at : 3 * at + 3])
    return [rows[-1].position_id]


def _position(scene: Scene, market: VestedMarket, position: Position, vintage: Vintage, answers: list[Any]) -> None:
    stated, accrued, settled = answers
    view = position_view(market, position, vintage, scene.now)
    due = view.settlement
    ours = {
        **under_names(position, "owner", "marketId", "outcome", "offered"),
        "accepted": view.accepted or 0,
        "refused": view.refused,
        "vintage": position.vintage,
        "entryAcc": view.entry_acc or 0,
        "seed": position.seed,
        "finalized": view.accepted is not None,
    }
    # The contract also flags a position as claimed and refunded when there was nothing of that kind to send.
    if due.gross:
        ours["claimed"] = position.claimed
    if due.refund:
        ours["refunded"] = position.refunded
    scene.comparison.fields("position", position.position_id, ours, stated)
    scene.comparison.value("accrued", position.position_id, "accrued", view.accrued, accrued)
    ours_due = (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
    scene.comparison.value("settlement", position.position_id, "all", ours_due, settled)
