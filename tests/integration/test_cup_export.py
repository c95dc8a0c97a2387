"""The export's readers: few at a time, and none of them may keep a database connection by not reading."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from api.cup import download
from core.cup import export
from core.db.engine import Connection
from tests.support.cup_rig import BASE, Cup, cup_door
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXPORT = "vpm-cup-export"
EXPORTS = "pg_stat_activity WHERE datname = current_database() AND application_name = %s"
SCORES = 150_000
"""Enough lines (some 20 MB) that no socket's buffers take the whole file."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cup(database_url: str) -> AsyncIterator[Cup]:
    async with cup_door(database_url, VPM_TRUST_PROXY="1") as door:
        await door.run(
            "INSERT INTO cup_score SELECT '2020-W01', '0x' || lpad(i::text, 40, '0'), -i, now() "
            "FROM generate_series(1, %s) i",
            SCORES,
        )
        yield door


@asynccontextmanager
async def silent(cup: Cup, address: str = "203.0.113.1") -> AsyncIterator[asyncio.StreamReader]:
    """Request the export and read nothing until the test does."""
    host, port = cup.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    try:
        writer.write(f"GET {BASE}/export HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-For: {address}\r\n\r\n".encode())
        await writer.drain()
        yield reader
    finally:
        writer.close()


async def connections(cup: Cup) -> int:
    found = await cup.value(f"SELECT count(*) FROM {EXPORTS}", EXPORT)
    return int(found)


async def are_open(cup: Cup, wanted: int) -> None:
    async def counted() -> bool:
        return await connections(cup) == wanted

    await until(counted, f"{wanted} open connections")


async def whole_export(cup: Cup) -> bytes:
    async with cup.session.get(cup.url + BASE + "/export") as response:
        assert response.status == 200
        return await response.read()


@pytest.mark.thorough
async def test_stalled_readers_keep_no_connection(cup: Cup) -> None:
    async with silent(cup), silent(cup, "198.51.100.2"):
        await are_open(cup, download.AT_ONCE)
        refused = await cup.get("/export")
        assert (refused.status, refused.body["error"]) == (503, "busy")
        assert refused.body["message"]
        assert refused.body["meta"]["version"] == "service-cup-api-v1"
        assert int(refused.headers["Retry-After"]) >= 1
        await are_open(cup, 0)
    exported = await whole_export(cup)  # and a client that reads gets all of it
    assert exported.splitlines()[-1].startswith(b'{"type":"end"')
    assert exported.count(b'"type":"score"') == SCORES


@pytest.mark.thorough
async def test_one_address_cannot_block_the_export_for_others(cup: Cup) -> None:
    async with silent(cup):
        await are_open(cup, 1)
        headers = {"X-Forwarded-For": "203.0.113.1"}
        async with cup.session.get(cup.url + BASE + "/export", headers=headers) as response:
            body = await response.json()
        assert (response.status, body["error"]) == (429, "rate_limited")
        assert int(response.headers["Retry-After"]) >= 1
        await whole_export(cup)


async def test_a_reader_that_takes_too_long_is_cut_off(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "SLOW_SECONDS", 60.0)  # no single piece is what ends it
    monkeypatch.setattr(download, "MAX_SECONDS", 2.0)
    await are_open(cup, 0)  # until it is noticed that a reader of the test before went away, he has his place
    async with silent(cup) as reader:
        await are_open(cup, 1)
        await are_open(cup, 0)
        received = b""
        with contextlib.suppress(ConnectionError):
            while more := await reader.read(1 << 20):
                received += more
        assert b'{"type":"export"' in received
        assert b'{"type":"end"' not in received


async def test_losing_the_database_during_an_export_aborts_it(cup: Cup) -> None:
    await are_open(cup, 0)
    async with silent(cup) as reader:
        await are_open(cup, 1)
        while not await cup.value(f"SELECT pid FROM {EXPORTS} AND query LIKE 'FETCH%%cup_score%%'", EXPORT):
            await asyncio.sleep(0.05)
        await cup.run(f"SELECT pg_terminate_backend(pid) FROM {EXPORTS}", EXPORT)
        received = b""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while more := await reader.read(1 << 20):
                    received += more
    assert received.count(b"HTTP/1.1") == 1
    assert b'{"type":"export"' in received
    assert b'{"type":"end"' not in received


async def test_a_database_that_is_away_is_reported(cup: Cup, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lost(connection: Connection) -> AsyncGenerator[bytes]:
        await connection.close()
        async for piece in export.lines(connection):
            yield piece

    await are_open(cup, 0)
    monkeypatch.setattr(download, "lines", lost)
    answer = await cup.get("/export")
    assert (answer.status, answer.body["error"]) == (503, "unavailable")


async def test_the_headers_alone_cost_no_connection(cup: Cup) -> None:
    """So they are sent even while no more exports may be under way."""
    await are_open(cup, 0)
    async with silent(cup), silent(cup, "198.51.100.2"):
        await are_open(cup, download.AT_ONCE)
        async with cup.session.head(cup.url + BASE + "/export") as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "application/x-ndjson"
        assert await connections(cup) == download.AT_ONCE
