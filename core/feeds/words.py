"""Exact descriptions of how a pool feed computes its readings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.agent.words import duration, grouped
from core.contracts.feeds import AgentFeed, PoolFeed
from core.hexadecimal import bytes_of


@dataclass(frozen=True, slots=True)
class NamedPool:
    """A pool that readings are computed from. `name` is its name in the deployment file, such as `Uniswap v3 BNKR/WETH
    1%`."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Computed:
    """The method by which a pool feed's readings are computed. Times are in seconds; `supply` is a number of whole
    tokens, as text."""

    symbol: str
    pools: tuple[NamedPool, ...]
    supply: str
    window: int
    step: int

    @classmethod
    def from_feed(cls, feed: PoolFeed) -> Computed:
        return cls(
            symbol=feed.key.partition("/")[0].upper(),
            pools=tuple(NamedPool(pool.name, pool.address) for pool in feed.pools),
            supply=grouped(feed.supply, 10**feed.token_decimals),
            window=feed.window_seconds,
            step=feed.step_seconds,
        )

    @property
    def sentence(self) -> str:
        pools = " and ".join(f"{pool.name} ({pool.address})" for pool in self.pools)
        return (
            f"A reading is the mean price of {self.symbol} over the {duration(self.window)} up to its time, computed "
            f"from {pools} alone, times a supply of {self.supply} {self.symbol}."
        )

    def rules(self, *, max_age: int) -> tuple[str, ...]:
        """Return the rules in words: which reading counts at a moment, and when that reading is unusable."""
        pool = "both pools still hold their" if len(self.pools) > 1 else "the pool still holds its"
        return (
            self.sentence,
            "No one posts readings: anyone can have one recorded, and everyone gets the same number.",
            f"There is a reading {every(self.step)}; at any moment the last one at or before it counts.",
            f"A reading can be recorded as long as {pool} data. If it was not, the reading recorded before it counts, "
            f"provided that it is at most {duration(max_age)} older than the moment.",
            "A reading is unusable if a pool's mean liquidity over the window was below a third of the feed's "
            "reference liquidity.",
            "After a halt of the chain, the last price before the halt fills the window.",
        )


@dataclass(frozen=True, slots=True)
class FeedWords:
    """The deployment file's facts about a feed: its key and, for a pool feed, how its readings are computed."""

    key: str
    computed: Computed | None = None


def feed_words(feeds: Iterable[AgentFeed]) -> dict[bytes, FeedWords]:
    return {
        bytes_of(feed.address): FeedWords(feed.key, Computed.from_feed(feed) if isinstance(feed, PoolFeed) else None)
        for feed in feeds
    }


def every(seconds: int) -> str:
    """Return an interval in words, such as `every minute` or `every 10 seconds`."""
    return f"every {duration(seconds).removeprefix('1 ')}"
