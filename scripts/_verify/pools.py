"""Computes a pool feed's readings again from the observations of its pools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.chain import Contract, checksum
from core.contracts.events.shared import FEED_EVENTS
from core.contracts.statuses import Quality
from core.feeds.live import POOL, TOKEN
from scripts._verify.chain import PinnedChain, word
from scripts._verify.claims import Findings
from scripts._verify.pool_readings import Observation, PoolFeedTerms, PoolState, SourceTerms, measure


@dataclass(frozen=True, slots=True)
class PoolFeedFacts:
    """A pool feed of the deployment file."""

    address: str
    terms: PoolFeedTerms
    pools: tuple[str, ...]


async def pool_feed_at(chain: PinnedChain, address: str) -> PoolFeedFacts | None:
    """Return the pool feed at an address, or None if the deployment file has no pool feed there.

    The feed's pools come from the file and not from the feed. A fake feed might name pools made by its author, and
    report the values of those pools truthfully.
    """
    named = next((each for each in chain.deployment.pool_feeds if checksum(each.address) == checksum(address)), None)
    if named is None:
        return None
    base, sources = checksum(named.token), []
    for each in named.pools:
        pool = Contract(each.address, POOL)
        token0, token1 = [checksum(await chain.read(pool.call(name))) for name in ("token0", "token1")]
        sources.append(SourceTerms(token0 == base, each.reference_liquidity))
        base = token1 if token0 == base else token0
    decimals = int(await chain.read(Contract(named.quote, TOKEN).call("decimals")))
    terms = PoolFeedTerms(tuple(sources), named.supply, decimals, named.window_seconds, named.step_seconds)
    return PoolFeedFacts(checksum(address), terms, tuple(checksum(each.address) for each in named.pools))


async def recorded_at(chain: PinnedChain, feed: PoolFeedFacts, round_id: int) -> int | None:
    """Return the time of the block in which a reading was recorded, or None if it was not recorded."""
    layouts = {topic: each for topic, each in FEED_EVENTS.items() if each.name == "AnswerUpdated"}
    logs = await chain.logs_of(feed.address, layouts, [None, word(round_id)])
    return await chain.time_of(logs[0].block) if logs else None


async def check_reading(chain: PinnedChain, feed: PoolFeedFacts, at: int, when: str, findings: Findings) -> None:
    """Compare a recorded reading with the reading computed from the pools' history."""
    round_id, reader = at // feed.terms.step, chain.feed(feed.address)
    recorded = await reader.round(round_id)
    quality = await chain.read(reader.contract.call("qualityOf", at))
    claim = f"the reading at the {when}, computed again"
    if recorded is None:
        findings.check(claim, False, f"getRoundData({round_id}) of {feed.address}", "it was never recorded")
        return
    pools, shown = [], []
    for address in feed.pools:
        pool = await read_pool_state(chain, address, at, feed.terms.window)
        shown.append(f"observations of {address}, to {at}")
        if pool is None:
            why = "the pool no longer has them; use an archive node with --block"
            findings.unknown(claim, why, shown[-1])
            return
        pools.append(pool)
    again = measure(feed.terms, pools, at)
    assert again is not None  # the observations reach back to the window's start
    findings.same(claim, _describe(quality, recorded.answer), _describe(again.quality, again.answer), "; ".join(shown))


def _describe(quality: int, answer: int) -> str:
    return f"{answer} ({Quality(quality).name.lower().replace('_', ' ')})"


# ---------------------------------------------------------------- a pool's observations


async def read_pool_state(chain: PinnedChain, pool: str, at: int, length: int) -> PoolState | None:
    """Read a pool's observations around both ends of the window. Return None if the ring no longer has the window's
    start."""
    ring = _Ring(chain, Contract(pool, POOL))
    await ring.open()
    first = await ring.last_until(at - length)
    if first is None:
        return None
    last = await ring.last_until(at)
    assert last is not None
    places = sorted({each for each in (first, first + 1, last, last + 1) if each <= ring.newest})
    kept = [await ring.at(place) for place in places]
    liquidity = await chain.read(ring.contract.call("liquidity"))
    return PoolState(kept, ring.tick, liquidity)


class _Ring:
    """The observations of a pool. Place 0 is the oldest one."""

    def __init__(self, chain: PinnedChain, contract: Contract) -> None:
        self.contract = contract
        self.tick = 0
        self.newest = 0
        self._chain = chain
        self._size = 0
        self._first = 0
        self._read: dict[int, Observation] = {}

    async def open(self) -> None:
        _, self.tick, index, self._size, *_ = await self._chain.read(self.contract.call("slot0"))
        self._first = (index + 1) % self._size
        if not (await self._slot(self._first))[3]:
            self._first = 0  # the ring, or its new part after growing, is not full yet
        self.newest = (index - self._first) % self._size

    async def last_until(self, time: int) -> int | None:
        """Return the place of the last observation at or before a time. Return None if all observations are later."""
        if (await self.at(0)).time > time:
            return None
        low, high = 0, self.newest
        while low < high:
            middle = (low + high + 1) // 2
            if (await self.at(middle)).time <= time:
                low = middle
            else:
                high = middle - 1
        return low

    async def at(self, place: int) -> Observation:
        if place not in self._read:
            time, ticks, per_liquidity, _ = await self._slot((self._first + place) % self._size)
            head = self._chain.head.timestamp
            self._read[place] = Observation(
                head - (head - time) % 2**32, ticks, per_liquidity
            )  # the pool stores 32 bits of the time
        return self._read[place]

    async def _slot(self, slot: int) -> Any:
        return await self._chain.read(self.contract.call("observations", slot))
