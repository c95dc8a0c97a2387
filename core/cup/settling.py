"""Paper markets end as the markets they mirror, and pay by the same rule: winners split the pool, or stakes go back."""

from __future__ import annotations

from datetime import datetime

from core.contracts.statuses import AgentMarketStatus
from core.cup import board, books, ledger
from core.cup.ledger import Connection, market_account

_DUE = (
    "SELECT c.slug, a.winner FROM cup_market c LEFT JOIN agent_market a ON a.market_id = c.market_key "  # noqa: S608
    f"WHERE c.status = 'open' AND (a.status <> {AgentMarketStatus.OPEN:d} OR a.market_id IS NULL AND c.closes_at <= ("
    # The time of the newest block that is in the tables and that no reorganization takes back.
    "SELECT to_timestamp(max(b.timestamp)) FROM chain_cursor i JOIN chain_block b USING (chain_id) "
    "WHERE i.chain_id = %s AND i.state = 'tail' AND b.number <="
    " CASE WHEN i.finalized_number <= i.number THEN i.finalized_number ELSE i.number - %s END)) "
    "ORDER BY c.slug"
)


async def due(connection: Connection, chain_id: int, finality_blocks: int) -> list[tuple[str, int | None]]:
    """Open paper markets whose agent market ended: slug and winner, None for a void.

    Void, too, is a market past its close whose listing was taken back by a reorganization and, as far as the index
    of `chain_id` is final, did not come again: no result will ever come. `finality_blocks`: where nodes name none.
    """
    cursor = await connection.execute(_DUE, (chain_id, finality_blocks))
    return [(slug, winner) for slug, winner in await cursor.fetchall()]


async def settle(connection: Connection, slug: str, winner: int | None, now: datetime) -> int | None:
    """Pays every position; how many there were, or None when it was settled before. `winner` None: void.

    Payouts are rounded down; the rest of the pool goes back to the mint.
    """
    async with connection.transaction():
        market = await books.find(connection, slug, lock=True)
        if market.status != "open":
            return None
        book = market.book
        refunds = book.refunds(winner)
        cursor = await connection.execute(
            "SELECT wallet, outcome, cost_cents, shares_cents FROM cup_position WHERE slug = %s", (slug,)
        )
        rows: list[tuple[str, int, int, int]] = await cursor.fetchall()
        paid: dict[str, int] = {}
        gains: dict[str, int] = {}
        results: list[tuple[str, int, str, int]] = []
        for wallet, outcome, cost, shares in rows:
            owed = book.owed(winner, outcome, cost, shares)
            paid[wallet] = paid.get(wallet, 0) + owed
            if not refunds:
                gains[wallet] = gains.get(wallet, 0) + owed - cost
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
