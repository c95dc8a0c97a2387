"""Rate limits of the `limits` library: a moving window, in memory or in Redis by URL.

In memory each process counts for itself; with several workers name a Redis, or each worker allows the full rate.
"""

from __future__ import annotations

import math
import time

from limits import RateLimitItem
from limits.aio.storage import Storage
from limits.aio.strategies import MovingWindowRateLimiter
from limits.storage import storage_from_string

from api.http.problem import Problem
from core.log import get_logger
from core.metrics import counter

log = get_logger(__name__)

REFUSED = counter("vpm_http_rate_limited", "Requests refused by a rate limit", ("rule",))


class RateLimits:
    """The counters behind rate limits. `url`: memory:// or a Redis URL, as `VPM_LIMITS_STORAGE_URL`."""

    def __init__(self, url: str) -> None:
        storage = storage_from_string(url if url.startswith("async+") else f"async+{url}")
        if not isinstance(storage, Storage):
            raise TypeError(f"{type(storage).__name__} is not an async storage")
        self._limiter = MovingWindowRateLimiter(storage)

    async def take(self, item: RateLimitItem, rule: str, who: str, message: str) -> None:
        """Counts one request of `who` under `rule`; Problem 429 with Retry-After when there is no room."""
        try:
            if await self._limiter.hit(item, rule, who):
                return
        except Exception as error:  # the storage's own; a limit that cannot be counted refuses nobody
            log.warning("a rate limit could not be counted", action="limits.unavailable", rule=rule, why=error)
            return
        raise await self._refusal(item, rule, who, message)

    async def check(self, item: RateLimitItem, rule: str, who: str, message: str) -> None:
        """Refuses as `take` does when the window is full, without counting this request."""
        try:
            if await self._limiter.test(item, rule, who):
                return
        except Exception as error:
            log.warning("a rate limit could not be read", action="limits.unavailable", rule=rule, why=error)
            return
        raise await self._refusal(item, rule, who, message)

    async def _refusal(self, item: RateLimitItem, rule: str, who: str, message: str) -> Problem:
        REFUSED.labels(rule).inc()
        stats = await self._limiter.get_window_stats(item, rule, who)
        seconds = max(1, math.ceil(stats.reset_time - time.time()))
        return Problem(
            429,
            "rate_limited",
            f"{message} Try again in {seconds} s.",
            headers={"Retry-After": str(seconds)},
            extra={"retryAfter": seconds},
        )
