"""Limits for callers: how a caller is identified, how many requests it may make, and how much long work runs at once.

Rates are counted over a moving window, in memory or in Redis. In memory each process counts on its own, so several
processes together allow more than the rate. If Redis is down or hangs, requests are neither refused nor delayed.
"""

from __future__ import annotations

import bisect
import collections
import ipaddress
import math
import re
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
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
from prometheus_client import Counter
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from api.operations import DocumentedAnswer, Operation
from api.problems import Problem
from core.config import Settings
from core.log import get_logger

log = get_logger(__name__)

_BRACKETED = re.compile(r"\[([^\]]*)\](?::\d+)?")
_IPV4_AND_PORT = re.compile(r"([^:]*):\d+")


def caller_ip(request: web.Request, settings: Settings) -> str:
    """Return the caller's address for rate limits. For IPv6 it is the /64 network, the smallest block that a customer
    gets. Behind trusted proxies the address comes from X-Forwarded-For: the last entry behind one proxy, the second to
    last behind two. Earlier entries come from the caller and prove nothing."""
    address = request.remote or ""
    if settings.trust_proxy:
        address = forwarded(request.headers.getall("X-Forwarded-For", ()), settings.proxy_hops) or address
    return bucket(address)


def is_local(caller: str) -> bool:
    return caller != "unknown" and ipaddress.ip_network(caller).is_loopback


def forwarded(lines: Sequence[str], hops: int) -> str:
    """Return the address that the first of `hops` proxies recorded, without its port. If there are fewer entries, as in
    a proxy's own health check, return the first one. Return an empty string if there is none."""
    entries = ",".join(lines).split(",")[-hops:]
    entry = entries[0].strip().strip('"')
    for form in (_BRACKETED, _IPV4_AND_PORT):
        if (matched := form.fullmatch(entry)) is not None:
            return matched[1]
    return entry


def bucket(address: str) -> str:
    """Return the key by which an address is counted. Invalid addresses share one key."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def network(caller: str) -> str:
    """Return the caller's surrounding network, an IPv6 /48 or an IPv4 /24, all of which one customer may own. Shared
    limits also count by network. Otherwise the owner of many addresses could exhaust them."""
    if caller == "unknown":
        return caller
    own = ipaddress.ip_network(caller)
    return str(own.supernet(new_prefix=48 if own.version == 6 else 24))


def blocked_region(request: web.Request, settings: Settings) -> str | None:
    """Return the caller's region if it is blocked, else None. Without a trusted proxy, no region is known. Raise a 400
    if the region header occurs twice, because one of the two comes from the caller."""
    if not settings.trust_proxy:
        return None
    regions = request.headers.getall(settings.region_header, ())
    if len(regions) > 1:
        raise Problem(400, "invalid_request", f"Send the header {settings.region_header} only once.")
    region = regions[0].strip().upper() if regions else ""
    return region if region in settings.blocked_regions else None


# ---------------------------------------------------------------- rates

REFUSED = Counter("vpm_http_rate_limited", "Requests refused by a rate limit.", ("rule",))

SWEEP_SECONDS = 1.0


class _InMemory(MemoryStorage):
    """The library's in-memory moving windows. Here expired entries are removed once a second. The library would remove
    them continuously, with a thread switch for each key. Nothing is awaited, so no lock is needed."""

    STORAGE_SCHEME = None  # type: ignore[assignment]  # created directly, not by URL

    def __init__(self) -> None:
        super().__init__()
        self._swept_at = time.monotonic()

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Add `amount` entries to a key's window, unless they would exceed the limit. Return whether they were
        added."""
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


# A nearby Redis responds a thousand times faster.
ANSWER_SECONDS = 0.3
# After a failure the storage is skipped for this long; then one request tries it while the others skip it.
RETRY_STORAGE_SECONDS = 1.0


def _storage_of(url: str) -> object:
    """Open a storage. Each step has a deadline, and the client's own retries are disabled."""
    if url == "async+memory://":
        return _InMemory()
    options: dict[str, Any] = {
        "socket_connect_timeout": ANSWER_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "retry": Retry(NoBackoff(), 0),
    }
    return storage_from_string(url, implementation="redispy", **options)


class RateLimits:
    """The counters behind rate limits. `url`: a memory:// or Redis URL, the value of `VPM_LIMITS_STORAGE_URL`."""

    def __init__(self, url: str) -> None:
        storage = _storage_of(url if url.startswith("async+") else f"async+{url}")
        if not isinstance(storage, Storage):
            raise TypeError(f"{type(storage).__name__} is not an async storage")
        self._storage = storage
        self._limiter = MovingWindowRateLimiter(storage)
        self._try_again_at: float | None = None  # while the storage does not respond

    async def aclose(self) -> None:
        if isinstance(self._storage, RedisStorage) and isinstance(self._storage.bridge, RedispyBridge):
            await self._storage.bridge.storage.aclose()

    async def take(self, item: RateLimitItem, rule: str, caller: str, message: str) -> None:
        """Count a request of `caller` under `rule`. Raise a 429 with Retry-After if the window is full."""
        if not await self._has_room(self._limiter.hit(item, rule, caller), rule):
            raise await self._refusal(item, rule, caller, message)

    async def take_external(self, item: RateLimitItem, rule: str, caller: str, message: str) -> None:
        """Count a request as `take` does, for a limit that no specification sets. Callers on this machine are exempt.
        Behind an untrusted proxy all callers look local; they then have no limit rather than a single shared one."""
        if not is_local(caller):
            await self.take(item, rule, caller, message)

    async def check(self, item: RateLimitItem, rule: str, caller: str, message: str) -> None:
        """Raise the same 429 as `take` if the window is full, but do not count this request."""
        if not await self._has_room(self._limiter.test(item, rule, caller), rule):
            raise await self._refusal(item, rule, caller, message)

    async def _has_room(self, asked: Coroutine[Any, Any, bool], rule: str) -> bool:
        """Return whether the window has room. Return True if the storage fails."""
        if self._try_again_at is not None:
            if time.monotonic() < self._try_again_at:
                asked.close()
                return True
            self._try_again_at = time.monotonic() + RETRY_STORAGE_SECONDS
        try:
            has_room = await asked
        except Exception as error:  # the storage's own
            self._try_again_at = time.monotonic() + RETRY_STORAGE_SECONDS
            log.warning("failed to count a request", action="limits.unavailable", rule=rule, why=error)
            return True
        self._try_again_at = None
        return has_room

    async def _refusal(self, item: RateLimitItem, rule: str, caller: str, message: str) -> Problem:
        REFUSED.labels(rule).inc()
        try:
            reset_at = (await self._limiter.get_window_stats(item, rule, caller)).reset_time
        except Exception as error:
            log.warning("failed to read a rate limit", action="limits.unavailable", rule=rule, why=error)
            reset_at = time.time() + item.get_expiry()
        seconds = max(1, math.ceil(reset_at - time.time()))
        return Problem(
            429,
            "rate_limited",
            f"{message.removesuffix('.')}; try again in {seconds} s.",
            retry_after=seconds,
            extra={"retryAfter": seconds},
        )


EACH_ADDRESS = parse("3000/minute")
PAGES_EACH_ADDRESS = parse("6000/minute")  # a hundred open pages that refresh once a second


class RequestQuota:
    """The rate limit of each address for responses that are not served from memory.

    It stops a caller in an endless loop from exhausting the processor and the database. Even a hundred visitors behind
    one address stay far below it. `refused`: the documented 429.
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
        await self._limits.take_external(self._rate, self._rule, caller_ip(request, self._settings), message)

    def counted(self, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """Return the operations with this limit applied, except to those that respond from memory or stream."""
        return tuple(self._counted(each) if each.timed else each for each in operations)

    def _counted(self, operation: Operation) -> Operation:
        answer = operation.handler

        async def handle(request: web.Request) -> web.StreamResponse:
            await self.take(request)
            return await answer(request)

        return replace(operation, handler=handle, answers={429: self._refused, **operation.answers})


class LimiterFull(Exception):
    """The work may not start now. `own`: whether the caller or its network is at its own limit. If not, all places are
    taken."""

    def __init__(self, *, own: bool) -> None:
        super().__init__(own)
        self.own = own

    def refusal(self, own: str, full: str, *, code: str = "busy", seconds: int = 10) -> Problem:
        """Return a 429 with the message `own` if the caller's own limit is reached, else a 503 with the message `full`.
        `code`: the error code of the 503."""
        if self.own:
            return Problem(429, "rate_limited", own, retry_after=seconds)
        return Problem(503, code, full, retry_after=seconds)


class ConcurrencyLimiter:
    """A limit on the work that runs at once: in total, for each caller, and for each network, which gets at most a
    third. Callers on this machine are subject only to the total."""

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._most_of_network = max(most_each, most // 3)
        self._taken_by: collections.Counter[str] = collections.Counter()
        self._taken = 0

    @contextmanager
    def place(self, caller: str) -> Iterator[Callable[[], None]]:
        """Hold a place until the block exits or the yielded function is called, or raise LimiterFull."""
        counted = {network(caller): self._most_of_network, caller: self._most_each}
        if not is_local(caller) and any(self._taken_by[each] >= most for each, most in counted.items()):
            raise LimiterFull(own=True)
        if self._taken >= self._most:
            raise LimiterFull(own=False)
        self._taken += 1
        self._taken_by.update(counted.keys())
        with ExitStack() as stack:
            stack.callback(self._release, counted)
            yield stack.close

    def _release(self, counted: Iterable[str]) -> None:
        self._taken -= 1
        for each in counted:
            self._taken_by[each] -= 1
            if not self._taken_by[each]:
                del self._taken_by[each]
