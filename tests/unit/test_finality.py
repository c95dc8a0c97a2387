"""Which block is final: the edges of the rule that the index, the API and the keeper share."""

from __future__ import annotations

import pytest

from core.chain.heads import final_block


@pytest.mark.parametrize(
    ("indexed", "finalized", "depth", "final"),
    [
        (100, None, 64, 36),  # a chain whose node has no such notion
        (100, 20, 64, 20),  # the node's word counts where it is deeper
        (100, 95, 64, 95),  # and where it is not so deep
        (100, 100, 64, 100),
        (100, 101, 64, 36),  # what is final above the index says nothing of the block it stands at
        (100, 0, 64, 0),  # nothing but the first block
        (64, None, 64, 0),
        (63, None, 64, -1),  # none yet: the chain is not that long
        (0, None, 64, -64),
    ],
)
def test_the_final_block_is_the_nodes_or_so_many_back(
    indexed: int, finalized: int | None, depth: int, final: int
) -> None:
    assert final_block(indexed, finalized, depth) == final
