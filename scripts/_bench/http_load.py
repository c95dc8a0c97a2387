"""HTTP load from one process, and the constant server it is compared with.

`python -m scripts._bench.http_load PORT CONNECTIONS FILE [PATH]` gets the paths of a file, or posts its bodies to PATH,
one a line, each once, and prints what it measured: for a server that shares its process with the benchmark.
`python -m scripts._bench.http_load serve PORT FILE` answers every request with the bytes of a file.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import uvloop
from aiohttp import web


@dataclass(frozen=True)
class LoadResult:
    """What was measured under load; latencies in milliseconds."""

    rate: float
    p50_ms: float
    p99_ms: float


class _Client(asyncio.Protocol):
    """A connection that sends the next request as soon as one is answered, with as little work as possible."""

    def __init__(self, requests: Iterator[bytes], run: _Run) -> None:
        self._requests, self._run = requests, run
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._left = 0
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is no subclass of it
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._left > 0:
            self._left -= len(data)
        else:
            head = self._head + data
            end = head.find(b"\r\n\r\n")
            if end < 0:
                self._head = head
                return
            self._head = b""
            if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 304")):
                self._run.failed(head[:200].decode("latin-1"))
                return
            at = head.find(b"ontent-Length: ", 0, end)
            length = 0 if at < 0 else int(head[at + 15 : head.index(b"\r", at)])
            self._left = length - (len(head) - end - 4)
        if self._left == 0 and self._run.answered(time.perf_counter() - self._sent_at):
            self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.failed(f"a connection was lost: {exc}")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _send(self) -> None:
        assert self._transport is not None
        request = next(self._requests, None)
        if request is not None:
            self._sent_at = time.perf_counter()
            self._transport.write(request)


class _Run:
    def __init__(self, requests: int) -> None:
        self.requests = requests
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, seconds: float) -> bool:
        self.latencies.append(seconds)
        if len(self.latencies) < self.requests:
            return True
        if not self.done.done():
            self.done.set_result(None)
        return False

    def failed(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


async def load(port: int, path: str, requests: int, connections: int) -> LoadResult:
    """Send so many GETs of `path`; RuntimeError at the first answer that is not 200 or 304."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    return await _load(port, itertools.repeat(request), requests, connections)


async def _each(port: int, lines: Sequence[bytes], connections: int, path: str | None) -> LoadResult:
    """Get each path once, or post each body once to `path`."""
    get = b"GET %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n"
    post = b"POST %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    requests = (post % (path.encode(), port, len(one), one) if path else get % (one, port) for one in lines)
    return await _load(port, requests, len(lines), connections)


async def _load(port: int, requests: Iterator[bytes], count: int, connections: int) -> LoadResult:
    run, loop = _Run(count), asyncio.get_running_loop()
    clients: list[_Client] = []
    started = time.perf_counter()
    try:
        for _ in range(connections):
            _, client = await loop.create_connection(lambda: _Client(requests, run), "127.0.0.1", port)
            clients.append(client)
        await run.done
        seconds = time.perf_counter() - started
    finally:
        for client in clients:
            client.close()
        await asyncio.sleep(0)
    ordered = sorted(run.latencies)
    p50, p99 = (ordered[len(ordered) * percent // 100] * 1000 for percent in (50, 99))
    return LoadResult(len(ordered) / seconds, p50, p99)


def _serve(port: int, body: bytes) -> None:
    async def constant(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/", constant)
    web.run_app(app, host="127.0.0.1", port=port, access_log=None, loop=uvloop.new_event_loop(), print=None)


def _main(words: Sequence[str]) -> None:
    if words[0] == "serve":
        _serve(int(words[1]), Path(words[2]).read_bytes())
        return
    port, connections, file, *path = words
    lines = Path(file).read_bytes().splitlines()
    result = asyncio.run(_each(int(port), lines, int(connections), path[0] if path else None))
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    _main(sys.argv[1:])
