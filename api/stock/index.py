"""The stock markets as the API reads them: current ones from memory, as fresh as the index, and older ones from the
database on request.

The markets are stale while the database is unavailable, when the indexer has not reached a node for a while, and when
the indexer has stopped at a contradiction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine

from api.database import reading
from api.followed_index import Archive, FollowedIndex
from api.problems import unavailable
from api.stock.facts import ListedMarket, MarketsSnapshot
from api.stock.rows import read_settled, read_settled_page, read_snapshot

PAUSE_SECONDS = 0.1
# The largest market id that the database can hold.
MAX_ID = 2**63 - 1
# After this long without news from a node, or without reading the index, every answer is stale.
STALE_AFTER_SECONDS = 10


class StockIndex(FollowedIndex[MarketsSnapshot]):
    """The stock markets as last read, and an archive of settled ones."""

    def __init__(self, url: str, engine: AsyncEngine, chain_id: int, *, replica: bool = False) -> None:
        self._archive: Archive[int, ListedMarket] = Archive(engine, partial(read_settled, chain_id))
        read = partial(read_snapshot, chain_id, self._archive)
        super().__init__(
            "stock",
            chain_id,
            url,
            engine,
            read,
            pause_seconds=PAUSE_SECONDS,
            is_stale=_is_stale,
            replica_block=(lambda snapshot: snapshot.head.number) if replica else None,
        )

    @property
    def read_at(self) -> int:
        """Return when the indexer last read the chain, by our clock. Return 0 before the first read."""
        return 0 if self.snapshot is None else self.snapshot.head.seen_at

    def required(self) -> MarketsSnapshot:
        """Return the state as last read. Raise a 503 before the first read."""
        if self.snapshot is None:
            raise unavailable("The chain has not been read yet; try again shortly.")
        return self.snapshot

    # ------------------------------------------------------------ of any age

    async def market(self, number: int) -> ListedMarket | None:
        return (await self.markets((number,))).get(number)

    async def markets(self, numbers: Iterable[int]) -> dict[int, ListedMarket]:
        """Return those of the markets that the index has. Raise a 503 if some must be read and the database is
        unavailable."""
        present = {} if self.snapshot is None else self.snapshot.markets
        possible = {number for number in numbers if number <= MAX_ID}
        markets = {number: present[number] for number in possible if number in present}
        async with reading("This market"):
            return markets | await self._archive.get(possible - markets.keys())

    async def page(self, before: int | None, limit: int) -> list[ListedMarket]:
        """Return at most `limit` markets, the highest id first. With `before`, only markets with a lower id are
        returned."""
        present = {} if self.snapshot is None else self.snapshot.markets
        top = MAX_ID if before is None else before
        async with reading("The settled markets"), self._engine.connect() as connection:
            settled = await read_settled_page(connection, top, limit)
        numbers = sorted({*(each for each in present if each < top), *settled}, reverse=True)[:limit]
        markets = await self.markets(numbers)
        return [markets[each] for each in numbers if each in markets]


def _is_stale(snapshot: MarketsSnapshot | None) -> bool:
    if snapshot is None or snapshot.head.state != "tail":
        return True
    return time.time() - snapshot.head.seen_at > STALE_AFTER_SECONDS
