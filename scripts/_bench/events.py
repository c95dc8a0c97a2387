"""`./vpm bench events`: what idle event streams cost, and how soon an event is everywhere.

A real API process over a real database. 2,000 readers of one wallet open streams and wait; the process's resident
memory before and after tells what they cost (target: under 150 MB). Then events are added to the log, one after the
other, and each is timed from before it is written until the last reader has it (target: under 500 ms). Readers are bare
sockets in this process, so that what is measured is mostly the service. Beside it: one bare write to as many bare
sockets, which is what the kernel and the readers cost alone. `--quick`: 200 readers.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import sys
import time
from pathlib import Path

from core.agent.notices import log as event_log
from core.agent.notices.kinds import EventType, source_of
from core.agent.notices.log import Draft
from core.db.engine import connect
from core.hexadecimal import hex_of
from core.paths import REPOSITORY
from scripts._bench.harness import Figure, database, ground, report, resident_mb, started
from scripts._local.ports import free_port
from scripts._local.process import SpawnPlan

EVENTS = 20
OPENING_AT_ONCE = 50
WALLET = b"\x42" * 20
TARGET_MB = 150.0
TARGET_MS = 500.0
READY_SECONDS = 60.0


class Reader(asyncio.Protocol):
    """One stream's reader, which counts messages and says when one has come."""

    def __init__(self, crowd: ReaderCrowd) -> None:
        self._crowd = crowd

    def data_received(self, data: bytes) -> None:
        if b"comes next" in data:
            self._crowd.opened += 1
        if b"data: " in data or data == b"x":
            self._crowd.arrived(time.perf_counter())


class ReaderCrowd:
    """All readers together: how many are open, and when the last message arrived."""

    def __init__(self) -> None:
        self.opened = 0
        self.times: list[float] = []
        self._count = 0
        self._all = asyncio.Event()

    def expect(self, count: int) -> None:
        self.times, self._count = [], count
        self._all.clear()

    def arrived(self, at: float) -> None:
        self.times.append(at)
        if len(self.times) >= self._count:
            self._all.set()

    async def everybody(self) -> None:
        async with asyncio.timeout(30):
            await self._all.wait()


async def _measure(database_url: str, port: int, pid: int, streams: int) -> tuple[float, float, float]:
    crowd, loop = ReaderCrowd(), asyncio.get_running_loop()
    request = (
        f"GET /api/agent/v1/events?wallet={hex_of(WALLET)} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        "Accept: text/event-stream\r\n\r\n"
    ).encode()
    await asyncio.sleep(2)  # the process has settled
    before = resident_mb(pid)
    room = asyncio.Semaphore(OPENING_AT_ONCE)
    transports: list[asyncio.Transport] = []

    async def open_one() -> None:
        async with room:
            transport, _ = await loop.create_connection(lambda: Reader(crowd), "127.0.0.1", port)
            transport.write(request)
            transports.append(transport)

    await asyncio.gather(*(open_one() for _ in range(streams)))
    async with asyncio.timeout(60):
        while crowd.opened < streams:
            await asyncio.sleep(0.1)
    await asyncio.sleep(2)
    after = resident_mb(pid)
    spread = []
    async with await connect(database_url, autocommit=False) as connection:
        for number in range(EVENTS):
            crowd.expect(streams)
            began = time.perf_counter()
            draft = Draft(WALLET, EventType.TEST, source_of(EventType.TEST, "bench", number), '{"message":"bench"}')
            async with connection.transaction():
                await event_log.append(connection, [draft])
            await crowd.everybody()
            spread.append((max(crowd.times) - began) * 1000)
            await asyncio.sleep(0.2)
    for transport in transports:
        transport.abort()
    bare = statistics.median([await _bare(streams) for _ in range(3)])
    return after - before, statistics.median(spread), bare


async def _bare(streams: int) -> float:
    """Milliseconds from the first of as many bare writes until the last bare reader has its byte."""
    crowd, loop = ReaderCrowd(), asyncio.get_running_loop()
    writers: list[asyncio.StreamWriter] = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    transports = []
    for _ in range(streams):
        transport, _ = await loop.create_connection(lambda: Reader(crowd), "127.0.0.1", port)
        transports.append(transport)
    while len(writers) < streams:
        await asyncio.sleep(0.05)
    crowd.expect(streams)
    began = time.perf_counter()
    for writer in writers:
        writer.write(b"x")
    await crowd.everybody()
    took = (max(crowd.times) - began) * 1000
    for each in (*transports, *(writer.transport for writer in writers)):
        each.abort()
    server.close()
    return took


def main(json_path: Path | None, *, quick: bool) -> int:
    streams = 200 if quick else 2_000
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ground("events") as folder, database(folder) as url:
        port, ready = free_port(), folder / "ready"
        env = {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": url,
            "VPM_PORT": str(port),
            "VPM_API_METRICS_PORT": "0",
            "VPM_READY_FILE": str(ready),
        }
        plan = SpawnPlan("api", (sys.executable, "-m", "api"), env=env, cwd=str(REPOSITORY))
        with started(plan, folder / "api.log", ready.exists, READY_SECONDS, "the API"):
            pid = int(json.loads(ready.read_text())["pid"])
            idle, everyone, bare = asyncio.run(_measure(url, port, pid, streams))
    rows = [
        Figure(f"{streams:,} idle streams, MB", idle, most=TARGET_MB),
        Figure("an event to all of them, ms", everyone, bare, most=TARGET_MS),
    ]
    return report("events", rows, json_path)
