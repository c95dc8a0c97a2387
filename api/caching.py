"""In-memory caches, bounded by size: values that are current for one version or for some seconds, and bodies that are
rendered once for all callers.

A rendered body has a gzip form and a strong ETag. The usual response is serialized in advance, head included, so that
sending it takes a single write.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import math
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Generic, TypeVar

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter
from cachetools import LRUCache

from api.operations import CORS, Body
from api.problems import fresh_request_id
from core.money import to_json

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
B = TypeVar("B", bound=Body)


class SizedCache(LRUCache[K, V]):
    """An LRU cache bounded by the sum of its values' sizes. A value larger than the whole cache is not stored."""

    def __setitem__(self, key: K, value: V) -> None:
        try:
            super().__setitem__(key, value)
        except ValueError:  # larger than the whole cache
            self.pop(key, None)


class VersionedCache(Generic[K, V]):
    """A cache of values by key. Each value is made once per version, for all callers.

    `size`: a function that returns a value's size. Without `size`, the cache is bounded by the number of values.
    """

    def __init__(self, maxsize: float, size: Callable[[V], float] | None = None) -> None:
        self._entries: SizedCache[K, tuple[Hashable, V]] = SizedCache(
            maxsize, None if size is None else lambda entry: size(entry[1])
        )
        self._making: dict[K, tuple[Hashable, asyncio.Task[V]]] = {}

    async def get(self, key: K, version: Callable[[], Hashable], make: Callable[[], Awaitable[V]]) -> V:
        """Return the key's value for the current version. `make` must not read anything newer than `version`.

        Only one value per key is made at a time. A caller that needs a newer version first waits for the value being
        made. An error in `make` is raised to every caller that waits for that value.
        """
        while True:
            current = version()
            entry = self._entries.get(key)
            if entry is not None and entry[0] == current:
                return entry[1]
            if key not in self._making:
                task = _shared_task(self._make(key, current, make), lambda: self._making.pop(key))
                self._making[key] = (current, task)
            made_for, task = self._making[key]
            if made_for == current:
                return await asyncio.shield(task)
            await asyncio.wait((task,))

    async def _make(self, key: K, version: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        value = await make()
        self._entries[key] = (version, value)
        return value


class TimedValue(Generic[V]):
    """A cached value that is made again when it is older than `seconds`. By default it is kept forever.

    While a new value is being made, callers get the old one if it is younger than `oldest_seconds`. A value's age
    counts from the call of `make`, because a slow source may return the state at that moment. An error is raised to
    every caller that waited.
    """

    def __init__(
        self, make: Callable[[], Awaitable[V]], seconds: float = math.inf, oldest_seconds: float = 0.0
    ) -> None:
        self.value: V | None = None
        self._make = make
        self._seconds = seconds
        self._oldest_seconds = oldest_seconds
        self._began_at = 0.0
        self._making: asyncio.Task[V] | None = None

    async def get(self) -> V:
        age = time.monotonic() - self._began_at
        if self.value is not None and age < self._seconds:
            return self.value
        if self._making is None:
            self._making = _shared_task(self._run(), self._end)
        if self.value is not None and age < self._oldest_seconds:
            return self.value
        return await asyncio.shield(self._making)

    async def _run(self) -> V:
        began_at = time.monotonic()
        self.value = value = await self._make()
        self._began_at = began_at
        return value

    def _end(self) -> None:
        self._making = None


def _shared_task(work: Coroutine[Any, Any, V], at_end: Callable[[], object]) -> asyncio.Task[V]:
    """Start a task that several callers share. Each must shield the task, so that a cancelled caller does not cancel it
    for the others."""

    def end(task: asyncio.Task[V]) -> None:
        at_end()
        if not task.cancelled():
            task.exception()  # retrieved: the waiting callers raise it

    task = asyncio.create_task(work)
    task.add_done_callback(end)
    return task


NO_STORE = "no-store"
# Any cache, or only the caller's own, may keep these but must revalidate each time: an unchanged body costs a 304.
REVALIDATED = "public, no-cache"
PRIVATE_REVALIDATED = "private, no-cache"


def public(seconds: int) -> str:
    """Return the Cache-Control header of a public read that a client may cache for `seconds`.

    A shared cache (a CDN or proxy) considers its copy fresh for a third of this time. For the remaining time it serves
    the copy while it fetches a new one, so that a crowd of clients costs one request.
    """
    fresh = max(1, seconds // 3)
    return f"public, max-age={seconds}, s-maxage={fresh}, stale-while-revalidate={seconds - fresh}"


def private(seconds: int) -> str:
    """Return the Cache-Control header of a response about a wallet, which only the caller's own cache may store."""
    return f"private, max-age={seconds}"


# Smaller bodies are not worth compressing. Bodies from the second size on are compressed in a thread.
COMPRESS_FROM_BYTES = 512
COMPRESS_IN_THREAD_BYTES = 128 * 1_024
_GZIP_LEVEL = 5

JSON = "application/json; charset=utf-8"

# A rendered body's memory overhead, and the total for one endpoint: the positions of a wallet with thousands take a few
# megabytes.
_OVERHEAD_BYTES = 4_000
CACHED_BYTES = 20_000_000

_HEADERS_OF_304 = ("ETag", "Cache-Control", "Vary", *CORS)


class _Encoded:
    """A body in one encoding. `ready`: the full response. `unchanged`: the 304 for clients whose copy is current."""

    __slots__ = ("body", "headers", "ready", "unchanged")

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self.body = body
        self.headers = headers
        self.ready = SharedAnswer(200, headers, body)
        self.unchanged = SharedAnswer(304, headers)


class Rendered:
    """A rendered body, plain and compressed, each with its own strong ETag."""

    __slots__ = ("_compressed", "_plain")

    def __init__(
        self, body: bytes, cache_control: str, *, content_type: str = JSON, encoded: bytes | None = None
    ) -> None:
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        headers = {
            "Content-Type": content_type,
            "Cache-Control": cache_control,
            "ETag": f'"{digest}"',
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
            **CORS,
        }
        self._plain = _Encoded(body, headers)
        self._compressed: _Encoded | None = None
        if encoded is not None:
            compressed = {**headers, "ETag": f'"{digest}-gzip"', "Content-Encoding": "gzip"}
            self._compressed = _Encoded(encoded, compressed)

    @property
    def body(self) -> bytes:
        return self._plain.body

    @property
    def size(self) -> int:
        """Return the approximate size in memory, in bytes."""
        return _OVERHEAD_BYTES + len(self.body) + (0 if self._compressed is None else len(self._compressed.body))

    @property
    def tag(self) -> str:
        """Return the ETag of the plain body. Equal bytes have equal tags."""
        return self._plain.headers["ETag"]

    @classmethod
    async def make(cls, body: bytes, cache_control: str, *, content_type: str = JSON) -> Rendered:
        encoded: bytes | None = None
        if len(body) >= COMPRESS_IN_THREAD_BYTES:
            encoded = await asyncio.to_thread(_compress, body)
        elif len(body) >= COMPRESS_FROM_BYTES:
            encoded = _compress(body)
        return cls(body, cache_control, content_type=content_type, encoded=encoded)

    def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the prepared response, to which only the request id and the date are added. For an unusual request
        (HEAD, or a connection to be closed), return the result of `response` instead."""
        if request.method != "GET" or not request.keep_alive or request.version != HttpVersion11:
            return self.response(request)
        encoded, is_current = self._negotiate(request)
        return encoded.unchanged if is_current else encoded.ready

    def response(self, request: web.Request, status: int = 200) -> web.Response:
        """Return the body in an encoding that the client accepts, or a 304 if the client's copy is current. The caller
        may add headers to this response, but not to the one that `answer` returns."""
        encoded, is_current = self._negotiate(request)
        if is_current and status == 200:
            return web.Response(status=304, headers={name: encoded.headers[name] for name in _HEADERS_OF_304})
        return web.Response(body=encoded.body, status=status, headers=encoded.headers)

    def _negotiate(self, request: web.Request) -> tuple[_Encoded, bool]:
        accepts, tags = request.headers.get("Accept-Encoding"), request.headers.get("If-None-Match")
        encoded = self._plain
        if accepts is not None and self._compressed is not None and _accepts_gzip(accepts):
            encoded = self._compressed
        return encoded, tags is not None and _matches(tags, encoded.headers["ETag"])


class SharedAnswer(web.StreamResponse):
    """A complete response to an HTTP/1.1 GET. It has no per-request state, so all clients share it."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        kept = {name: headers[name] for name in (_HEADERS_OF_304 if status == 304 else headers)}
        super().__init__(status=status, headers=kept)
        if status != 304:
            kept["Content-Length"] = str(len(body))
        lines = [f"HTTP/1.1 {status} {self.reason}", *(f"{name}: {value}" for name, value in kept.items())]
        self._text = "\r\n".join(lines)
        self.body = body
        self._second = 0
        self._dated = b""

    @property
    def keep_alive(self) -> bool:
        return True

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._dated = f"{self._text}\r\nDate: {formatdate(now, usegmt=True)}\r\nX-Request-Id: ".encode("latin-1")
        # Head and body in one write: system calls are most of the cost of a read.
        head = b"%b%b\r\n\r\n" % (self._dated, fresh_request_id().encode("ascii"))
        writer = request.writer
        await writer.write_eof(head + self.body)
        return writer

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing, because `prepare` has written everything."""


@dataclass(frozen=True, slots=True)
class RenderedBody(Generic[B]):
    """A body in two forms: a struct for pages, and rendered bytes for the API."""

    body: B
    rendered: Rendered

    @classmethod
    async def make(cls, body: B, cache_control: str) -> RenderedBody[B]:
        return cls(body, await Rendered.make(to_json(body), cache_control))


def json_response(
    body: object, status: int = 200, *, cache_control: str = NO_STORE, headers: dict[str, str] | None = None
) -> web.Response:
    all_headers = {"Cache-Control": cache_control, "X-Content-Type-Options": "nosniff", **(headers or {})}
    return web.Response(
        body=to_json(body), status=status, headers=all_headers, content_type="application/json", charset="utf-8"
    )


class RenderedCache:
    """A cache of one endpoint's rendered bodies, by key. Each body is rendered once per version."""

    def __init__(self, version: Callable[[], Hashable], cache_control: str) -> None:
        self._version = version
        self._cache_control = cache_control
        self._cache: VersionedCache[Hashable, Rendered] = VersionedCache(CACHED_BYTES, lambda each: each.size)

    async def get(self, key: Hashable, render: Callable[[], Awaitable[bytes] | bytes]) -> Rendered:
        """Return the body of this key. Calls with equal keys must pass the same `render`."""

        async def make() -> Rendered:
            body = render()
            return await Rendered.make(body if isinstance(body, bytes) else await body, self._cache_control)

        return await self._cache.get(key, self._version, make)

    async def answer(
        self, request: web.Request, key: Hashable, render: Callable[[], Awaitable[bytes] | bytes]
    ) -> web.StreamResponse:
        return (await self.get(key, render)).answer(request)


def _compress(body: bytes) -> bytes:
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


def _accepts_gzip(accepts: str) -> bool:
    if ";" not in accepts:
        return "gzip" in accepts or "*" in accepts
    qualities: dict[str, float] = {}
    for part in accepts.split(","):
        name, _, parameters = part.partition(";")
        quality = 1.0
        if parameters.strip().startswith("q="):
            try:
                quality = float(parameters.strip()[2:])
            except ValueError:
                quality = 0.0
        qualities[name.strip().lower()] = quality
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0


def _matches(tags: str, tag: str) -> bool:
    """Return whether an If-None-Match header lists the tag. Tags are compared weakly, as RFC 9110 specifies."""
    if tags in (tag, "*"):
        return True
    return any(part.strip().removeprefix("W/") == tag for part in tags.split(","))
