"""The settings for how rough a world is."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Any

from tests.simulator.chain import BLOCK_SECONDS

SPARES = ("indexer-1", "relayer-1", "keeper-1")  # some seeds have one of these as well


@dataclass
class Weather:
    roughness: float  # share of a node's moods that are bad
    kill_every: int | None  # steps of a process between deaths
    fork_rate: float  # per block
    break_rate: float  # per connection
    pace: float  # seconds between bets
    spare: str | None  # a second process of a daemon
    block_seconds: float = float(BLOCK_SECONDS)  # the same in every seed

    @classmethod
    def of(cls, dice: random.Random) -> Weather:
        return cls(
            dice.choice((0.0, 0.3, 0.6, 0.9)),
            dice.choice((None, 2_000, 5_000, 15_000)),
            dice.choice((0.0, 0.02, 0.08)),
            dice.choice((0.0, 0.0, 0.02, 0.1)),
            dice.choice((1.0, 2.0, 4.0)),
            dice.choice((None, None, None, *SPARES)),
        )

    def but(self, said: str) -> Weather:
        """Replace drawn values by given ones: `fork_rate=0.3,kill_every=`, where an empty value is None."""
        given: dict[str, Any] = {}
        for each in filter(None, said.split(",")):
            name, _, value = each.partition("=")
            if name not in {field.name for field in fields(self)}:
                raise ValueError(f"{name} is nothing of a weather's: {', '.join(field.name for field in fields(self))}")
            given[name] = _as_said(name, value)
        return replace(self, **given)


def _as_said(name: str, value: str) -> Any:
    if not value and name in ("kill_every", "spare"):
        return None
    return value if name == "spare" else int(value) if name == "kill_every" else float(value)
