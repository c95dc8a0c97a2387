"""An internal request made on behalf of an outer one; its answer is returned instead of written.

A tool call becomes the REST request for the same operation, with the same handler, limits and caller.
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

# Identifies the caller; set by the proxy in front of us.
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
    """Return the internal request. `match`: the path's parameters. `headers`: the headers of the new request. `kept`:
    the names of headers copied from the outer request; nothing else of it is copied."""
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
        version=HttpVersion10,  # prevents prepared answers: this one is read again
        headers=CIMultiDictProxy(given),
        raw_headers=tuple((name.encode(), value.encode()) for name, value in given.items()),
        should_close=False,
        compression=None,
        upgrade=False,
        chunked=False,
        url=url,
    )
    loop = asyncio.get_running_loop()
    # The whole body is here. A stream over its limit would pause the outer connection, and a handler that refuses the
    # body by its length would never resume it.
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
    """A request whose path parameters are already known."""

    @property
    def match_info(self) -> web.UrlMappingMatchInfo:
        return self[_FOUND]


class _Unwritten(AbstractStreamWriter):
    """The writer for handlers that send their answer before they go on. The answer goes out with the outer one; a lost
    caller is reported at once."""

    def __init__(self, outer: web.Request) -> None:
        self._outer = outer

    def _require_reader(self) -> None:
        transport = self._outer.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("The caller has disconnected.")

    async def write(self, _chunk: bytes | bytearray | memoryview) -> None:
        self._require_reader()

    async def write_eof(self, _chunk: bytes = b"") -> None:
        self._require_reader()

    async def drain(self) -> None:
        self._require_reader()

    async def write_headers(self, _status_line: str, _headers: CIMultiDict[str]) -> None:
        self._require_reader()

    def enable_compression(self, _encoding: str = "deflate", _strategy: int | None = None) -> None:
        """Do nothing, as nothing is written."""

    def enable_chunking(self) -> None:
        """Do nothing, as nothing is written."""
