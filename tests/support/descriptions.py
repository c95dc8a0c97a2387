"""The published descriptions of the service, OpenAPI documents and tools, without a database or a node."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from api.app import SURFACES, TITLE
from api.context import open_context
from api.openapi import document
from api.operations import Surface
from core.config import ApiSecrets, Settings

# Nothing connects to it: the description of a surface needs no database and no node.
NOWHERE = "postgresql://nobody@127.0.0.1:9/nothing"


async def documents() -> dict[str, dict[str, Any]]:
    async with _surfaces() as (surfaces, server):
        return {each.name: document([each], title=TITLE, server=server) for each in surfaces}


async def tools() -> dict[str, list[dict[str, Any]]]:
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
    def spawn(name: str, work: Coroutine[Any, Any, None]) -> object:
        work.close()  # nothing needs to keep up with anything
        return name

    settings = Settings.model_validate({"DATABASE_URL": NOWHERE, "VPM_DATABASE_CONNECT_TIMEOUT_SECONDS": 1})
    async with open_context(settings, ApiSecrets(), spawn) as context, AsyncExitStack() as stack:
        yield [await stack.enter_async_context(make(context)) for make in SURFACES], settings.public_url
