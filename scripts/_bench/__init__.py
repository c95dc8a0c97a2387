"""`./vpm bench`: what the product costs and how fast it is, each figure against a baseline of the same run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from scripts._bench import api, cup, events, gas, growth, index, pages, provider, relay, report, scale, start, trade

BENCHES: dict[str, Callable[[Path | None], int]] = {
    "all": report.main,
    "api": api.main,
    "cup": cup.main,
    "events": events.main,
    "gas": gas.main,
    "growth": growth.main,
    "index": index.main,
    "pages": pages.main,
    "provider": provider.main,
    "relay": relay.main,
    "scale": scale.main,
    "start": start.main,
    "trade": trade.main,
}

# What `--long` runs instead: the same with figures that take many minutes.
LONG: dict[str, Callable[[Path | None], int]] = {
    "api": partial(api.main, memory_requests=api.MILLION),
    "growth": partial(growth.main, size=growth.TEN_YEARS, soak_hours=growth.SOAK_HOURS),
}
