"""The address that a page is asked about."""

from __future__ import annotations

import re

from aiohttp import web

ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{40}")


def owner_of(request: web.Request) -> str | None:
    """Lower-case; None when there is none, or what is given is no address."""
    given = request.query.get("owner", "").strip()
    return given.lower() if ADDRESS.fullmatch(given) else None
