"""Bodies that are rendered once per change and served from memory, with gzip, strong ETags and 304.

The usual answer is serialized in advance, head included, so that it takes a single write: see `Rendered.answer`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Generic, TypeVar

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from api.cache import VersionedCache
from api.http.body import Body
from api.http.operation import Cors
from api.http.requests import fresh_request_id
from core.money import to_json

B = TypeVar("B", bound=Body)

NO_STORE = "no-store"
# Any cache, or only the caller's own, may keep these and must revalidate each time: an unchanged body costs a 304.
REVALIDATED = "public, no-cache"
OWN_REVALIDATED = "private, no-cache"


def shared(seconds: int) -> str:
    """Return the Cache-Control of a public read that a client may keep for so long.

    A shared cache (a CDN, a caching proxy) holds its copy for a third of that, so it is never as old as a client may
    keep one; for the other two thirds it gives out the old copy while it fetches a new one, so a crowd costs one
    request.
    """
    fresh = max(1, seconds // 3)
    return f"public, max-age={seconds}, s-maxage={fresh}, stale-while-revalidate={seconds - fresh}"


def own(seconds: int) -> str:
    """Return the Cache-Control of an answer that names a wallet: for the caller's own cache only."""
    return f"private, max-age={seconds}"


# Smaller bodies are not worth compressing; larger than the second, they are compressed in a thread.
COMPRESS_FROM_BYTES = 512
COMPRESS_ASIDE_BYTES = 128 * 1_024
_GZIP_LEVEL = 5

JSON = "application/json; charset=utf-8"

# The default CORS headers: rendered bodies are shared by surfaces.
_CORS = Cors().headers

# A rendered body's memory overhead, and the total for one endpoint: the positions of a wallet with thousands take a few
# megabytes.
_OVERHEAD_BYTES = 4_000
CACHED_BYTES = 20_000_000

_KEPT = ("ETag", "Cache-Control", "Vary", *_CORS)


class _Encoded:
    """A body in one encoding: the full answer (`ready`), and the 304 for clients that have it (`unchanged`)."""

    __slots__ = ("body", "headers", "ready", "tag", "unchanged")

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self.body = body
        self.headers = headers
        self.tag = headers["ETag"]
        self.ready = SharedAnswer(200, headers, body)
        self.unchanged = SharedAnswer(304, headers)


class Rendered:
    """A rendered body. Each encoding has its own strong ETag, as the bytes differ."""

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
            **_CORS,
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
        """The approximate number of bytes in memory."""
        return _OVERHEAD_BYTES + len(self.body) + (0 if self._compressed is None else len(self._compressed.body))

    @property
    def tag(self) -> str:
        """The ETag of the plain body: equal for equal bytes."""
        return self._plain.tag

    @classmethod
    async def make(cls, body: bytes, cache_control: str, *, content_type: str = JSON) -> Rendered:
        encoded: bytes | None = None
        if len(body) >= COMPRESS_ASIDE_BYTES:
            encoded = await asyncio.to_thread(_compress, body)
        elif len(body) >= COMPRESS_FROM_BYTES:
            encoded = _compress(body)
        return cls(body, cache_control, content_type=content_type, encoded=encoded)

    def answer(self, request: web.Request) -> web.StreamResponse:
        """Return the prepared answer; only the request id and the date are added when it is sent.

        Unusual requests (HEAD, a connection to be closed) get a `response`.
        """
        if request.method != "GET" or not request.keep_alive or request.version != HttpVersion11:
            return self.response(request)
        taken, is_held = self._asked(request)
        return taken.unchanged if is_held else taken.ready

    def response(self, request: web.Request, status: int = 200) -> web.Response:
        """Return the body in an encoding that the client accepts, or 304 if it has these bytes.

        Headers may be added to this answer, unlike to that of `answer`.
        """
        taken, is_held = self._asked(request)
        if is_held and status == 200:
            return web.Response(status=304, headers={name: taken.headers[name] for name in _KEPT})
        return web.Response(body=taken.body, status=status, headers=taken.headers)

    def _asked(self, request: web.Request) -> tuple[_Encoded, bool]:
        """Return the encoding that the client accepts, and whether it has these bytes."""
        accepts, tags = request.headers.get("Accept-Encoding"), request.headers.get("If-None-Match")
        taken = self._plain
        if accepts is not None and self._compressed is not None and _takes_gzip(accepts):
            taken = self._compressed
        return taken, tags is not None and _holds(tags, taken.tag)


class SharedAnswer(web.StreamResponse):
    """A complete answer to an HTTP/1.1 GET, shared by all clients: it holds no state of a request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        kept = {name: headers[name] for name in (_KEPT if status == 304 else headers)}
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
        """Do nothing: `prepare` wrote everything."""


@dataclass(frozen=True, slots=True)
class Shown(Generic[B]):
    """A body that pages show too: the struct for them, and the rendered bytes for the API."""

    body: B
    rendered: Rendered

    @classmethod
    async def make(cls, body: B, cache_control: str) -> Shown[B]:
        return cls(body, await Rendered.make(to_json(body), cache_control))


class RenderedCache:
    """The rendered bodies of one endpoint by key, each made once per version and served with an ETag."""

    def __init__(self, version: Callable[[], Hashable], cache_control: str) -> None:
        self._version = version
        self._cache_control = cache_control
        self._cache: VersionedCache[Hashable, Rendered] = VersionedCache(CACHED_BYTES, lambda each: each.size)

    async def get(self, key: Hashable, render: Callable[[], Awaitable[bytes] | bytes]) -> Rendered:
        """Return the body of this key. `render` must be the same for equal keys."""

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


def _takes_gzip(accepts: str) -> bool:
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


def _holds(tags: str, tag: str) -> bool:
    """Compare as RFC 9110 asks for If-None-Match: weakly."""
    if tags in (tag, "*"):
        return True
    return any(part.strip().removeprefix("W/") == tag for part in tags.split(","))
