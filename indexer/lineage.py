"""Which block the tables and the chain last agree on. Pure.

Blocks of a chain agree up to some number and disagree above it, so the answer is the highest stored block whose hash
the chain still has at that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from indexer.logs import BlockInfo


@dataclass(frozen=True, slots=True)
class Fork:
    """Where the chain left the blocks we stored: `ancestor` is the last block both have, None when none of those stored
    is left; `replaced` the first stored block above it, which the chain must not have any more."""

    ancestor: BlockInfo | None
    replaced: BlockInfo | None


def common_ancestor(stored: Sequence[BlockInfo], on_chain: Mapping[int, bytes]) -> Fork | None:
    """The fork among `stored`, descending by number. None when all of them are replaced: look further down."""
    above: BlockInfo | None = None
    for block in stored:
        if on_chain.get(block.number) == block.hash:
            return Fork(block, above)
        above = block
    return None


def confirms(fork: Fork, ancestor_hash: bytes | None, replaced_hash: bytes | None) -> bool:
    """Whether another node, asked for both blocks' hashes by number, tells of the same fork.

    None means it has no such block: it may lag, and confirms nothing, except that a chain cut short lacks what was
    replaced."""
    if fork.ancestor is not None and ancestor_hash != fork.ancestor.hash:
        return False
    return fork.replaced is None or replaced_hash != fork.replaced.hash
