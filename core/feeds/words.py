"""How a pool feed computes what it says, in words that are exactly true."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.agent.words import duration
from core.contracts.feeds import AgentFeed, PoolFeed
from core.hexadecimal import bytes_of


@dataclass(frozen=True, slots=True)
class NamedPool:
    """A pool that readings are computed from; `name` as the deployment file has it: `Uniswap v3 BNKR/WETH 1%`."""

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Computed:
    """What a reading follows from. Times are seconds; `supply` is of whole tokens, written out."""

    symbol: str
    pools: tuple[NamedPool, ...]
    supply: str
    window: int
    step: int

    @classmethod
    def by(cls, feed: PoolFeed) -> Computed:
        return cls(
            symbol=feed.key.partition("/")[0].upper(),
            pools=tuple(NamedPool(pool.name, pool.address) for pool in feed.pools),
            supply=_whole(feed.supply, feed.token_decimals),
            window=feed.window_seconds,
            step=feed.step_seconds,
        )

    @property
    def sentence(self) -> str:
        """Say for people what the reading is computed from, and how."""
        pools = " and ".join(f"{pool.name} ({pool.address})" for pool in self.pools)
        return (
            f"Computed from {pools}: the mean price of {self.symbol} over the {duration(self.window)} that end at the "
            f"reading's time, by these pools alone, times a supply of {self.supply} {self.symbol}."
        )

    def rules(self, *, max_age: int, either: bool) -> tuple[str, ...]:
        """Return what the reading at a moment is, and when there is none. `either`: two readings decide."""
        used = "either reading" if either else "the reading"
        pool = "both pools" if len(self.pools) > 1 else "the pool"
        return (
            f"{self.sentence} Nobody posts it: anybody may have a reading recorded, and whoever does gets the same "
            f"number.",
            f"There is a reading {every(self.step)}, and the last one at or before a moment counts there. One that was "
            f"not recorded while {pool} could still tell it is missing: then the one recorded before it counts, if it "
            f"is at most {duration(max_age)} older than the moment.",
            f"A reading is not good if a pool's mean liquidity over the window was under a third of what the feed was "
            f"set up with; if {used} is missing or not good, every stake is given back whole.",
            "After a halt of the chain the price that stood before it fills the window.",
        )


@dataclass(frozen=True, slots=True)
class FeedWords:
    """The deployment file's words on a feed: what it reports, and how it is computed if it reads pools."""

    key: str
    computed: Computed | None = None


def feed_words(feeds: Iterable[AgentFeed]) -> dict[bytes, FeedWords]:
    """Return the words of feeds by their addresses."""
    return {
        bytes_of(feed.address): FeedWords(feed.key, Computed.by(feed) if isinstance(feed, PoolFeed) else None)
        for feed in feeds
    }


def every(seconds: int) -> str:
    """`every minute`, `every 10 seconds`."""
    said = duration(seconds)
    return "every " + (said.removeprefix("1 ") if said.startswith("1 ") else said)


def _whole(units: int, decimals: int) -> str:
    """Return an amount of smallest units in whole tokens, with every digit it has."""
    whole, rest = divmod(units, 10**decimals)
    digits = f"{rest:0{decimals}d}".rstrip("0") if rest else ""
    return f"{whole:,}.{digits}" if digits else f"{whole:,}"
