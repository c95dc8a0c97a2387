"""Whether a chain's newest block is of now: what is decided about the present must not rest on a head of the past."""

from __future__ import annotations

MAX_LAG_SECONDS = 60


def why_head_is_late(head_time: int, now: float, *, blocks_are_regular: bool) -> str | None:
    """A sentence when the newest block is too old to say what time it is on the chain, by our own clock; else None.

    A chain that has stood still dates its next blocks into the time in which it stood, so that it has a head all the
    while, and an old one. Only where blocks come regularly does an old head mean anything.
    """
    if blocks_are_regular and now - head_time > MAX_LAG_SECONDS:
        return "The chain has made no block for a minute."
    return None
