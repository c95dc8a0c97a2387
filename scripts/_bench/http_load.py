"""HTTP load from one process: many keep-alive connections, each with one request under way, as little work as possible
per answer, so that the server is what is measured."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import cast


@dataclass(frozen=True)
class LoadResult:
    """What was measured under load; latencies in milliseconds."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float
    worst_ms: float
    bytes_received: int

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


class _Client(asyncio.Protocol):
    """A connection that sends the same request again as soon as it is answered."""

    def __init__(self, request: bytes, run: _Run) -> None:
        self._request = request
        self._run = run
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._left = 0
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own is no subclass of it
        self._send()

    def data_received(self, data: bytes) -> None:
        self._run.received += len(data)
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
        self._sent_at = time.perf_counter()
        self._transport.write(self._request)


class _Run:
    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.latencies: list[float] = []
        self.received = 0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, seconds: float) -> bool:
        self.latencies.append(seconds)
        if len(self.latencies) >= self.wanted:
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
    run, loop = _Run(requests), asyncio.get_running_loop()
    clients: list[_Client] = []
    started = time.perf_counter()
    try:
        for _ in range(connections):
            _, client = await loop.create_connection(lambda: _Client(request, run), "127.0.0.1", port)
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
        worst_ms=ordered[-1] * 1000,
        bytes_received=run.received,
    )
