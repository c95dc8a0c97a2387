"""Settles paper markets with the results of their agent markets: winners split the pool, or stakes are refunded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from core.chain.heads import final_block
from core.contracts.statuses import AgentMarketStatus
from core.cup import board, books, ledger
from core.cup.ledger import market_account
from core.db.engine import Connection

_DUE = (
    # Each market with the block that ended it; if its listing was undone, the first block at or past its close.
    "SELECT c.slug, a.winner, i.number, i.finalized_number, CASE WHEN a.market_id IS NOT NULL THEN a.closed_block"  # noqa: S608
    " ELSE (SELECT min(b.number) FROM chain_block b"
    " WHERE b.chain_id = i.chain_id AND to_timestamp(b.timestamp) >= c.closes_at) END "
    "FROM cup_market c CROSS JOIN chain_cursor i LEFT JOIN agent_market a ON a.market_id = c.market_key "
    f"WHERE c.status = 'open' AND a.status IS DISTINCT FROM {AgentMarketStatus.OPEN:d}"
    " AND i.chain_id = %s AND i.state = 'tail' ORDER BY c.slug"
)


async def due(connection: Connection, chain_id: int, finality_blocks: int) -> list[tuple[str, int | None]]:
    """Return the slug and winner of each open paper market whose agent market has a final result. The winner is None if
    the market is void.

    Paper payouts are never undone, so a market waits until no reorganization can change its result. A market is also
    void if its close has passed, its listing was undone, and no final block has listed it again: such a market will
    never have a result.

    finality_blocks: the depth at which a block is final if the node reports no finalized block.
    """
    return [
        (slug, winner)
        for slug, winner, indexed, finalized, ended in await connection.fetch_all(_DUE, (chain_id,))
        if ended is not None and ended <= final_block(indexed, finalized, finality_blocks)
    ]


async def settle(connection: Connection, slug: str, winner: int | None, clock: Callable[[], datetime]) -> int | None:
    """Pay all positions of a market, which is void if `winner` is None. Return the number of positions, or None if the
    market was settled before.

    Payouts are rounded down, and the remainder of the pool goes back to the mint. The clock is read after everything is
    locked. So the result counts for the week in which it is paid, even if locking began in an earlier week.
    """
    async with connection.transaction():
        market = await books.find(connection, slug, lock=True)
        if market.status != "open":
            return None
        book = market.book
        refunds = book.refunds(winner)
        rows: list[tuple[str, int, int, int]] = await connection.fetch_all(
            "SELECT wallet, outcome, cost_cents, shares_cents FROM cup_position WHERE slug = %s", (slug,)
        )
        paid: dict[str, int] = {}
        pool: dict[str, tuple[int, int]] = {}
        gains: dict[str, int] = {}
        results: list[tuple[str, int, str, int]] = []
        for wallet, outcome, cost, shares in rows:
            owed = book.owed(winner, outcome, cost, shares)
            paid[wallet] = paid.get(wallet, 0) + owed
            if not refunds:
                staked, got = pool.get(wallet, (0, 0))
                pool[wallet] = (staked + cost, got + owed)
            results.append((wallet, outcome, _status(refunds, outcome == winner), owed))
        if rows:
            await ledger.pay_out(connection, "market", slug, market_account(slug), book.net_pool, paid)
            wallets, outcomes, statuses, amounts = (list(column) for column in zip(*results, strict=True))
            await connection.execute(
                "UPDATE cup_position p SET status = u.s, paid_cents = u.c "
                "FROM unnest(%s::text[], %s::int[], %s::text[], %s::bigint[]) AS u(w, o, s, c) "
                "WHERE p.slug = %s AND p.wallet = u.w AND p.outcome = u.o",
                (wallets, outcomes, statuses, amounts, slug),
            )
        if pool:
            first: list[tuple[str, datetime]] = await connection.fetch_all(
                "SELECT wallet, min(at) FROM cup_trade WHERE slug = %s GROUP BY wallet", (slug,)
            )
            gains = board.score_changes([pool], await board.find_seasoned(connection, [pool], dict(first)))
        now = clock()
        await board.record(connection, gains, now)
        await connection.execute(
            "UPDATE cup_market SET status = %s, winner = %s, settled_at = %s WHERE slug = %s",
            ("void" if winner is None else "resolved", winner, now, slug),
        )
    return len(rows)


def _status(refunds: bool, won: bool) -> str:
    if refunds:
        return "refunded"
    return "won" if won else "lost"
