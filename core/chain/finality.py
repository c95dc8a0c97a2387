"""Which blocks are final, and whether a chain's head is current."""

from __future__ import annotations

MAX_LAG_SECONDS = 60
"""The oldest head on which decisions about the present may rest."""


def final_block(indexed: int, finalized: int | None, depth: int) -> int:
    """Return the newest indexed block that is final; negative if there is none.

    It is the node's finalized block or, if the node has none, the block `depth` below `indexed`. A finalized block
    above `indexed` says nothing about the indexed blocks, which may have been replaced since.
    """
    return finalized if finalized is not None and finalized <= indexed else indexed - depth


def why_head_is_late(head_time: int, now: float, *, blocks_are_regular: bool) -> str | None:
    """Return a sentence if the head is too old, by our clock, to tell the chain's time; else None.

    A halted chain has an old head, and dates its next blocks into the time of the halt. An old head means something
    only on chains whose blocks come regularly.
    """
    if blocks_are_regular and now - head_time > MAX_LAG_SECONDS:
        return "The chain has produced no block for a minute."
    return None
