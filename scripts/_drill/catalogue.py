"""Every drill by its name, in the order `--all` runs them."""

from __future__ import annotations

from scripts._drill import contracts, nodes, pools, powers, processes, storage
from scripts._drill.drill import Drill

# A condemned feed stays so, and what a deep reorganization takes back cannot be kept: they come last.
DRILLS: dict[str, Drill] = {
    drill.name: drill
    for drill in (
        *processes.DRILLS,
        *storage.DRILLS,
        *nodes.DRILLS,
        *contracts.DRILLS,
        *pools.DRILLS,
        *powers.DRILLS,
        nodes.DEEP_REORG,
    )
}

QUICK = ("kill-indexer", "stop-postgres", "drop-rpc", "reorg", "freeze-owner")
"""Enough to notice a broken recovery, in about a minute; what `vpm test` runs."""
