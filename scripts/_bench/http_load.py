"""HTTP load from one process: many keep-alive connections, each with one request under way, as little work as possible
per answer, so that the server is what is measured.

`python -m scripts._bench.http_load PORT CONNECTIONS FILE [PATH]` gets the paths of a file, or posts its bodies to PATH,
one a line, each once, and prints what it measured: for a server that shares its process with whoever made the file.
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


@dataclass(frozen=True)
class LoadResult:
    """What was measured under load; latencies in milliseconds."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class _Client(asyncio.Protocol):
    """A connection that sends the next request as soon as one is answered."""

    def __init__(self, requests: Iterator[bytes], run: _Run) -> None:
        self._requests = requests
        self._run = run
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
        if request is None:
            return
        self._sent_at = time.perf_counter()
        self._transport.write(request)


class _Run:
    def __init__(self, requests: int) -> None:
        self.requests = requests
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, seconds: float) -> bool:
        self.latencies.append(seconds)
        if len(self.latencies) >= self.requests:
            if not self.done.done():
                self.done.set_result(None)
            return False
        return True

    def failed(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


async def load(
    port: int, path: str, requests: int, *, connections: int = 64, headers: tuple[str, ...] = ()
) -> LoadResult:
    """`requests` GETs of `path`, over so many connections; RuntimeError at the first that is not 200 or 304."""
    lines = (f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *headers, "", "")
    request = "\r\n".join(lines).encode()
    return await _load(port, itertools.repeat(request), requests, connections)


async def get_each(port: int, paths: Sequence[bytes], *, connections: int) -> LoadResult:
    requests = (b"GET %b HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (path, port) for path in paths)
    return await _load(port, requests, len(paths), connections)


async def post_each(port: int, path: str, bodies: Sequence[bytes], *, connections: int) -> LoadResult:
    """Each body once, as JSON; RuntimeError at the first that is not answered with 200."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: "
    requests = (head.encode() + b"%d\r\n\r\n%b" % (len(body), body) for body in bodies)
    return await _load(port, requests, len(bodies), connections)


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
    return LoadResult(
        requests=len(ordered),
        seconds=seconds,
        p50_ms=ordered[len(ordered) // 2] * 1000,
        p99_ms=ordered[len(ordered) * 99 // 100] * 1000,
    )


if __name__ == "__main__":
    _port, _connections, _file, *_path = sys.argv[1:]
    _lines = Path(_file).read_bytes().splitlines()
    _work = (
        post_each(int(_port), _path[0], _lines, connections=int(_connections))
        if _path
        else get_each(int(_port), _lines, connections=int(_connections))
    )
    print(json.dumps(asdict(asyncio.run(_work))))
