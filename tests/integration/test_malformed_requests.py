"""Malformed HTTP is refused in JSON like any error, and its content is not logged."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from api.app import MAX_HEADER_BYTES, MAX_LINE_BYTES, application, serve
from tests.waiting import PATIENCE

OWNER = "0x52908400098527886E0F7030069857D2E4169EE7"
HOST = b"Host: somewhere\r\n\r\n"


async def _asked(sent: bytes) -> tuple[int, dict[str, str], bytes]:
    async with serve(application([]), "127.0.0.1", 0) as port, asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), {name.lower(): value for name, value in (each.split(": ", 1) for each in lines)}, body


@pytest.mark.parametrize(
    "sent",
    [
        f"GET /api/positions?owner={OWNER} x HTTP/1.1\r\n".encode() + HOST,
        f"GET /api/positions?owner={OWNER} HTTP/9\r\n".encode() + HOST,
        f"{OWNER} /api/positions HTTP/1.1\r\n".encode() + HOST,
        f"GET / HTTP/1.1\r\n{OWNER}: \x01\r\n".encode() + HOST,
        f"GET / HTTP/1.1\r\n{OWNER}\r\n".encode() + HOST,
        f"GET /api/positions?owner={OWNER}{'0' * MAX_LINE_BYTES} HTTP/1.1\r\n".encode() + HOST,
        f"GET / HTTP/1.1\r\nCookie: {OWNER}{'0' * MAX_HEADER_BYTES}\r\n".encode() + HOST,
        f"GET / HTTP/1.1\r\nContent-Length: {OWNER}\r\n".encode() + HOST,
    ],
    ids=["spaces", "version", "method", "value", "no colon", "long line", "long header", "length"],
)
async def test_a_malformed_request_is_refused_in_json_and_is_in_no_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    status, headers, body = await _asked(sent)
    assert OWNER.lower() not in caplog.text.lower()
    assert status == 400
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["x-request-id"]
    assert "aiohttp" not in headers.get("server", "")
    problem = json.loads(body)
    assert problem.keys() == {"error", "message"}
    assert problem["error"] == "invalid_request"
    assert OWNER.lower() not in body.decode().lower()
