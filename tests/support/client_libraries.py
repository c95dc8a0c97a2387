"""Our client libraries in tests: Python in this process, TypeScript built and run in Node."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from core.paths import REPOSITORY
from tests.support.service import fresh_address

TYPESCRIPT = REPOSITORY / "api" / "clients" / "typescript"
DRIVER = REPOSITORY / "tests" / "clients" / "ours.mjs"
BUILT = REPOSITORY / ".vpm" / "build" / "typescript-client"
SECONDS = 120


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}


@functools.cache
def built() -> Path:
    """Build the TypeScript library as a project installs it: packed by npm, with the pinned viem."""
    node = shutil.which("npm")
    assert node is not None, "Node is part of the environment: run this through ./vpm test"
    folder = BUILT / f"{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    home = folder / "node_modules" / "vpm-client"
    home.mkdir(parents=True)
    _run("npm", "pack", "--pack-destination", str(folder), cwd=TYPESCRIPT)
    (packed,) = folder.glob("*.tgz")
    shutil.unpack_archive(packed, folder, filter="data")
    shutil.move(folder / "package", home.with_name("moved"))
    home.rmdir()
    home.with_name("moved").rename(home)
    (folder / "node_modules" / "viem").symlink_to(REPOSITORY / "node_modules" / "viem")
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    return folder


def _run(*argv: str, cwd: Path) -> None:
    done = subprocess.run(argv, cwd=cwd, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def node(order: dict[str, Any], *, seconds: float = SECONDS) -> Any:
    done = subprocess.run(
        ["node", _driver()],
        input=json.dumps(order) + "\n",
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def _driver() -> str:
    place = built() / "driver.mjs"
    shutil.copy(DRIVER, place)
    return str(place)


@dataclass
class Betting:
    process: asyncio.subprocess.Process
    said: list[Any] = field(default_factory=list)

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said.append(json.loads(line))

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"stop\n")


@contextlib.asynccontextmanager
async def betting(order: dict[str, Any]) -> AsyncIterator[Betting]:
    process = await asyncio.create_subprocess_exec(
        "node",
        _driver(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
        limit=2**22,
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(order).encode() + b"\n")
        yield Betting(process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# ---------------------------------------------------------------- Python


def _strange(request: httpx.Request) -> None:
    """Send each call from a new address, to stay below rate limits."""
    request.headers["X-Forwarded-For"] = fresh_address()


async def _strange_later(request: httpx.Request) -> None:
    _strange(request)


# Without the authorities' certificates: to load them takes longer than what these clients ask.
@contextlib.contextmanager
def strangers() -> Iterator[httpx.Client]:
    with httpx.Client(verify=False, trust_env=False, event_hooks={"request": [_strange]}) as http:
        yield http


@contextlib.asynccontextmanager
async def async_strangers() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(verify=False, trust_env=False, event_hooks={"request": [_strange_later]}) as http:
        yield http
