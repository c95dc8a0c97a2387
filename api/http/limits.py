"""Limits for callers: request rates by the `limits` library (a moving window, in memory or in Redis), and how much long
work runs at once.

In memory each process counts on its own; without a Redis each of several allows the full rate. A Redis that is
down or hangs neither refuses nor delays requests.
"""

from __future__ import annotations

import bisect
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from aiohttp import web
from limits import RateLimitItem, parse
from limits.aio.storage import MemoryStorage, RedisStorage, Storage
from limits.aio.storage.memory import Entry
from limits.aio.storage.redis.redispy import RedispyBridge
from limits.aio.strategies import MovingWindowRateLimiter
from limits.storage import storage_from_string
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from api.http.caller import caller_ip, is_local, network
from api.http.operation import DocumentedAnswer, Operation
from api.http.problem import Problem
from core.config import Settings
from core.log import get_logger
from core.metrics import counter

log = get_logger(__name__)

REFUSED = counter("vpm_http_rate_limited", "Requests refused by a rate limit", ("rule",))


SWEEP_SECONDS = 1.0


class _InMemory(MemoryStorage):
    """The library's moving windows in memory, with expired entries removed once a second.

    The library removes them continuously while requests come, with a thread switch for each key. Nothing is awaited
    here, so no lock is needed. The counts are the same: each request checks the times of that key alone.
    """

    STORAGE_SCHEME = None  # type: ignore[assignment]  # created directly, not by URL

    def __init__(self) -> None:
        super().__init__()
        self._swept_at = time.monotonic()

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Add `amount` entries to a key's window; return False, and add none, when they would exceed the limit."""
        now = time.time()
        if time.monotonic() - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = time.monotonic()
            self._sweep(now)
        entries = self.events.get(key, [])
        if amount > limit or (len(entries) > limit - amount and entries[limit - amount].atime >= now - expiry):
            return False
        entries[:0] = [Entry(expiry)] * amount
        self.events[key] = entries
        return True

    def _sweep(self, now: float) -> None:
        for key, entries in list(self.events.items()):  # newest entry first
            if entries and entries[-1].expiry > now:
                continue
            del entries[bisect.bisect_left(entries, -now, key=lambda entry: -entry.expiry) :]
            if not entries:
                del self.events[key]


# A nearby Redis answers a thousand times faster.
ANSWER_SECONDS = 0.3
# After a failure the storage is skipped for this long; then one request tries it, and the others do not wait.
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
        """Close its connections, if it has any."""
        if isinstance(self._storage, RedisStorage) and isinstance(self._storage.bridge, RedispyBridge):
            await self._storage.bridge.storage.aclose()

    async def take(self, item: RateLimitItem, rule: str, who: str, message: str) -> None:
        """Count one request of `who` under `rule`; Problem 429 with Retry-After if the window is full."""
        if not await self._has_room(lambda: self._limiter.hit(item, rule, who), rule, "failed to count a request"):
            raise await self._refusal(item, rule, who, message)

    async def take_from_outside(self, item: RateLimitItem, rule: str, address: str, message: str) -> None:
        """Do the same for limits that no specification sets, which exempt the machine itself. Behind a proxy that is
        not configured as trusted all callers look local, and have no limit rather than a single shared one."""
        if not is_local(address):
            await self.take(item, rule, address, message)

    async def check(self, item: RateLimitItem, rule: str, who: str, message: str) -> None:
        """Refuse as `take` does if the window is full, without counting this request."""
        if not await self._has_room(lambda: self._limiter.test(item, rule, who), rule, "failed to read a rate limit"):
            raise await self._refusal(item, rule, who, message)

    async def _has_room(self, ask: Callable[[], Awaitable[bool]], rule: str, failed: str) -> bool:
        """Return whether the window has room; a failing storage refuses nothing."""
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


EACH_ADDRESS = parse("3000/minute")
PAGES_EACH_ADDRESS = parse("6000/minute")  # a hundred open pages that refresh once a second


class RequestQuota:
    """The rate limit of each address for answers that do not come from memory.

    Expensive operations have tighter limits. This one stops a caller in an endless loop from exhausting the processor
    and the database; a hundred visitors behind one address stay far below it. refused: how the surface documents the
    refusal.
    """

    def __init__(
        self, limits: RateLimits, settings: Settings, refused: DocumentedAnswer, *, pages: bool = False
    ) -> None:
        self._limits = limits
        self._settings = settings
        self._refused = refused
        self._rate, self._rule = (PAGES_EACH_ADDRESS, "pages") if pages else (EACH_ADDRESS, "address")

    async def take(self, request: web.Request) -> None:
        message = f"One address may make {self._rate.amount:,} requests a minute."
        await self._limits.take_from_outside(self._rate, self._rule, caller_ip(request, self._settings), message)

    def counted(self, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """Return the operations with this limit on those that neither answer from memory nor stream."""
        return tuple(self._counted(each) if each.timed else each for each in operations)

    def _counted(self, operation: Operation) -> Operation:
        answer = operation.handler

        async def handle(request: web.Request) -> web.StreamResponse:
            await self.take(request)
            return await answer(request)

        return replace(operation, handler=handle, answers={429: self._refused, **operation.answers})


class NoPlace(Exception):
    """The refusal to run more at once. own: the caller or its network is at its limit; else all places are taken."""

    def __init__(self, *, own: bool) -> None:
        super().__init__(own)
        self.own = own

    def refusal(self, own: str, full: str, *, code: str = "busy", seconds: int = 10) -> Problem:
        """Return the answer, worded for either case. code: used when all places are taken."""
        later = {"Retry-After": str(seconds)}
        return Problem(429, "rate_limited", own, headers=later) if self.own else Problem(503, code, full, headers=later)


class ConcurrencyLimiter:
    """Places for long work: a total, a number for each caller, and a third for one network.

    The machine's own programs may take all of them, as with rates.
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._most_of_network = max(most_each, most // 3)
        self._taken_by: Counter[str] = Counter()
        self._taken = 0

    @contextmanager
    def taken(self, caller: str) -> Iterator[Callable[[], None]]:
        """Hold a place until the block exits, or until the yielded function is called."""
        counted = {network(caller): self._most_of_network, caller: self._most_each}
        if not is_local(caller) and any(self._taken_by[each] >= most for each, most in counted.items()):
            raise NoPlace(own=True)
        if self._taken >= self._most:
            raise NoPlace(own=False)
        self._taken += 1
        self._taken_by.update(counted.keys())
        with ExitStack() as places_taken:
            places_taken.callback(self._give_back, counted)
            yield places_taken.close

    def _give_back(self, counted: Iterable[str]) -> None:
        self._taken -= 1
        for each in counted:
            self._taken_by[each] -= 1
            if not self._taken_by[each]:
                del self._taken_by[each]
