"""Who may keep an answer and how long, as Cache-Control says it.

A shared cache (a CDN, a caching proxy) holds the copy of a public read for a third of its lifetime, so that its copy is
never as old as a client may keep one; while it fetches the next one it goes on giving out the old one for the other two
thirds, so that a crowd costs the origin one request. What names a wallet, or was paid for, never gets there.
"""

from __future__ import annotations

NO_STORE = "no-store"


def shared(seconds: int) -> str:
    """A public read that a client may keep for so long."""
    fresh = max(1, seconds // 3)
    return f"public, max-age={seconds}, s-maxage={fresh}, stale-while-revalidate={seconds - fresh}"


def own(seconds: int) -> str:
    """Names a wallet: for the caller's own cache only."""
    return f"private, max-age={seconds}"
