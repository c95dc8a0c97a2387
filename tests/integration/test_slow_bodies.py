"""Bodies that never come, or that inflate: refused, and others are answered."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web
from pydantic import BaseModel

from api import requests
from api.app import application, bounded, serve
from api.caching import json_response
from api.operations import DocumentedAnswer, Operation, Surface
from api.requests import read_json
from core.config import Settings
from tests.waiting import PATIENCE


class Thing(BaseModel):
    """A request body."""


@asynccontextmanager
async def service() -> AsyncIterator[int]:
    settings = Settings.model_validate({"DATABASE_URL": "postgresql://unused@127.0.0.1/none", "VPM_TRUST_PROXY": "1"})

    async def take(request: web.Request) -> web.StreamResponse:
        return json_response(await read_json(request, limit=1_000))

    operation = Operation("POST", "/things", take, "Take", {200: DocumentedAnswer("It.")}, body=Thing)
    app = bounded(application([Surface("things", "", "", ("/things",), (operation,))]), settings)
    async with serve(app, "127.0.0.1", 0) as port:
        yield port


@asynccontextmanager
async def posting(
    port: int, sent: bytes, length: int, address: str = "203.0.113.9"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST /things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Forwarded-For: {address}\r\n"
        writer.write(f"{head}Content-Length: {length}\r\n\r\n".encode() + sent)
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    return int(head.split()[1]), json.loads(await reader.readexactly(length))


async def test_a_body_that_never_comes_is_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.5)
    async with service() as port, asyncio.timeout(PATIENCE), posting(port, b'{"a":', 7) as (reader, _):
        status, body = await answer(reader)
        assert (status, body["error"]) == (408, "invalid_request")
        assert "did not arrive" in body["message"]


async def test_one_address_has_so_many_on_the_way_and_others_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service() as port, AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        late = [await stack.enter_async_context(posting(port, b'{"a":', 8)) for _ in range(requests.MAX_BODIES_EACH)]
        await asyncio.sleep(0.3)
        async with posting(port, b"{", 7) as (reader, _):
            status, body = await answer(reader)
            assert (status, body["error"]) == (429, "rate_limited")
        # A complete body does not wait, and another address is not affected.
        async with posting(port, b'{"a":1}', 7) as (reader, _):
            assert await answer(reader) == (200, {"a": 1})
        async with posting(port, b'{"a":', 7, "203.0.113.10") as (reader, writer):
            await asyncio.sleep(0.1)
            writer.write(b"1}")
            assert await answer(reader) == (200, {"a": 1})
        for reader, writer in late:
            writer.write(b"12}")
            assert await answer(reader) == (200, {"a": 12})


INFLATED = 400 * 2**20


def bomb() -> bytes:
    """A body of a few hundred kilobytes that inflates to 400 MB."""
    squeezed = zlib.compressobj(9, wbits=31)
    part = bytes(2**20)
    return b"".join(squeezed.compress(part) for _ in range(INFLATED // len(part))) + squeezed.flush()


@pytest.mark.parametrize("path", ["/things", "/no/such/path"])
async def test_compressed_bodies_are_refused_and_hold_up_no_other(path: str) -> None:
    """Twenty at once are never inflated: the loop that would do it goes on answering others."""
    body = bomb()
    before, answered = time.process_time(), 0
    async with service() as port, AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        refused = []
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(
                f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            refused.append(asyncio.ensure_future(answer(reader)))
        while not all(each.done() for each in refused):
            async with posting(port, b'{"a":1}', 7) as (reader, _):
                assert await answer(reader) == (200, {"a": 1})
                answered += 1
        for each in refused:
            status, said = each.result()
            assert (status, said["error"]) == (415, "invalid_request")
            assert said["details"] == [
                {"field": "Content-Encoding", "problem": "only uncompressed bodies are accepted; remove this header"}
            ]
        await asyncio.sleep(1.0)  # what comes after the answer is not inflated either
    assert answered > 0
    assert time.process_time() - before < 10, "inflating 8 GB takes a core for longer"


@pytest.mark.parametrize(("encodings", "status"), [(("Identity",), 200), (("identity", "gzip"), 415)])
async def test_identity_is_no_compression_and_hides_none(encodings: tuple[str, ...], status: int) -> None:
    async with service() as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = "".join(f"Content-Encoding: {each}\r\n" for each in encodings)
        head = f"POST /things HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{lines}"
        writer.write(f"{head}Content-Length: 7\r\n\r\n".encode() + b'{"a":1}')
        assert (await answer(reader))[0] == status
        writer.close()
