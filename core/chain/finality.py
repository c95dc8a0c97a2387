"""From where on nothing of a chain is undone any more, and whether its newest block is of now. Pure."""

from __future__ import annotations

MAX_LAG_SECONDS = 60
"""A decision about the present must not rest on a head that is older."""


def final_block(indexed: int, finalized: int | None, depth: int) -> int:
    """Return the newest indexed block that nothing undoes; negative while there is none.

    It is the one that the node called final, or, where it has no such notion, the one `depth` blocks back. A finalized
    block above `indexed` says nothing of the blocks the index stands at: they may have been replaced while it looked
    away.
    """
    return finalized if finalized is not None and finalized <= indexed else indexed - depth


def why_head_is_late(head_time: int, now: float, *, blocks_are_regular: bool) -> str | None:
    """A sentence when the newest block is too old to say what time it is on the chain, by our own clock; else None.

    A chain that has stood still dates its next blocks into the time in which it stood, so that it has a head all the
    while, and an old one. Only where blocks come regularly does an old head mean anything.
    """
    if blocks_are_regular and now - head_time > MAX_LAG_SECONDS:
        return "The chain has made no block for a minute."
    return None
