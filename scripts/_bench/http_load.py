"""An HTTP load generator in one process, and the server for the baseline. `python -m scripts._bench.http_load PORT
FILE` runs the server, which responds to every request with the bytes of a file."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop
from aiohttp import web

# None of our modules are imported here: the constant server must be a bare handler.


@dataclass(frozen=True)
class LoadResult:
    rate: float
    p99_ms: float


_HEAD = re.compile(rb"HTTP/1\.1 200 .*?\r\nContent-Length: (\d+)\r\n.*?\r\n\r\n", re.DOTALL)


class _Client(asyncio.Protocol):
    """A client connection with minimal overhead. It sends the next request as soon as the previous response has
    arrived."""

    _transport: asyncio.Transport

    def __init__(self, requests: Iterator[bytes], times: list[float]) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._requests, self._times = requests, times
        self._left = 0
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is no subclass of it
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._left == 0:
            head = _HEAD.match(data)  # the head arrives in one piece
            if head is None:
                self._fail(data[:200].decode("latin-1"))
                return
            self._left = head.end() + int(head[1])
        self._left -= len(data)
        if self._left == 0:
            self._times.append((time.perf_counter() - self._sent_at) * 1_000)
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"a connection was lost: {exc}")

    def close(self) -> None:
        self._transport.abort()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._sent_at = time.perf_counter()
            self._transport.write(request)
        elif not self.done.done():
            self.done.set_result(None)

    def _fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


def get(port: int, path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()


def post(port: int, path: str, body: str) -> bytes:
    content = body.encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def load(port: int, requests: Sequence[bytes], connections: int) -> LoadResult:
    """Send each request once. Raise RuntimeError at the first response whose status is not 200."""
    loop, left = asyncio.get_running_loop(), iter(requests)
    clients: list[_Client] = []
    times: list[float] = []
    started = time.perf_counter()
    try:
        for _ in range(connections):
            _, client = await loop.create_connection(lambda: _Client(left, times), "127.0.0.1", port)
            clients.append(client)
        await asyncio.gather(*(client.done for client in clients))
        seconds = time.perf_counter() - started
    finally:
        for client in clients:
            client.close()
        await asyncio.sleep(0)
    return LoadResult(len(times) / seconds, p99(times))


def p99(times: Sequence[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


def load_blocking(port: int, requests: Sequence[bytes], connections: int) -> LoadResult:
    return asyncio.run(load(port, requests, connections))


def _serve(port: int, body: bytes) -> None:
    async def constant(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/", constant)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, loop=uvloop.new_event_loop(), print=None)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]).read_bytes())
