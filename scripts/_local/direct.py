"""HTTP to programs on this machine, without the environment's proxy."""

from __future__ import annotations

import urllib.request

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, timeout_seconds: float) -> bool:
    """Return whether a URL answers with status 200."""
    try:
        with DIRECT.open(url, timeout=timeout_seconds) as response:
            return bool(response.status == 200)
    except OSError:  # including answers with another status
        return False
