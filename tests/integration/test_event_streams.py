"""Event streams: where they start, their heartbeats, limits and ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from api import streams
from api.agent import routes
from api.agent.errors import error_body
from api.agent.facts import Links
from api.agent.notices import events as event_channels
from api.agent.notices.events import EventChannels, NoticeHub
from api.app import application, serve
from api.context import open_context
from api.operations import Surface
from core.agent.notices import log as event_log
from core.agent.notices.log import Draft, EventType, source_of
from core.config import ApiSecrets, Settings
from core.db.engine import ConnectionPool, make_pool
from core.service.cancelling import cancel_and_wait
from tests.support.event_reader import Message, messages
from tests.waiting import PATIENCE, until

LINKS = Links("http://127.0.0.1:1", None, "0x" + "00" * 20)
WALLET = b"\x11" * 20
NAME = "0x" + WALLET.hex()
PATH = "/api/agent/v1/events"


@contextlib.asynccontextmanager
async def service(database_url: str, monkeypatch: pytest.MonkeyPatch, **how: Any) -> AsyncIterator[str]:
    """Serve only the event channels, with a real database and short streams."""
    window = str(how.pop("window_seconds", 300.0))
    given = {"DATABASE_URL": database_url, "VPM_AGENT_STREAM_SECONDS": window, "VPM_TRUST_PROXY": "1"}
    settings = Settings.model_validate(given)
    tasks: list[asyncio.Task[None]] = []

    def spawn(_name: str, work: Any) -> object:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    for name, value in how.items():
        monkeypatch.setattr(streams, name.upper(), value)
    try:
        async with open_context(settings, ApiSecrets(), spawn) as context:
            channels = EventChannels(context, LINKS, None)
            channels.start(context)
            surface = Surface(
                "agent",
                "",
                "",
                ("/api/agent/v1",),
                routes.events(channels),
                lambda raised, request: error_body(raised, request, LINKS.errors),
            )
            async with serve(application([surface]), "127.0.0.1", 0) as port:
                try:
                    yield f"http://127.0.0.1:{port}"
                finally:
                    await cancel_and_wait(*tasks)  # as the daemon does before it closes its door
    finally:
        await cancel_and_wait(*tasks)


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[ConnectionPool]:
    async with make_pool(database_url, size=2, autocommit=True) as made:
        async with made.connection() as connection:
            await connection.execute("TRUNCATE agent_event, agent_event_wallet")
        yield made


async def append(pool: ConnectionPool, *names: str, trade_id: bytes | None = None, payload: str = "{}") -> None:
    drafts = [Draft(WALLET, EventType.TEST, source_of(EventType.TEST, name), payload, "m", trade_id) for name in names]
    async with pool.connection() as connection, connection.transaction():
        await event_log.append(connection, drafts)


async def read(url: str, count: int, *, seconds: float = PATIENCE, headers: Any = None, **query: Any) -> list[Message]:
    found = []
    async with (
        asyncio.timeout(seconds),
        aiohttp.ClientSession() as session,
        session.get(url + PATH, params={"wallet": NAME, **query}, headers=headers) as response,
    ):
        assert response.status == 200, await response.text()
        assert response.content_type == "text/event-stream"
        async for message in messages(response):
            if message.data is not None:
                found.append(message)
                if len(found) == count:
                    break
    return found


async def test_where_a_stream_starts(database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    trade = b"\x77" * 32
    await append(pool, *(f"a{n}" for n in range(5)))
    await append(pool, "b", trade_id=trade)
    await append(pool, "c")
    async with service(database_url, monkeypatch) as url:
        everything = await read(url, 7)
        assert [int(each.id or "") for each in everything] == list(range(7))
        assert [each.data["seq"] for each in everything] == list(range(7))
        assert [each.id for each in await read(url, 3, fromSeq=4)] == ["4", "5", "6"]
        assert [each.id for each in await read(url, 2, headers={"Last-Event-ID": "4"})] == ["5", "6"]
        assert [each.id for each in await read(url, 1, headers={"Last-Event-ID": "5"}, fromSeq=0)] == ["6"]
        assert [each.id for each in await read(url, 1, tradeId="0x" + trade.hex())] == ["5"]
        waiting = asyncio.create_task(read(url, 1, fromSeq=7))
        await asyncio.sleep(0.3)
        await append(pool, "d")
        (news,) = await waiting
        assert (news.id, news.data["type"]) == ("7", "test")


async def test_invalid_stream_requests_are_refused(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with service(database_url, monkeypatch) as url, aiohttp.ClientSession() as session:
        cases: list[tuple[dict[str, str], dict[str, str], int, str]] = [
            ({}, {}, 422, "invalid_wallet"),
            ({"wallet": "0x12"}, {}, 422, "invalid_wallet"),
            ({"wallet": NAME, "fromSeq": "-1"}, {}, 400, "invalid_request"),
            ({"wallet": NAME, "fromSeq": "x"}, {}, 400, "invalid_request"),
            ({"wallet": NAME, "fromSeq": str(2**63)}, {}, 400, "invalid_request"),
            ({"wallet": NAME, "tradeId": "0x12"}, {}, 400, "invalid_request"),
            ({"wallet": NAME}, {"Last-Event-ID": "evt_1"}, 400, "invalid_request"),
            ({"wallet": NAME}, {"Last-Event-ID": "9" * 400}, 400, "invalid_request"),
            # Which the language takes for no number, and which is one of an event that never comes.
            ({"wallet": NAME}, {"Last-Event-ID": "0" * 20 + "9" * 5_000}, 400, "invalid_request"),
            ({"wallet": NAME}, {"Last-Event-ID": "0" * 20 + "9" * 30}, 400, "invalid_request"),
        ]
        for query, headers, status, code in cases:
            async with session.get(url + PATH, params=query, headers=headers) as response:
                assert (response.status, (await response.json())["error"]) == (status, code), (query, headers)
        async with session.head(url + PATH, params={"wallet": NAME}) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")


async def test_a_quiet_stream_sends_heartbeats_and_ends_with_its_window(
    database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Settings.model_validate({"DATABASE_URL": database_url})
    assert (streams.HEARTBEAT_SECONDS, usual.agent_stream_seconds) == (15.0, 300.0)
    async with (
        service(database_url, monkeypatch, window_seconds=2.0, heartbeat_seconds=0.2) as url,
        aiohttp.ClientSession() as session,
        session.get(url + PATH, params={"wallet": NAME}) as response,
    ):
        started = time.monotonic()
        said = [each.comments async for each in messages(response)]
        assert time.monotonic() - started > 1.5
        assert said.count(["heartbeat"]) >= 2
        assert "window" in said[-1][0]


async def test_a_stream_of_one_trade_sends_heartbeats_during_events_of_other_trades(
    database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the client or a proxy would consider the connection dead."""

    async def bet_on() -> None:
        for number in itertools.count():
            await append(pool, f"other {number}", trade_id=b"\x66" * 32)
            await asyncio.sleep(0.05)

    async with (
        service(database_url, monkeypatch, window_seconds=2.0, heartbeat_seconds=0.5) as url,
        aiohttp.ClientSession() as session,
        session.get(url + PATH, params={"wallet": NAME, "tradeId": "0x" + "77" * 32}) as response,
    ):
        betting = asyncio.create_task(bet_on())
        said = [each.comments async for each in messages(response)]
        await cancel_and_wait(betting)
    assert said.count(["heartbeat"]) >= 2, said


async def test_a_client_that_does_not_read_is_disconnected(
    database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_read, write_chunk = [], streams.write_chunk

    async def write(*chunk: Any) -> bool:
        was_read.append(await write_chunk(*chunk))
        return was_read[-1]

    monkeypatch.setattr(streams, "write_chunk", write)
    async with service(database_url, monkeypatch, slow_seconds=0.5) as url:
        await append(pool, *(f"s{n}" for n in range(2_000)), payload='{"text":"' + "x" * 4_000 + '"}')
        _reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]), limit=1_024)
        writer.write(f"GET {PATH}?wallet={NAME} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until(lambda: False in was_read, "its end: eight megabytes are unread", pause=0.1)
        writer.close()
        # A client that reads gets all of it.
        assert [int(each.id or "") for each in await read(url, 2_000)] == list(range(2_000))


async def test_a_caller_may_open_a_limited_number_of_streams(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_channels, "MAX_PER_CALLER", 2)
    async with service(database_url, monkeypatch) as url, aiohttp.ClientSession() as session:
        asked: dict[str, Any] = {"params": {"wallet": NAME}, "headers": {"X-Forwarded-For": "203.0.113.9"}}
        async with session.get(url + PATH, **asked) as one, session.get(url + PATH, **asked) as two:
            assert (one.status, two.status) == (200, 200)
            async with session.get(url + PATH, **asked) as three:
                assert (three.status, "Retry-After" in three.headers) == (429, True)


async def test_streams_end_when_the_service_does(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with aiohttp.ClientSession() as session:
        async with service(database_url, monkeypatch) as url:
            response = await session.get(url + PATH, params={"wallet": NAME})
            assert response.status == 200
            ending = time.monotonic()
        assert time.monotonic() - ending < PATIENCE, "it waited for the stream's window"
        assert b"next seq is" in await response.content.read()


async def test_waiting_streams_share_one_read(database_url: str, pool: ConnectionPool) -> None:
    hub = NoticeHub(database_url, pool, LINKS)
    await append(pool, "one")
    first, second = await asyncio.gather(hub.read(WALLET, 0, None), hub.read(WALLET, 0, None))
    assert first is second
    assert [seq for seq, _ in first] == [0]


@pytest.mark.parametrize("has_listener", [True, False])
async def test_a_stream_opened_after_an_event_does_not_share_an_earlier_read(
    database_url: str, pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch, has_listener: bool
) -> None:
    """Otherwise it would only get the earlier read's result until its next one."""
    hub, gate, reads = NoticeHub(database_url, pool, LINKS), asyncio.Event(), []
    wallet = secrets.token_bytes(20)

    async def slowly(*asked: object) -> list[tuple[int, bytes]]:
        reads.append(asked)
        await gate.wait()
        return []

    monkeypatch.setattr(hub, "_read", slowly)
    with hub.subscribe(wallet, "203.0.113.9"):
        before = asyncio.create_task(hub.read(wallet, 0, None))
        await asyncio.sleep(0)
        if has_listener:
            hub._wake([wallet])
    if not has_listener:
        hub._wake([wallet])
    with hub.subscribe(wallet, "203.0.113.10"):
        after = asyncio.create_task(hub.read(wallet, 0, None))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(before, after)
    assert len(reads) == 2
