"""Bodies from memory: the quick answer equals the usual one, and each request gets its own id."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client import REGISTRY

from api.app import application
from api.caching import Rendered
from api.operations import DocumentedAnswer, Operation, Surface
from api.problems import Problem

BODY = b'{"markets":["' + b"NVDA " * 400 + b'"]}'


CACHE = "public, max-age=15"


OWN = {"date", "x-request-id"}


@pytest.fixture
async def door() -> AsyncIterator[tuple[str, int]]:
    large = await Rendered.make(BODY, CACHE)
    small = await Rendered.make(b"{}", CACHE)

    async def quick(request: web.Request) -> web.StreamResponse:
        return (large if request.path == "/api/quick" else small).answer(request)

    async def usual(request: web.Request) -> web.StreamResponse:
        return large.response(request)

    def operation(path: str, handler: object) -> Operation:
        return Operation("GET", path, handler, path, {200: DocumentedAnswer("x")}, timed=False)  # type: ignore[arg-type]

    surface = Surface(
        "test",
        "Test",
        "",
        ("/api/",),
        (operation("/api/quick", quick), operation("/api/small", quick), operation("/api/usual", usual)),
        lambda problem, _id: {"error": problem.code, "message": problem.message},
    )
    async with TestServer(application([surface])) as server:
        assert server.port is not None
        yield "127.0.0.1", server.port


async def ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str, *headers: str
) -> tuple[str, dict[str, str], bytes]:
    """Return status line, headers by lower-case name, and body, on a connection that may be reused."""
    writer.write("\r\n".join((line, "Host: here", *headers, "", "")).encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    found = dict(each.split(": ", 1) for each in head[1:] if each)
    found = {name.lower(): value for name, value in found.items()}
    length = 0 if line.startswith("HEAD") else int(found.get("content-length", 0))
    return head[0], found, await reader.readexactly(length)


@pytest.mark.parametrize("encoding", ["identity", "gzip", "gzip;q=0, identity", "br, gzip;q=0.5", None])
@pytest.mark.parametrize("held", ["nothing", "it", "another"])
async def test_the_quick_answer_is_the_usual_one(door: tuple[str, int], encoding: str | None, held: str) -> None:
    reader, writer = await asyncio.open_connection(*door)
    accept = () if encoding is None else (f"Accept-Encoding: {encoding}",)
    _, first, _ = await ask(reader, writer, "GET /api/usual HTTP/1.1", *accept)
    etag = {"nothing": None, "it": f'W/"x", {first["etag"]}', "another": '"0123"'}[held]
    given = accept if etag is None else (*accept, f"If-None-Match: {etag}")
    status, usual, body = await ask(reader, writer, "GET /api/usual HTTP/1.1", *given)
    assert status.split()[1] == ("304" if held == "it" else "200")
    quick_status, quick, quick_body = await ask(reader, writer, "GET /api/quick HTTP/1.1", *given)
    assert (quick_status, quick_body) == (status, body)
    assert set(quick) == set(usual)
    assert {name: quick[name] for name in set(quick) - OWN} == {name: usual[name] for name in set(usual) - OWN}
    assert quick["x-request-id"] != usual["x-request-id"]
    assert (gzip.decompress(body) if "content-encoding" in usual else body) == (b"" if held == "it" else BODY)
    writer.close()


async def test_requests_sent_at_once_are_answered_in_their_order(door: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*door)
    paths = ["quick", "small", "quick", "nothing", "small"]
    writer.write(b"".join(f"GET /api/{path} HTTP/1.1\r\nHost: here\r\n\r\n".encode() for path in paths))
    ids = set()
    for path in paths:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found = {name.lower(): value for name, value in (line.split(": ", 1) for line in head.split("\r\n")[1:-2])}
        body = await reader.readexactly(int(found["content-length"]))
        assert body == BODY if path == "quick" else len(body) < 100
        assert head.startswith("HTTP/1.1 404" if path == "nothing" else "HTTP/1.1 200")
        ids.add(found["x-request-id"])
    assert len(ids) == len(paths)
    writer.close()


async def test_unusual_requests_take_the_usual_path(door: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*door)
    _, plain, _ = await ask(reader, writer, "GET /api/quick HTTP/1.1")
    status, head, body = await ask(reader, writer, "HEAD /api/quick HTTP/1.1")
    assert (status, body) == ("HTTP/1.1 200 OK", b"")
    assert (head["content-length"], head["etag"]) == (str(len(BODY)), plain["etag"])
    _, asked, body = await ask(reader, writer, "GET /api/quick HTTP/1.1", "Origin: https://example.org")
    assert (asked["access-control-allow-origin"], body) == ("*", BODY)
    _, last, body = await ask(reader, writer, "GET /api/quick HTTP/1.1", "Connection: close")
    assert (last["connection"], body) == ("close", BODY)
    assert await reader.read() == b""  # and it is closed
    writer.close()
    reader, writer = await asyncio.open_connection(*door)
    status, _, body = await ask(reader, writer, "GET /api/quick HTTP/1.0")
    assert (status, body) == ("HTTP/1.0 200 OK", BODY)
    writer.close()


@pytest.mark.parametrize("path", ["quick", "usual", "nothing"])
@pytest.mark.parametrize("held", [False, True])
async def test_every_copy_may_be_read_by_browsers(door: tuple[str, int], path: str, held: bool) -> None:
    """A shared cache keeps the answer to the first caller, which need not have been a browser."""
    reader, writer = await asyncio.open_connection(*door)
    given = ("If-None-Match: *",) if held else ()
    status, headers, _ = await ask(reader, writer, f"GET /api/{path} HTTP/1.1", *given)
    assert status.split()[1] == ("404" if path == "nothing" else "304" if held else "200")
    assert headers["access-control-allow-origin"] == "*"
    assert {"ETag", "Retry-After", "X-Request-Id"} <= set(headers["access-control-expose-headers"].split(", "))
    assert "origin" not in headers.get("vary", "").lower()
    writer.close()


async def test_no_answer_reveals_the_server_software(door: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*door)
    for path in ("quick", "usual", "nothing"):
        _, headers, _ = await ask(reader, writer, f"GET /api/{path} HTTP/1.1")
        assert "server" not in headers
        assert "python" not in str(headers).lower()
    writer.close()


@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("status", [200, 400, 404, 500, 503])
async def test_every_answer_is_counted_by_its_status(timed: bool, status: int) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        if status == 500:
            raise RuntimeError("a fault")
        if status != 200:
            raise Problem(status, "refused", "No.")
        return web.Response()

    path = f"/api/counted/{timed}".lower()
    operation = Operation("GET", path, handler, path, {200: DocumentedAnswer("x")}, timed=timed)
    surface = Surface("test", "Test", "", ("/api/",), (operation,), lambda problem, _id: {"error": problem.code})
    before = counted(operation, status)
    async with TestServer(application([surface])) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        said, _, _ = await ask(reader, writer, f"GET {path} HTTP/1.1")
        writer.close()
    assert said.split()[1] == str(status)
    assert counted(operation, status) == before + 1


def counted(operation: Operation, status: int) -> float:
    labels = {"operation": operation.id, "status": str(status)}
    return REGISTRY.get_sample_value("vpm_http_requests_total", labels) or 0.0
