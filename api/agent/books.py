"""Wallets' positions: read once for a state of the index, each rendered once for as long as it stays what it is."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from api.agent import render
from api.agent.cursors import StakePlace, stake_cursor
from api.agent.facts import ListedMarket, Stake, Venue
from api.agent.index import AgentIndex
from api.agent.links import Links
from api.agent.reply import meta
from api.cache import VersionedCache

# Rendered between two breaths of the event loop: about ten milliseconds.
_AT_ONCE = 100
# A position takes about 800 bytes; the largest book a few megabytes.
_BOOK_BYTES, _POSITION_BYTES, _BOOKS_BYTES = 4_000, 800, 32_000_000


class Book:
    """All that a wallet ever staked, newest first, as one state of the index has it."""

    def __init__(
        self,
        wallet: str,
        stakes: Sequence[Stake],
        markets: Mapping[bytes, ListedMarket],
        sums: render.PositionSums,
        venue: Venue,
        links: Links,
        before: Book | None,
    ) -> None:
        self.size = _BOOK_BYTES + len(stakes) * _POSITION_BYTES
        self._wallet = wallet
        self._links = links
        self._meta = meta(links, venue)
        self._markets = markets
        self._newest_first = stakes
        self._stakes = {each.id: each for each in stakes}
        self._rendered = {} if before is None else dict(before.unchanged(self))
        self._summary = sums.body()

    def unchanged(self, later: Book) -> Iterator[tuple[int, bytes]]:
        """What was rendered here and is the same later: it depends on nothing but the stake and its market."""
        same = {key for key, each in self._markets.items() if later._markets.get(key) == each}
        for stake_id, body in self._rendered.items():
            stake = self._stakes[stake_id]
            if stake.market_key in same and later._stakes.get(stake_id) == stake:
                yield stake_id, body

    async def page(self, limit: int, before: StakePlace | None) -> bytes:
        """The positions from a place on, and the summary of all."""
        start = 0 if before is None else bisect_right(self._newest_first, (-before[0], -before[1]), key=_from_newest)
        shown = self._newest_first[start : start + limit]
        more = start + limit < len(self._newest_first)
        fresh = 0
        for each in shown:
            if each.id in self._rendered or each.market_key not in self._markets:
                continue  # or listed in a block read after the markets were
            body, _, _ = render.position(self._markets[each.market_key], each, self._links)
            self._rendered[each.id] = orjson.dumps(body)
            fresh += 1
            if fresh % _AT_ONCE == 0:
                await asyncio.sleep(0)  # others are answered in between
        bodies = [orjson.Fragment(self._rendered[each.id]) for each in shown if each.id in self._rendered]
        content: dict[str, Any] = {
            "meta": self._meta,
            "wallet": self._wallet,
            "count": len(bodies),
            "summary": self._summary,
            "positions": bodies,
            "nextCursor": stake_cursor(shown[-1].block, shown[-1].log_index) if more else None,
        }
        return orjson.dumps(content)


def _from_newest(stake: Stake) -> StakePlace:
    return -stake.block, -stake.log_index


ReadBook = Callable[[str, Book | None], Awaitable[Book]]


class Books:
    """The books of the wallets asked for lately. `read` makes one, from the one before where there is one."""

    def __init__(self, index: AgentIndex, read: ReadBook) -> None:
        self._index = index
        self._read = read
        self._books: VersionedCache[str, Book] = VersionedCache(_BOOKS_BYTES, lambda book: book.size)

    async def get(self, wallet: str) -> Book:
        return await self._books.get(
            wallet, lambda: self._index.tick, lambda: self._read(wallet, self._books.last(wallet))
        )
