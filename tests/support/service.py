"""The service as it runs: daemons as separate processes on a real chain and PostgreSQL, and its public interface."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import aiohttp

from core.paths import REPOSITORY
from scripts._local.ports import DIRECT, free_port
from scripts._local.process import RunningProcess, SpawnPlan, start_process, stop_together
from tests.waiting import PATIENCE, until

READY_SECONDS = 120.0

C = TypeVar("C")
_callers = itertools.count(1)


@dataclass
class Service(Generic[C]):
    """Daemons by name. `start` and `stop` act on single ones; the API keeps its port."""

    chain: C
    folder: Path
    env: Mapping[str, str]
    port: int
    running: dict[str, RunningProcess] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def configure(self, **env: str) -> None:
        self.env = {**self.env, **env}

    def start(self, *names: str, **env: str) -> None:
        for name in names:
            ready = self._ready_file(name)
            ready.unlink(missing_ok=True)
            given = {**self.env, **env, "VPM_READY_FILE": str(ready)}
            plan = SpawnPlan(name, (sys.executable, "-m", name), env=given, cwd=str(REPOSITORY))
            self.running[name] = start_process(plan, self.folder / f"{name}.log")
        for name in names:
            process, deadline = self.running[name], time.monotonic() + READY_SECONDS
            while not self._ready_file(name).exists():
                assert process.alive(), f"{name} ended:\n{process.tail(30)}"
                assert time.monotonic() < deadline, f"{name} did not get ready:\n{process.tail(30)}"
                time.sleep(0.05)

    def stop(self, *names: str) -> None:
        stop_together([self.running.pop(name) for name in names or tuple(self.running)])

    def kill(self, name: str) -> None:
        self.running.pop(name).kill()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def metrics(self, name: str) -> str:
        with DIRECT.open(self.metrics_url(name), timeout=60) as response:
            return str(response.read().decode())

    def metrics_url(self, name: str) -> str:
        return str(json.loads(self._ready_file(name).read_text())["metrics"])

    def _ready_file(self, name: str) -> Path:
        return self.folder / f"{name}.ready"


S = TypeVar("S", bound=Service[Any])


@contextlib.contextmanager
def serving(
    kind: type[S], chain: object, database_url: str, deployments: Path, folder: Path, env: Mapping[str, str]
) -> Iterator[S]:
    """Prepare a service and stop everything at the end. `env` is added to every daemon's environment."""
    port = free_port()
    given = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/tmp"),
        "DATABASE_URL": database_url,
        "VPM_DEPLOYMENTS_DIR": str(deployments),
        "VPM_PORT": str(port),
        "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}",
        # Any free port, so that no other process takes it first.
        **{f"VPM_{name}_METRICS_PORT": "0" for name in ("API", "INDEXER", "KEEPER", "RELAYER")},
        "VPM_DATABASE_POOL_SIZE": "4",
        "VPM_LOG_FORMAT": "console",
        "VPM_STOP_GRACE_SECONDS": "3",
        # Lets each test choose its own address and region.
        "VPM_TRUST_PROXY": "1",
    }
    service = kind(chain, folder, {**given, **env}, port)
    try:
        yield service
    finally:
        service.stop()


def followed(chain: str, url: str) -> dict[str, str]:
    """Return settings to follow a local chain by notifications, as the local stack does. Polling twenty times a second
    took a tenth of a core for each service that a test has, most of which are idle."""
    return {
        f"VPM_{chain}_RPC_URLS": url,
        f"VPM_{chain}_WS_URLS": url.replace("http", "ws", 1),
        f"VPM_{chain}_POLL_INTERVAL_MS": "500",
    }


def polled(chain: str, url: str) -> dict[str, str]:
    """Settings to follow a node that sends no notifications, such as one that plays an outage."""
    return {f"VPM_{chain}_RPC_URLS": url, f"VPM_{chain}_WS_URLS": "", f"VPM_{chain}_POLL_INTERVAL_MS": "100"}


class Door:
    """The public interface as a client sees it. Each call comes from `ip`, a new one unless given, so that rate limits
    stay apart."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def get(
        self,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        ip: str | None = None,
    ) -> tuple[aiohttp.ClientResponse, Any]:
        params = {name: str(value) for name, value in (query or {}).items()}
        async with self.session.get(self.url + path, params=params or None, headers=_from(ip, headers)) as response:
            content = await response.read()
            if self.session.auto_decompress is False and response.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            return response, json.loads(content) if content and "json" in response.content_type else content

    async def post(
        self, path: str, body: object, *, headers: Mapping[str, str] | None = None, ip: str | None = None
    ) -> tuple[aiohttp.ClientResponse, Any]:
        async with self.session.post(self.url + path, json=body, headers=_from(ip, headers)) as response:
            return response, json.loads(await response.read())

    async def until(self, path: str, holds: Any, *, seconds: float = PATIENCE) -> Any:
        last = ""

        async def read() -> Any:
            nonlocal last
            response, body = await self.get(path)
            last = f"{response.status} {str(body)[:1500]}"
            return body if response.status == 200 and holds(body) else None

        return await until(read, lambda: f"another answer of {path} than {last}", seconds)


def _from(ip: str | None, headers: Mapping[str, str] | None) -> dict[str, str]:
    return {"X-Forwarded-For": ip or fresh_address(), **(headers or {})}


def fresh_address() -> str:
    """Return an address that no call of this process came from, so that no rate limit applies yet."""
    number = next(_callers)
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
