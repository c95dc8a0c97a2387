"""What events say about their market, read from the index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from psycopg.rows import namedtuple_row

from core.agent.book import Book
from core.agent.document import Specification, listed_document
from core.agent.words import OutcomeWords
from core.db.engine import Connection
from core.iso import iso


@dataclass(frozen=True, slots=True)
class NoticeMarket:
    """A market with the texts and times that its events carry."""

    key: bytes
    id: str
    spec: Specification
    outcomes: tuple[OutcomeWords, ...]
    book: Book

    @property
    def times(self) -> dict[str, str]:
        """Return when stakes end, the deciding moment and when the market can settle, under the API's names."""
        return {
            "deadlineAt": iso(self.spec.closes_at),
            "endsAt": iso(self.spec.ends_at),
            "settlesAfter": iso(self.spec.settles_after),
        }

    def side(self, outcome: int | None) -> str | None:
        return None if outcome is None or outcome >= len(self.outcomes) else self.outcomes[outcome].key


# A feed's key is the one in the indexer's deployment file; without one, the market is shown by its key.
_QUERY = (
    "SELECT m.market_id, m.kind, m.feed, m.target, m.bounds, m.early_resolvable, m.published, m.max_age, m.opens_at,"
    " m.closes_at, m.start_at, m.ends_at, m.early_from, m.settles_after, m.voids_after, m.weights, m.fee_bps,"
    " (SELECT c.sources->'observed'->>encode(m.feed, 'hex') FROM chain_cursor c WHERE c.sources ? 'wallet')"
    " AS feed_key, array_agg(o.net ORDER BY o.outcome) AS net, array_agg(o.shares ORDER BY o.outcome) AS shares,"
    " array_agg(o.excess ORDER BY o.outcome) AS excess"
    " FROM agent_market m JOIN agent_outcome o USING (market_id) WHERE m.market_id = ANY(%s) GROUP BY m.market_id"
)


async def notice_markets(connection: Connection, keys: Iterable[bytes]) -> dict[bytes, NoticeMarket]:
    """Return markets by their id in the contract, without those that the index does not have."""
    chosen = list(set(keys))
    if not chosen:
        return {}
    async with connection.cursor(row_factory=namedtuple_row) as cursor:
        await cursor.execute(_QUERY, (chosen,))
        rows: list[Any] = await cursor.fetchall()
    return {row.market_id: _named(row) for row in rows}


def _named(row: Any) -> NoticeMarket:
    spec = Specification.from_row(row)
    document = listed_document(row.market_id, spec, row.feed_key)
    return NoticeMarket(row.market_id, document.id, spec, document.outcomes, Book.from_row(row))
