"""A request of one surface made inside another request of the same caller, and its answer kept instead of written.

A tool's call becomes the REST request it stands for, so that both go through the same handler with the same limits:
who calls is who called the tool.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiohttp import HttpVersion10, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from api.http.requests import REQUEST_ID, request_id

# What says who calls and is written by whoever stands in front of us.
FORWARDED = "X-Forwarded-For"
_FOUND = web.RequestKey("found", web.UrlMappingMatchInfo)


def subrequest(
    outer: web.Request,
    method: str,
    path: str,
    *,
    match: Mapping[str, str],
    query: Mapping[str, str],
    headers: Sequence[tuple[str, str]],
    kept: Sequence[str],
    body: bytes,
) -> web.Request:
    """`match`: the path's parameters. `headers`: those of the new request. `kept`: the names of those of the outer
    request that it has, too, each as often; nothing else of the outer one's is in it."""
    given = CIMultiDict(headers)
    for name in (FORWARDED, *kept):
        for value in outer.headers.getall(name, ()):
            given.add(name, value)
    if body:
        given["Content-Length"] = str(len(body))
    url = URL.build(path=path, query=query)
    message = RawRequestMessage(
        method=method,
        path=str(url),
        version=HttpVersion10,  # no answer is written as it stands in memory: this one is read again
        headers=CIMultiDictProxy(given),
        raw_headers=tuple((name.encode(), value.encode()) for name, value in given.items()),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=url,
    )
    loop = asyncio.get_running_loop()
    # All of it is here. Over its limit a stream would stop the reading of the outer connection, and whoever refuses the
    # body by its length never reads it on.
    payload = StreamReader(outer.protocol, limit=max(2**16, len(body)), loop=loop)
    payload.feed_data(body)
    payload.feed_eof()
    inner = _Routed(
        message,
        payload,
        outer.protocol,
        _Unwritten(outer),
        outer.task,
        loop,
        client_max_size=2**20,
        remote=outer.remote,
    )
    inner[REQUEST_ID] = request_id(outer)
    inner[_FOUND] = web.UrlMappingMatchInfo(dict(match), outer.match_info.route)
    return inner


class _Routed(web.Request):
    """A request whose parameters of the path were found before."""

    @property
    def match_info(self) -> web.UrlMappingMatchInfo:
        return self[_FOUND]


class _Unwritten(AbstractStreamWriter):
    """Where a handler writes an answer that has to reach the caller before it goes on. It goes out with the outer
    answer; that nobody is there any more is said at once."""

    def __init__(self, outer: web.Request) -> None:
        self._outer = outer

    def _require_reader(self) -> None:
        transport = self._outer.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("Whoever asked is gone.")

    async def write(self, _chunk: bytes | bytearray | memoryview) -> None:
        self._require_reader()

    async def write_eof(self, _chunk: bytes = b"") -> None:
        self._require_reader()

    async def drain(self) -> None:
        self._require_reader()

    async def write_headers(self, _status_line: str, _headers: CIMultiDict[str]) -> None:
        self._require_reader()

    def enable_compression(self, _encoding: str = "deflate", _strategy: int | None = None) -> None:
        """Nothing is compressed: nothing is written."""

    def enable_chunking(self) -> None:
        """Nothing is written in parts, either."""
