"""From where on nothing of a chain is undone any more. Pure; what relies on finality asks here."""

from __future__ import annotations


def final_block(indexed: int, finalized: int | None, depth: int) -> int:
    """The newest indexed block that nothing undoes; negative while there is none.

    It is the one that the node called final, or, where it has no such notion, the one `depth` blocks back. A finalized
    block above `indexed` says nothing of the blocks the index stands at: they may have been replaced while it looked
    away.
    """
    return finalized if finalized is not None and finalized <= indexed else indexed - depth
