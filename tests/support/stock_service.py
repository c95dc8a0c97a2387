"""The stock surface as it runs: indexer, relayer and API as processes of their own, on a real chain and PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from core.local.process import RunningProcess, SpawnPlan, free_port, start_process
from scripts._stack import wallets
from tests.support.stock_chain import StockChain

ROOT = Path(__file__).resolve().parents[2]
CRON_SECRET = "a-secret-only-the-scheduler-has"
READY_SECONDS = 120.0

_callers = itertools.count(1)


@dataclass
class StockService:
    """Daemons by name; `start` and `stop` them one by one, the port of the API stays."""

    chain: StockChain
    folder: Path
    env: Mapping[str, str]
    port: int
    running: dict[str, RunningProcess] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, *names: str, **env: str) -> None:
        for name in names:
            ready = self.folder / f"{name}.ready"
            ready.unlink(missing_ok=True)
            plan = SpawnPlan(
                name,
                (sys.executable, "-m", name),
                env={**self.env, **env, "VPM_READY_FILE": str(ready)},
                cwd=str(ROOT),
            )
            self.running[name] = start_process(plan, self.folder / f"{name}.log")
        for name in names:
            self._wait(name)

    def _wait(self, name: str) -> None:
        process, ready = self.running[name], self.folder / f"{name}.ready"
        deadline = time.monotonic() + READY_SECONDS
        while not ready.exists():
            assert process.alive(), f"{name} ended:\n{process.tail(30)}"
            assert time.monotonic() < deadline, f"{name} did not get ready:\n{process.tail(30)}"
            time.sleep(0.05)

    def metrics(self, name: str) -> str:
        address = json.loads((self.folder / f"{name}.ready").read_text())["metrics"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(address, timeout=5) as response:
            return str(response.read().decode())

    def stop(self, *names: str) -> None:
        for name in names or tuple(self.running):
            self.running.pop(name).stop()

    def kill(self, name: str) -> None:
        self.running.pop(name).kill_program()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


@contextlib.contextmanager
def stock_service(
    chain: StockChain, database_url: str, deployments: Path, folder: Path, **env: str
) -> Iterator[StockService]:
    """Nothing runs yet; whatever was started ends with the context."""
    lanes = ",".join(f"vpm:relay+keeper={w.private_key}" for w in wallets.RELAY_LANES[:2])
    port = free_port()
    given = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/tmp"),
        "DATABASE_URL": database_url,
        "VPM_STOCK_RPC_URLS": chain.url,
        "VPM_STOCK_POLL_INTERVAL_MS": "100",
        "VPM_DEPLOYMENTS_DIR": str(deployments),
        "VPM_PORT": str(port),
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "VPM_API_METRICS_PORT": "0",
        "VPM_INDEXER_METRICS_PORT": "0",
        "VPM_KEEPER_METRICS_PORT": "0",
        "VPM_RELAYER_METRICS_PORT": "0",
        "VPM_DATABASE_POOL_SIZE": "4",
        "VPM_LOG_FORMAT": "console",
        "VPM_STOP_GRACE_SECONDS": "3",
        # So that a test may come from an address of its own, and from any region.
        "VPM_TRUST_PROXY": "1",
        "CRON_SECRET": CRON_SECRET,
        "VPM_RELAYER_KEYS": f"{lanes},vpm:opener={wallets.OPENER.private_key}",
    }
    service = StockService(chain, folder, {**given, **env}, port)
    try:
        yield service
    finally:
        service.stop()


class Door:
    """The public door, as a client sees it. Each call comes from `ip`, a new one unless given, so limits stay apart."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    def _headers(self, headers: Mapping[str, str] | None, ip: str | None) -> dict[str, str]:
        if ip is None:
            number = next(_callers)
            ip = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        return {"X-Forwarded-For": ip, **(headers or {})}

    async def get(
        self, path: str, *, headers: Mapping[str, str] | None = None, ip: str | None = None
    ) -> tuple[aiohttp.ClientResponse, Any]:
        async with self.session.get(self.url + path, headers=self._headers(headers, ip)) as response:
            content = await response.read()
            if self.session.auto_decompress is False and response.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            return response, json.loads(content) if content and "json" in response.content_type else content

    async def post(
        self, path: str, body: object, *, headers: Mapping[str, str] | None = None, ip: str | None = None
    ) -> tuple[aiohttp.ClientResponse, Any]:
        async with self.session.post(self.url + path, json=body, headers=self._headers(headers, ip)) as response:
            content = await response.read()
            return response, json.loads(content)

    async def until(self, path: str, holds: Any, *, seconds: float = 15.0) -> Any:
        """The first body of `path` for which `holds(body)`."""
        deadline = time.monotonic() + seconds
        while True:
            response, body = await self.get(path)
            if response.status == 200 and holds(body):
                return body
            assert time.monotonic() < deadline, f"{path} never came to that: {response.status} {str(body)[:1500]}"
            await asyncio.sleep(0.05)
