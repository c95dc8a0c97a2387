"""Idle connections are closed."""

from __future__ import annotations

import asyncio

import aiohttp
from aiohttp import web

from api.app import serve


async def test_idle_connections_are_closed_and_waiting_ones_are_not() -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(5)
        return web.Response(text="there")

    app = web.Application()
    app.router.add_get("/slow", slow)
    async with serve(app, "127.0.0.1", 0, idle_seconds=1.0) as port:
        silent, mute = await asyncio.open_connection("127.0.0.1", port)
        dribbling, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: somewhere\r\n")  # and never the end of it
        async with aiohttp.ClientSession() as session, asyncio.timeout(20):
            answered = asyncio.create_task(session.get(f"http://127.0.0.1:{port}/slow"))
            assert await silent.read() == b""
            assert await dribbling.read() == b""
            assert not answered.done()
            async with await answered as response:
                assert await response.text() == "there"
        for each in (mute, writer):
            each.close()


async def test_a_connection_in_use_is_kept() -> None:
    async def quick(_: web.Request) -> web.Response:
        return web.Response(text="there")

    app = web.Application()
    app.router.add_get("/", quick)
    async with serve(app, "127.0.0.1", 0, idle_seconds=1.0) as port, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(12):
            writer.write(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n")
            assert (await reader.readuntil(b"there")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(0.3)
        writer.close()
