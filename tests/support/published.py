"""The interface as it was published: every operation, parameter, status and field, one a line, in tests/published/.

Fields may be added, never renamed or removed, so every line there must hold for good; and nothing a client need not
send may become something it must. What is new is written down with `python -m tests.support.published`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from api.app import SURFACES, TITLE
from api.context import open_context
from api.http.openapi import document
from api.http.operation import Surface
from core.config import ApiSecrets, Settings

FOLDER = Path(__file__).resolve().parents[1] / "published"
# Nobody is asked for anything: the description of a surface needs no database and no node.
NOWHERE = "postgresql://nobody@127.0.0.1:9/nothing"


async def documents() -> dict[str, dict[str, Any]]:
    """The OpenAPI document of each surface, by name, as the service would publish it."""
    async with _surfaces() as (surfaces, server):
        return {each.name: document([each], title=TITLE, server=server) for each in surfaces}


async def tools() -> dict[str, list[dict[str, Any]]]:
    """The tools of each surface's MCP server, by the surface's name, as its manifest has them."""
    found = {}
    async with _surfaces() as (surfaces, _):
        for surface in surfaces:
            (manifest,) = [each.handler for each in surface.operations if each.path.endswith("/mcp.json")]
            answer = await manifest(make_mocked_request("GET", "/"))
            assert isinstance(answer, web.Response)
            assert isinstance(answer.body, bytes)
            found[surface.name] = json.loads(answer.body)["tools"]
    return found


@asynccontextmanager
async def _surfaces() -> AsyncIterator[tuple[list[Surface], str]]:
    """All surfaces, open, and the address they would give."""

    def spawn(name: str, work: Coroutine[Any, Any, None]) -> object:
        work.close()  # nothing needs to keep up with anything
        return name

    settings = Settings.model_validate({"DATABASE_URL": NOWHERE, "VPM_DATABASE_CONNECT_TIMEOUT_SECONDS": 1})
    async with open_context(settings, ApiSecrets(), spawn) as context, AsyncExitStack() as stack:
        yield [await stack.enter_async_context(make(context)) for make in SURFACES], settings.public_url


def lines(described: Mapping[str, Any]) -> set[str]:
    """Everything a client may rely on. A request's part that must be sent ends in `!`."""
    return set(_lines(described))


def _lines(described: Mapping[str, Any]) -> Iterator[str]:
    schemas = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            at = f"{method.upper()} {path}"
            yield at
            for each in operation.get("parameters", ()):
                yield f"{at} takes {each['in']} {each['name']}{'!' if each['required'] else ''}"
            for content in operation.get("requestBody", {}).get("content", {}).values():
                yield from (f"{at} takes {name}" for name in _fields(content["schema"], schemas, must=True))
            for status, answer in operation["responses"].items():
                yield f"{at} gives {status}"
                for content in answer.get("content", {}).values():
                    yield from (f"{at} gives {status} {name}" for name in _fields(content["schema"], schemas))


def _fields(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], *, must: bool = False, within: tuple[str, ...] = ()
) -> Iterator[str]:
    """Dotted names, `[]` for the entries of an array. A schema inside itself is not followed again."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in within:
            yield from _fields(schemas[name], schemas, must=must, within=(*within, name))
        return
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _fields(each, schemas, must=must, within=within)
    if "items" in schema:
        yield from (f"[]{name}" for name in _fields(schema["items"], schemas, must=must, within=within))
    required = set(schema.get("required", ())) if must else set()
    for name, field in schema.get("properties", {}).items():
        yield f".{name}{'!' if name in required else ''}"
        yield from (f".{name}{inner}" for inner in _fields(field, schemas, must=must, within=within))


def published(name: str) -> set[str]:
    return set((FOLDER / f"{name}.txt").read_text().splitlines())


def broken(before: set[str], now: set[str]) -> list[str]:
    """What a client of `before` would miss, and what it does not send and now would have to."""
    operations = {line for line in before if len(line.split()) == 2}
    missing = [line for line in before - now if f"{line}!" not in now and line.removesuffix("!") not in now]
    demanded = [
        line
        for line in now - before
        if line.endswith("!") and " ".join(line.split()[:2]) in operations and _parent(line) in before | operations
    ]
    return sorted([*(f"gone: {line}" for line in missing), *(f"must be sent now: {line}" for line in demanded)])


def _parent(line: str) -> str:
    """The object a field belongs to: one that is new as a whole demands nothing of those who do not send it."""
    head, _, field = line.rpartition(" ")
    outer = field.removesuffix("!").rpartition(".")[0].removesuffix("[]")
    return f"{head} {outer}" if outer else " ".join(line.split()[:2])


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, described in asyncio.run(documents()).items():
        path = FOLDER / f"{name}.txt"
        kept = published(name) if path.exists() else set()
        path.write_text("".join(f"{line}\n" for line in sorted(kept | lines(described))))


if __name__ == "__main__":
    main()
