"""Bodies as they go out: `meta` on every 2xx, money with exact digits."""

from __future__ import annotations

from typing import Any

import orjson
from aiohttp import web

from api.agent.facts import Venue
from api.agent.links import Links
from api.http.application import json_response
from core.iso import iso, now_iso

NAME = "VPM agent API"
VERSION = "service-agent-api-v1"


def meta(links: Links, venue: Venue | None = None) -> dict[str, Any]:
    """`venue`: the state of the index a body was made from; how fresh that is goes with it."""
    words: dict[str, Any] = {
        "name": NAME,
        "version": VERSION,
        "generatedAt": now_iso(),
        "docsUrl": links.docs,
    }
    return words if venue is None else {**words, "freshness": freshness(venue)}


def freshness(venue: Venue) -> dict[str, Any]:
    return {"block": venue.head.number, "blockAt": iso(venue.head.timestamp), "lagBlocks": venue.head.lag}


def reply(
    links: Links,
    body: dict[str, Any],
    *,
    venue: Venue | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> web.Response:
    return json_response({"meta": meta(links, venue), **body}, status, headers=headers)


def body_bytes(links: Links, body: dict[str, Any], venue: Venue | None) -> bytes:
    """A 200 body for many callers; `meta.generatedAt` says when it was rendered."""
    return orjson.dumps({"meta": meta(links, venue), **body})
