"""The stock side's audit: VestedMarkets, RoundResolver and MarketLister against the stock tables."""

from __future__ import annotations

from typing import Any

from core.addresses import address_text
from core.chain import ChainClient, Contract
from core.contracts.events import Role
from core.stock.projection import market_of, position_of, vintage_of
from core.stock.vested import SEED, Moment, Position, VestedMarket, Vintage
from core.stock.vested_views import market_view, position_view
from indexer.audit.compare import Comparison
from indexer.fold import stock
from indexer.fold.venues import STOCK_FEED, STOCK_OPENER
from indexer.sources import Sources
from indexer.store.tables import Connection, all_rows, rows_by_key

MARKETS_AT_ONCE = 50
POSITIONS_AT_ONCE = 500
NOBODY = address_text(bytes(20))


async def audit_stock(
    connection: Connection,
    client: ChainClient,
    contracts: dict[Role, Contract],
    sources: Sources,
    block: str,
    now: Moment,
    comparison: Comparison,
) -> None:
    """`block` is the cursor's hash, `now` what contracts see in it."""
    settler = contracts[Role.SETTLER]
    await _venue(connection, client, settler, block, comparison)
    ids = await (await connection.execute("SELECT market_id FROM stock_market ORDER BY market_id")).fetchall()
    for at in range(0, len(ids), MARKETS_AT_ONCE):
        rows = await rows_by_key(connection, stock.MARKET, ("market_id",), ids[at : at + MARKETS_AT_ONCE])
        await _markets(client, settler, rows, block, now, comparison)
        if Role.RESOLVER in contracts:
            await _specs(client, contracts[Role.RESOLVER], rows, block, comparison)
        for row in rows:
            await _positions(connection, client, settler, row, block, now, comparison)
    if Role.LISTER in contracts:
        await _listing(connection, client, contracts[Role.LISTER], block, comparison)


async def _venue(
    connection: Connection, client: ChainClient, settler: Contract, block: str, comparison: Comparison
) -> None:
    markets = await _number(connection, "SELECT count(*) FROM stock_market")
    paused = await _number(connection, "SELECT count(*) FROM stock_venue WHERE entries_paused")
    swept = await _number(connection, "SELECT coalesce(sum(fees_swept), 0) FROM stock_venue")
    fees = await _number(connection, "SELECT coalesce(sum(fees), 0) FROM stock_market")
    # All that came in, less all that went out.
    came = await _number(connection, "SELECT coalesce(sum(offered), 0) FROM stock_position")
    went = await _number(connection, "SELECT coalesce(sum(paid + refunded + residue_claimed), 0) FROM stock_market")
    ours = {
        "marketCount": markets,
        "entriesPaused": bool(paused),
        "feesAccrued": fees - swept,
        "liabilities": came - went - swept,
    }
    answers = await client.read_many([settler.call(name) for name in ours], block)
    for (name, value), answer in zip(ours.items(), answers, strict=True):
        comparison.value("venue", "", name, value, answer)


async def _listing(
    connection: Connection, client: ChainClient, lister: Contract, block: str, comparison: Comparison
) -> None:
    """What the lister counts, and what it says of openers and feeds. That none of those is missing, `audit_shared`
    sees."""
    listed = await _number(connection, "SELECT count(*) FROM stock_market WHERE ticker IS NOT NULL")
    openers = await all_rows(connection, STOCK_OPENER)
    feeds = await all_rows(connection, STOCK_FEED)
    calls = [lister.call("listingCount")]
    calls += [lister.call("isOpener", address_text(row.opener)) for row in openers]
    calls += [lister.call("feed", address_text(row.feed)) for row in feeds]
    count, *answers = await client.read_many(calls, block)
    comparison.value("lister", "", "listingCount", listed, count)
    for row, answer in zip(openers, answers[: len(openers)], strict=True):
        comparison.value("opener", row.opener, "allowed", row.allowed, answer)
    for row, answer in zip(feeds, answers[len(openers) :], strict=True):
        ours = {
            "stockToken": address_text(row.stock_token),
            "ticker": row.ticker,
            "maxStrikeAge": row.max_strike_age,
            "maxFinalAge": row.max_final_age,
            "allowed": row.allowed,
        }
        comparison.fields("stock feed", row.feed, ours, answer)


async def _markets(
    client: ChainClient, settler: Contract, rows: list[Any], block: str, now: Moment, comparison: Comparison
) -> None:
    calls = [settler.call(name, row.market_id) for row in rows for name in ("market", "books", "headroom")]
    answers = await client.read_many(calls, block)
    for position, row in enumerate(rows):
        market_answer, books_answer, headroom_answer = answers[3 * position : 3 * position + 3]
        market = market_of(row)
        view = market_view(market, now)
        terms = market.terms
        comparison.fields(
            "market",
            row.market_id,
            {
                "opener": address_text(terms.opener),
                "resolver": address_text(terms.resolver),
                "freezeTime": terms.freeze_time,
                "voidDelay": terms.void_delay,
                "feeBps": terms.fee_bps,
                "kappa": terms.kappa,
                "seedPerLeg": terms.seed_per_leg,
                "minEntry": terms.min_entry,
                "maxEntry": terms.max_entry,
                "status": _status(market),
                "vintageBlock": row.pending_vintage or 0,
                "vintages": row.vintages,
                "positions": row.positions,
                "pool": view.pool,
                "distributed": view.distributed,
                "unpaidPrincipal": view.unpaid_principal,
            },
            market_answer,
        )
        for side, book in enumerate(view.books):
            ours = {name: getattr(book, name) for name in ("principal", "acc", "capacity", "vested", "demand", "live")}
            answer = books_answer[side] if isinstance(books_answer, list | tuple) else books_answer
            comparison.fields("book", f"{row.market_id}/{side}", ours, answer)
        comparison.value("headroom", row.market_id, "both", view.headroom, headroom_answer)


async def _specs(client: ChainClient, resolver: Contract, rows: list[Any], block: str, comparison: Comparison) -> None:
    registered = [row for row in rows if row.stock_token is not None]
    answers = await client.read_many([resolver.call("spec", row.market_id) for row in registered], block)
    for row, answer in zip(registered, answers, strict=True):
        comparison.fields(
            "spec",
            row.market_id,
            {
                "marketId": row.market_id,
                "feed": address_text(row.feed),
                "stockToken": address_text(row.stock_token),
                "strikeTime": row.strike_time,
                "finalTime": row.final_time,
                "maxStrikeAge": row.max_strike_age,
                "maxFinalAge": row.max_final_age,
            },
            answer,
        )


async def _positions(
    connection: Connection,
    client: ChainClient,
    settler: Contract,
    market_row: Any,
    block: str,
    now: Moment,
    comparison: Comparison,
) -> None:
    market, key = market_of(market_row), [(market_row.market_id,)]
    vintages = {
        row.vintage: vintage_of(row) for row in await rows_by_key(connection, stock.VINTAGE, ("market_id",), key)
    }
    rows = await rows_by_key(connection, stock.POSITION, ("market_id",), key)
    # `_markets` holds both counters to the contract's.
    comparison.value("market", market_row.market_id, "vintage rows", len(vintages), market_row.vintages + 1)
    comparison.value("market", market_row.market_id, "position rows", len(rows), market_row.positions)
    _check_order(rows, comparison)
    needed = {row.vintage for row in rows}
    comparison.keys("vintage", vintages.keys() & needed, needed)
    rows = [row for row in rows if row.vintage in vintages]
    for at in range(0, len(rows), POSITIONS_AT_ONCE):
        some = rows[at : at + POSITIONS_AT_ONCE]
        calls = [settler.call(name, row.position_id) for row in some for name in ("position", "accrued", "settlement")]
        answers = await client.read_many(calls, block)
        for index, row in enumerate(some):
            position = position_of(row)
            _position(market, position, vintages[position.vintage], now, answers[3 * index : 3 * index + 3], comparison)


def _check_order(rows: list[Any], comparison: Comparison) -> None:
    """What was offered ahead of a position shows in no view unless its vintage was rationed, but follows from the ids,
    which count the positions of a side."""
    ahead: dict[tuple[int, int], int] = {}
    for row in sorted(rows, key=lambda row: row.position_id):
        side = row.vintage, row.outcome
        before = 0 if row.vintage == SEED else ahead.get(side, 0)
        comparison.value("position", row.position_id, "offered_before", row.offered_before, before)
        ahead[side] = before + row.offered


def _position(
    market: VestedMarket, position: Position, vintage: Vintage, now: Moment, answers: list[Any], comparison: Comparison
) -> None:
    stated, accrued, settled = answers
    view = position_view(market, position, vintage, now)
    due = view.settlement
    ours = {
        "owner": address_text(position.owner),
        "marketId": position.market_id,
        "outcome": position.outcome,
        "offered": position.offered,
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
    comparison.fields("position", position.position_id, ours, stated)
    comparison.value("accrued", position.position_id, "accrued", view.accrued, accrued)
    ours_due = (due.gross, due.fee, due.net, due.refund, due.total, due.deliverable)
    comparison.value("settlement", position.position_id, "all", ours_due, settled)


def _status(market: VestedMarket) -> int:
    """0 none, 1 open, 2 UP, 3 DOWN, 4 void."""
    if market.voided:
        return 4
    return 1 if market.winner is None else 2 + market.winner


async def _number(connection: Connection, query: str) -> int:
    row = await (await connection.execute(query.encode())).fetchone()
    assert row is not None
    return int(row[0])
