"""The agent markets in memory, as current as the index. Older markets are read on demand. This module also has the
switch that decides whether bets are accepted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.agent.chain import AgentContracts, Balances
from api.agent.errors import problem, storage
from api.agent.facts import BEFORE_DEPLOYMENT, Links, ListedMarket, MarketsSnapshot, key_from_name
from api.agent.rows import read_settled, read_settled_page, read_snapshot
from api.context import Context
from api.followed_index import Archive, FollowedIndex
from core.agent.words import FeedSubject
from core.chain import ChainClient
from core.contracts.statuses import MarketKind
from core.db.switches import TRADING_PAUSED, SwitchWatcher
from core.feeds.words import FeedWords
from core.hexadecimal import hex_of

PAUSE_SECONDS = 0.025
NOT_DEPLOYED = "The settlement contract is not deployed yet."


class AgentIndex(FollowedIndex[MarketsSnapshot]):
    """The markets as last read, and an archive of settled ones. `deployed`: whether there is anything to index."""

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
        self.feeds = feeds
        self._archive: Archive[bytes, ListedMarket] = Archive(engine, partial(read_settled, feeds))
        self._deployed = deployed
        super().__init__(
            "agent",
            chain_id,
            url,
            engine,
            partial(self._read_snapshot, chain_id),
            pause_seconds=PAUSE_SECONDS,
            replica_block=(lambda snapshot: snapshot.head.number) if replica else None,
        )

    async def _read_snapshot(
        self, chain_id: int, connection: AsyncConnection, previous: MarketsSnapshot | None
    ) -> MarketsSnapshot | None:
        before = None if previous is BEFORE_DEPLOYMENT else previous
        snapshot = await read_snapshot(chain_id, self.feeds, self._archive, connection, before)
        return BEFORE_DEPLOYMENT if snapshot is None and not self._deployed else snapshot

    def required(self) -> MarketsSnapshot:
        if self.snapshot is None:
            raise problem("internal_error", "The markets have not been loaded yet.")
        return self.snapshot

    async def wait_for_block(self, block: int, timeout_seconds: float | None) -> None:
        await self._until(lambda: self.snapshot is not None and self.snapshot.head.number >= block, timeout_seconds)

    async def market(self, name: str) -> ListedMarket | None:
        """Find a market by its id, its slug or its contract key in hex; raise 500 if the database cannot be read."""
        key = key_from_name(name)
        market = None if key is None else (await self.markets((key,))).get(key)
        return market if market is not None and name in (market.id, hex_of(market.key)) else None

    async def markets(self, keys: Iterable[bytes], *, status: int = 500) -> dict[bytes, ListedMarket]:
        """Return the existing markets with these keys. `status`: the refusal's HTTP status if the database cannot be
        read."""
        present = self.required().markets
        distinct = dict.fromkeys(keys)
        markets = {key: present[key] for key in distinct if key in present}
        if missing := distinct.keys() - markets.keys():
            async with storage("The settled markets", status=status):
                markets |= await self._archive.get(missing)
        return markets

    async def settled_page(
        self, symbol: str | None, kind: MarketKind | None, after: tuple[int, ...] | None, limit: int
    ) -> dict[bytes, ListedMarket]:
        """Return up to `limit` settled markets on known feeds, in list order. The page begins after the sort key
        `after`."""
        feeds = [
            feed for feed, words in self.feeds.items() if symbol is None or FeedSubject(words.key).symbol == symbol
        ]
        if not feeds:
            return {}
        async with storage("The settled markets"), self._engine.connect() as connection:
            kinds = [int(each) for each in MarketKind] if kind is None else [int(kind)]
            keys = await read_settled_page(connection, feeds, kinds, after, limit)
        return await self.markets(keys)


@dataclass(frozen=True, slots=True)
class Trading:
    """Decides whether bets are accepted, from the deployment, the setting, the operator's switch, the contract's own
    pause and the index's age. `blocks_are_regular`: whether blocks come at regular intervals."""

    paused_by_setting: bool
    watcher: SwitchWatcher
    deployed: bool
    blocks_are_regular: bool

    def why_off(self, snapshot: MarketsSnapshot | None) -> str | None:
        """Return a sentence that says why bets are refused, or None while trading is on."""
        if not self.deployed:
            return NOT_DEPLOYED
        if self.paused_by_setting or self.watcher.is_on(TRADING_PAUSED):
            return "Trading is paused by the operator; payouts continue."
        if snapshot is None:
            return "The index is still empty."
        if snapshot.stakes_paused:
            return "New stakes are paused in the settlement contract; payouts continue."
        return snapshot.head.why_late(time.time(), blocks_are_regular=self.blocks_are_regular)


@dataclass(frozen=True, slots=True)
class AgentParts:
    """The parts that handlers share. `contracts` is None before deployment, `client` without an RPC URL."""

    context: Context
    chain_id: int
    contracts: AgentContracts | None
    client: ChainClient | None
    links: Links
    index: AgentIndex
    switch: Trading
    balances: Balances
