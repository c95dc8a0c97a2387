"""HTTP with what runs on this machine: a proxy that the environment names is for the rest of the world."""

from __future__ import annotations

import urllib.request

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str, timeout_seconds: float) -> bool:
    """Return whether a server answers there with status 200."""
    try:
        with DIRECT.open(url, timeout=timeout_seconds) as response:
            return bool(response.status == 200)
    except OSError:  # an answer of another status among them
        return False
