"""Rate limits of the `limits` library: a moving window, in memory or in Redis by URL.

In memory each process counts for itself; with several workers name a Redis, or each worker allows the full rate. A
Redis that is away or hangs refuses no request and holds up none.
"""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

from limits import RateLimitItem
from limits.aio.storage import MemoryStorage, RedisStorage, Storage
from limits.aio.storage.redis.redispy import RedispyBridge
from limits.aio.strategies import MovingWindowRateLimiter
from limits.storage import storage_from_string
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from api.http.caller import is_local
from api.http.problem import Problem
from core.log import get_logger
from core.metrics import counter

log = get_logger(__name__)

REFUSED = counter("vpm_http_rate_limited", "Requests refused by a rate limit", ("rule",))


SWEEP_SECONDS = 1.0


class _InMemory(MemoryStorage):
    """The library's counters of moving windows in memory, swept once a second in one go.

    The library sweeps without end while requests come, and goes to a thread and back for each key that it holds. What
    counts as expired does not change: every request looks at the times of its own key.
    """

    STORAGE_SCHEME = None  # type: ignore[assignment]  # it is made here, and takes no URL from the library's own

    def __init__(self) -> None:
        super().__init__()
        self._swept_at = time.monotonic()

    async def _MemoryStorage__schedule_expiry(self) -> None:
        if time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            self._sweep(time.time())

    def _sweep(self, now: float) -> None:
        """The library awaits nothing while it holds the lock of a key, so none is held now."""
        for key, entries in list(self.events.items()):  # of each the newest entry is the first
            if entries and entries[-1].expiry > now:
                continue
            del entries[bisect.bisect_left(entries, -now, key=lambda entry: -entry.expiry) :]
            if not entries:
                del self.events[key]
                self.locks.pop(key, None)


# A Redis nearby answers in a thousandth of this.
ANSWER_SECONDS = 0.3
# A storage that failed is passed over for so long; then one request tries it again, and the others do not wait for it.
AGAIN_SECONDS = 1.0


def _storage_of(url: str) -> object:
    """Open the storage of this URL, with a deadline for each step and without the client's own retries."""
    if url == "async+memory://":
        return _InMemory()
    options: dict[str, Any] = {
        "socket_connect_timeout": ANSWER_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }
    return storage_from_string(url, implementation="redispy", **options)


class RateLimits:
    """The counters behind rate limits. `url`: memory:// or a Redis URL, as `VPM_LIMITS_STORAGE_URL`."""

    def __init__(self, url: str) -> None:
        storage = _storage_of(url if url.startswith("async+") else f"async+{url}")
        if not isinstance(storage, Storage):
            raise TypeError(f"{type(storage).__name__} is not an async storage")
        self._storage = storage
        self._limiter = MovingWindowRateLimiter(storage)
        self._try_again_at: float | None = None  # while the storage does not answer

    async def aclose(self) -> None:
        """Ends its connections, where it has any."""
        if isinstance(self._storage, RedisStorage) and isinstance(self._storage.bridge, RedispyBridge):
            await self._storage.bridge.storage.aclose()

    async def take(self, item: RateLimitItem, rule: str, who: str, message: str) -> None:
        """Counts one request of `who` under `rule`; Problem 429 with Retry-After when there is no room."""
        if not await self._has_room(lambda: self._limiter.hit(item, rule, who), rule, "failed to count a request"):
            raise await self._refusal(item, rule, who, message)

    async def take_from_outside(self, item: RateLimitItem, rule: str, address: str, message: str) -> None:
        """As `take`, of what no specification bounds: the machine's own programs are not counted. Behind a proxy that
        nobody trusts all callers seem to be the machine: then it would be one limit for the world, and is none."""
        if not is_local(address):
            await self.take(item, rule, address, message)

    async def check(self, item: RateLimitItem, rule: str, who: str, message: str) -> None:
        """Refuses as `take` does when the window is full, without counting this request."""
        if not await self._has_room(lambda: self._limiter.test(item, rule, who), rule, "failed to read a rate limit"):
            raise await self._refusal(item, rule, who, message)

    async def _has_room(self, ask: Callable[[], Awaitable[bool]], rule: str, failed: str) -> bool:
        """Return whether the window has room; a limit that cannot be counted refuses nothing."""
        if self._try_again_at is not None:
            if time.monotonic() < self._try_again_at:
                return True
            self._try_again_at = time.monotonic() + AGAIN_SECONDS
        try:
            has_room = await ask()
        except Exception as error:  # the storage's own
            self._try_again_at = time.monotonic() + AGAIN_SECONDS
            log.warning(failed, action="limits.unavailable", rule=rule, why=error)
            return True
        self._try_again_at = None
        return has_room

    async def _refusal(self, item: RateLimitItem, rule: str, who: str, message: str) -> Problem:
        REFUSED.labels(rule).inc()
        try:
            reset_at = (await self._limiter.get_window_stats(item, rule, who)).reset_time
        except Exception as error:
            log.warning("failed to read a rate limit", action="limits.unavailable", rule=rule, why=error)
            reset_at = time.time() + item.get_expiry()
        seconds = max(1, math.ceil(reset_at - time.time()))
        return Problem(
            429,
            "rate_limited",
            f"{message.removesuffix('.')}; try again in {seconds} s.",
            headers={"Retry-After": str(seconds)},
            extra={"retryAfter": seconds},
        )
