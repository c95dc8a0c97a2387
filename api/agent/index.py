"""The agent markets. Current ones are in memory and as fresh as the index; older ones are read from the database on
demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.agent.cursors import MarketSortKey
from api.agent.errors import problem
from api.agent.facts import BEFORE_DEPLOYMENT, ListedMarket, MarketsSnapshot, has_name, key_from_name
from api.agent.rows import read_settled, read_settled_page, read_snapshot
from api.agent.storage import storage
from api.followed_index import Archive, FollowedIndex
from core.agent.words import FeedSubject
from core.contracts.statuses import MarketKind
from core.feeds.words import FeedWords

PAUSE_SECONDS = 0.025


class AgentIndex(FollowedIndex[MarketsSnapshot]):
    """The agent markets as last read, and an archive of settled ones. `deployed`: whether the contracts are deployed,
    so that there is something to index."""

    def __init__(
        self,
        url: str,
        engine: AsyncEngine,
        chain_id: int,
        feeds: Mapping[bytes, FeedWords],
        *,
        deployed: bool = True,
        replica: bool = False,
    ) -> None:
        self._feeds = feeds
        self._archive: Archive[bytes, ListedMarket] = Archive(engine, partial(read_settled, feeds))
        self._deployed = deployed
        super().__init__(
            "agent",
            chain_id,
            url,
            engine,
            partial(self._read_snapshot, chain_id),
            pause_seconds=PAUSE_SECONDS,
            replica_block=_block_of if replica else None,
        )

    async def _read_snapshot(
        self, chain_id: int, connection: AsyncConnection, previous: MarketsSnapshot | None
    ) -> MarketsSnapshot | None:
        """Read the current state; before deployment, return the empty snapshot."""
        before = None if previous is BEFORE_DEPLOYMENT else previous
        snapshot = await read_snapshot(chain_id, self._feeds, self._archive, connection, before)
        return BEFORE_DEPLOYMENT if snapshot is None and not self._deployed else snapshot

    @property
    def feeds(self) -> Iterable[bytes]:
        """Return the feeds the service knows."""
        return self._feeds.keys()

    def required(self) -> MarketsSnapshot:
        """Return the last snapshot; raise 500 if there is none yet."""
        if self.snapshot is None:
            raise problem("internal_error", "The markets have not been read yet.")
        return self.snapshot

    async def wait_for_block(self, block: int, timeout_seconds: float | None) -> None:
        """Wait until the index has this block, or the timeout ends."""
        await self._until(lambda: self.snapshot is not None and self.snapshot.head.number >= block, timeout_seconds)

    # ------------------------------------------------------------ markets of any age

    async def market(self, name: str) -> ListedMarket | None:
        """Find a market by id, slug or the hex of its key in the contract; raise 500 if the database cannot be read."""
        key = key_from_name(name)
        market = None if key is None else (await self.markets((key,))).get(key)
        return market if market is not None and has_name(market, name) else None

    async def markets(self, keys: Iterable[bytes], *, status: int = 500) -> dict[bytes, ListedMarket]:
        """Return the existing markets with these keys. `status`: the status of the refusal if the database cannot be
        read."""
        present = self.required().markets
        distinct = dict.fromkeys(keys)
        markets = {key: present[key] for key in distinct if key in present}
        if missing := distinct.keys() - markets.keys():
            async with storage("The settled markets", status=status):
                markets |= await self._archive.get(missing)
        return markets

    async def settled_page(
        self, symbol: str | None, kind: MarketKind | None, after: MarketSortKey | None, limit: int
    ) -> dict[bytes, ListedMarket]:
        """Return the first `limit` settled markets that follow `after` in list order. Only feeds that the service knows
        count."""
        feeds = [
            feed for feed, words in self._feeds.items() if symbol is None or FeedSubject(words.key).symbol == symbol
        ]
        if not feeds:
            return {}
        async with storage("The settled markets"), self._engine.connect() as connection:
            kinds = [int(each) for each in MarketKind] if kind is None else [int(kind)]
            keys = await read_settled_page(connection, feeds, kinds, after, limit)
        return await self.markets(keys)


def _block_of(snapshot: MarketsSnapshot) -> int:
    return snapshot.head.number
