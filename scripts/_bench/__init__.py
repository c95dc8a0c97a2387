"""`./vpm bench`: what the product costs and how fast it is, each figure against a baseline of the same run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scripts._bench import cup, gas, index, relay

BENCHES: dict[str, Callable[[Path | None], int]] = {
    "cup": cup.main,
    "gas": gas.main,
    "index": index.main,
    "relay": relay.main,
}
