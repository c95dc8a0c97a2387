"""A small HTTP server for monitoring: /metrics, /health (checks, 200 or 503) and /ready (200 once serving, else 503).

Every daemon has one on its own port. Each check times out after two seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from core.errors import ConfigError
from core.log import get_logger, redact_text

log = get_logger(__name__)

CHECK_TIMEOUT_SECONDS = 2.0
# Of histograms, in seconds: fine enough for a page served from memory, wide enough for a slow node.
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    ok: bool
    detail: str  # a short sentence


Check = Callable[[], Awaitable[tuple[bool, str]]]


class HealthServer:
    """A daemon's health and metrics server. With port 0, the server picks a free port and sets `port`."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.is_ready = False
        self._checks: dict[str, Check] = {}
        self._runner: web.AppRunner | None = None

    def add_check(self, name: str, check: Check) -> None:
        """Add a check that returns (ok, detail). An exception counts as a failure."""
        self._checks[name] = check

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def results(self) -> list[CheckResult]:
        return list(await asyncio.gather(*(_run(name, check) for name, check in self._checks.items())))

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/health", self._health)
        app.router.add_get("/ready", self._ready)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            raise ConfigError(
                f"The metrics port {self.host}:{self.port} cannot be opened: {error.strerror or error}.",
                hint="Choose another port, or 0 for any free one.",
            ) from None
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _health(self, _request: web.Request) -> web.Response:
        results = await self.results()
        ok = all(result.ok for result in results)
        body = {"ok": ok, "ready": self.is_ready, "checks": results}
        return web.Response(body=orjson.dumps(body), status=200 if ok else 503, content_type="application/json")

    async def _ready(self, _request: web.Request) -> web.Response:
        body = orjson.dumps({"ready": self.is_ready})
        return web.Response(body=body, status=200 if self.is_ready else 503, content_type="application/json")


async def _run(name: str, check: Check) -> CheckResult:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_SECONDS):
            ok, detail = await check()
    except TimeoutError:
        return CheckResult(name, False, f"no result within {CHECK_TIMEOUT_SECONDS:g} s")
    except Exception as error:
        log.warning("a health check raised an exception", action="health.check_raised", check=name, why=error)
        return CheckResult(name, False, redact_text(f"{type(error).__name__}: {error}"))
    return CheckResult(name, ok, detail)
