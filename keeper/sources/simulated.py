"""Simulated prices for local chains: a seeded random walk.

The next value follows from the feed's last round, the seed and the time. So any keeper continues the walk, and the same
seed and times give the same walk. All arithmetic uses integers.
"""

from __future__ import annotations

import hashlib
import math

from keeper.sources.sample import ONE, LatestRound, Sample

# The first values of observation feeds and local pools. Price feeds start with the rounds from their setup.
FIRST_DOLLARS = {
    "BNKR/market_cap": 82_400_000,
    "AIXBT/market_cap": 41_700_000,
    "VIRTUAL/market_cap": 915_000_000,
    "BNKR/daily_volume": 3_150_000,
}
OTHERS_FIRST_DOLLARS = 100_000_000
SEED = "vpm"

VOLATILITY_PPM_PER_MINUTE = 4_000
"""A standard deviation of 0.4% a minute, 3% an hour: enough to see, but not enough to leave a market's range."""
YEARLY_VOLATILITY = VOLATILITY_PPM_PER_MINUTE / 10**6 * math.sqrt(365.25 * 24 * 60)
"""The volatility for priors, where 1 is 100%."""
HOME_MINUTES = 360
"""The walk returns halfway to its first value in about four hours."""
MAX_STEP_SECONDS = 900
"""After a longer gap the walk moves as if only this much time had passed."""

FIRST_ROUND = (1 << 64) | 1
"""The id of a feed's first round, where its walk starts."""


def first_value(key: str) -> int:
    return FIRST_DOLLARS.get(key, OTHERS_FIRST_DOLLARS) * ONE


def step(last: LatestRound, home: int, seed: str, key: str, now: int) -> int:
    """Return the value at `now` with the feed's 8 decimals. The value is at least 1, and every division rounds down."""
    seconds = min(max(now - last.updated_at, 1), MAX_STEP_SECONDS)
    # Standard deviation grows with the square root of time; isqrt of seconds * 1e6 keeps three decimals.
    scale = VOLATILITY_PPM_PER_MINUTE * math.isqrt(seconds * 1_000_000 // 60) // 1000
    noise = last.answer * scale * _gauss(seed, key, now) // (1_000_000 * 1000)
    pull = (home - last.answer) * seconds // (HOME_MINUTES * 60)
    return max(1, last.answer + noise + pull)


def sample(last: LatestRound | None, home: int, seed: str, key: str, now: int) -> Sample:
    value = first_value(key) if last is None else step(last, home, seed, key, now)
    return Sample(value, now, "simulated")


def _gauss(seed: str, key: str, now: int) -> int:
    """Return an approximately normal number in thousandths of a standard deviation: twelve uniform numbers, minus their
    mean."""
    digest = hashlib.sha256(f"{seed}\n{key}\n{now}".encode()).digest()
    words = [int.from_bytes(digest[at : at + 2]) for at in range(0, 24, 2)]
    return (sum(words) - 6 * 65_535) * 1000 // 65_536
