"""Bodies as they go out: `meta` on every 2xx, money with exact digits."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from api.agent.render import Links
from api.agent.times import now_iso
from api.http.application import json_response

NAME = "VPM agent API"
VERSION = "service-agent-api-v1"


def meta(links: Links) -> dict[str, str]:
    return {"name": NAME, "version": VERSION, "generatedAt": now_iso(), "docsUrl": links.docs}


def reply(
    links: Links, body: dict[str, Any], *, status: int = 200, meta: bool = True, headers: dict[str, str] | None = None
) -> web.Response:
    return json_response({"meta": _meta(links), **body} if meta else body, status, headers=headers)


def body_bytes(links: Links, body: dict[str, Any]) -> bytes:
    """A 200 body for many callers; `meta.generatedAt` says when it was rendered."""
    return orjson.dumps({"meta": _meta(links), **body})


_meta = meta
