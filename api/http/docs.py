"""The OpenAPI documents: /openapi.json, and /openapi/<surface>.json."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from api.cache import TimedValue
from api.http.openapi import document, with_examples
from api.http.operation import DocumentedAnswer, Operation, Surface
from api.http.rendered import Rendered, shared

CACHE = shared(300)

OpenApi = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceDescription:
    """The surfaces, and the document of all of them."""

    surfaces: tuple[Surface, ...]
    whole: TimedValue[OpenApi]


def docs_surface(surfaces: Sequence[Surface], *, title: str, server: str) -> Surface:
    """Describe these surfaces, with examples that work now."""
    whole = _described(surfaces, title, server)
    operations = [_document("/openapi.json", "All surfaces in one OpenAPI document", whole, surfaces)]
    for surface in surfaces:
        one = _described([surface], f"{title}: {surface.title}", server)
        operations.append(_document(f"/openapi/{surface.name}.json", f"OpenAPI: {surface.title}", one, [surface]))
    return Surface(
        name="docs",
        title="Documentation",
        description="",
        prefixes=("/openapi",),
        operations=tuple(operations),
        reads=(ServiceDescription(tuple(surfaces), whole),),
    )


def _described(surfaces: Sequence[Surface], title: str, server: str) -> TimedValue[OpenApi]:
    """Make the description in a thread when it is first asked for: it takes longer than a start should."""
    return TimedValue(partial(asyncio.to_thread, partial(document, surfaces, title=title, server=server)))


def _document(path: str, summary: str, described: TimedValue[OpenApi], surfaces: Sequence[Surface]) -> Operation:
    kept: tuple[dict[str, Any], Rendered] | None = None

    async def serve(request: web.Request) -> web.StreamResponse:
        nonlocal kept
        examples = {name: body for surface in surfaces if surface.examples for name, body in surface.examples().items()}
        if kept is None or kept[0] != examples:
            body = orjson.dumps(with_examples(await described.get(), examples))
            kept = examples, await Rendered.make(body, CACHE)
        return kept[1].response(request)

    return Operation("GET", path, serve, summary, {200: DocumentedAnswer(summary)}, timed=False, hidden=True)
