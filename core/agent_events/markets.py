"""Markets as events name them, read from the index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from core.agent_events.payloads import Named
from core.market_words import described
from core.mirror.settlement import Book, Kind

Connection = AsyncConnection[TupleRow]

_QUERY = (
    "SELECT m.market_id, m.kind, m.target, m.bounds, m.closes_at, m.document, m.virtual_liquidity, m.fee_bps,"
    " array_agg(o.net ORDER BY o.outcome), array_agg(o.shares ORDER BY o.outcome)"
    " FROM agent_market m JOIN agent_outcome o USING (market_id) WHERE m.market_id = ANY(%s) GROUP BY m.market_id"
)


async def named(connection: Connection, keys: Iterable[bytes]) -> dict[bytes, Named]:
    """By the contract's id; a market the index does not hold is left out."""
    wanted = list(set(keys))
    if not wanted:
        return {}
    rows = await (await connection.execute(_QUERY, (wanted,))).fetchall()
    return {bytes(row[0]): _named(row) for row in rows}


def _named(row: tuple[Any, ...]) -> Named:
    key, kind, target, bounds, closes_at, document, virtual, fee_bps, net, shares = row
    outcomes, texts = described(key, Kind(kind), int(target), tuple(int(b) for b in bounds), closes_at, document)
    book = Book(int(virtual), fee_bps, tuple(int(n) for n in net), tuple(int(s) for s in shares))
    return Named(bytes(key), texts["id"], Kind(kind), outcomes, book)
