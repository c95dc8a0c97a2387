"""The health server: checks, readiness, metrics, and a port that is taken."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from core.errors import EXIT_CONFIG, ConfigError
from core.log import register_secret
from core.service import health
from core.service.health import HealthServer


async def _get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await (response.json() if "json" in response.content_type else response.text())


async def test_healthy_and_ready() -> None:
    async def fine() -> tuple[bool, str]:
        return True, "12 blocks behind"

    async with HealthServer("127.0.0.1", 0) as server:
        assert server.port
        server.add_check("indexer", fine)
        assert await _get(f"{server.url}/ready") == (503, {"ready": False})
        server.is_ready = True
        assert await _get(f"{server.url}/ready") == (200, {"ready": True})
        assert await _get(f"{server.url}/health") == (
            200,
            {"ok": True, "ready": True, "checks": [{"name": "indexer", "ok": True, "detail": "12 blocks behind"}]},
        )
        status, text = await _get(f"{server.url}/metrics")
        assert status == 200
        assert "python_info" in text
        assert (await _get(f"{server.url}/other"))[0] == 404


async def test_a_check_that_fails_raises_or_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "CHECK_TIMEOUT_SECONDS", 0.05)
    register_secret("a-very-secret-word")

    async def down() -> tuple[bool, str]:
        return False, "no database"

    async def raises() -> tuple[bool, str]:
        raise RuntimeError("with a-very-secret-word")

    async def hangs() -> tuple[bool, str]:
        await asyncio.sleep(5)
        return True, ""

    async with HealthServer("127.0.0.1", 0) as server:
        for name, check in {"down": down, "raises": raises, "hangs": hangs}.items():
            server.add_check(name, check)
        status, body = await _get(f"{server.url}/health")
    assert status == 503
    assert not body["ok"]
    assert [(check["name"], check["ok"], check["detail"]) for check in body["checks"]] == [
        ("down", False, "no database"),
        ("raises", False, "RuntimeError: with [redacted]"),
        ("hangs", False, "no result within 0.05 s"),
    ]


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    async with HealthServer("127.0.0.1", 0) as first:
        with pytest.raises(ConfigError, match=f"127.0.0.1:{first.port} cannot be opened") as e:
            await HealthServer("127.0.0.1", first.port).__aenter__()
        assert e.value.exit_code == EXIT_CONFIG
