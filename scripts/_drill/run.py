"""Runs drills one after another on one fleet, with bets going on; says what was expected and what happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scripts._drill.checks import faults
from scripts._drill.drill import Drill
from scripts._drill.fleet import DidNotHappen, Fleet
from scripts._drill.load import Load, LoadReport
from scripts._drill.proxy import Mood
from scripts._stack.chains import CHAIN_IDS

WARM_SECONDS = 150.0
SURFACES = ("stock", "agent", "cup")

Say = Callable[[str], None]


@dataclass
class Result:
    """One drill's outcome."""

    drill: Drill
    passed: bool
    happened: str
    recovery_seconds: float | None
    took_seconds: float
    faults: list[str] = field(default_factory=list)

    def body(self) -> dict[str, object]:
        return {
            "drill": self.drill.name,
            "breaks": self.drill.breaks,
            "expected": self.drill.expected,
            "afterwards": self.drill.afterwards,
            "happened": self.happened,
            "held": self.passed and not self.faults,
            "recoverySeconds": None if self.recovery_seconds is None else round(self.recovery_seconds, 2),
            "tookSeconds": round(self.took_seconds, 1),
            "faults": self.faults,
        }


async def run_drills(fleet: Fleet, drills: Sequence[Drill], load: Load, say: Say) -> list[Result]:
    """Stops at the first drill after which the service does not come to rest: what follows would prove nothing."""
    results: list[Result] = []
    for drill in drills:
        say(f"\n{drill.name}: {drill.breaks}\n  expected   {drill.expected}\n  afterwards {drill.afterwards}")
        result = await _one(fleet, drill, load)
        results.append(result)
        say(f"  happened   {result.happened}")
        if result.recovery_seconds is not None:
            say(f"  recovery   {result.recovery_seconds:.1f} s")
        say(f"  {'held' if result.passed else 'DID NOT HOLD'}")
        if not result.passed and not await _rests(fleet):
            say("  the service did not come to rest; the remaining drills are not run")
            break
    return results


async def warm(fleet: Fleet, load: Load, say: Say) -> None:
    """Until a bet was taken on every surface: before that a drill would break something that does not work yet."""
    took = await fleet.until(
        lambda: all(load.taken(surface) for surface in SURFACES), "a bet taken on every surface", WARM_SECONDS
    )
    say(f"bets are taken on every surface after {took:.0f} s")


async def _one(fleet: Fleet, drill: Drill, load: Load) -> Result:
    began = time.monotonic()
    try:
        outcome = await drill.run(fleet, load)
    except Exception as error:  # whatever a drill meets is its outcome; the next one still has its turn
        fleet.mood(Mood.FAITHFUL)
        happened = str(error) if isinstance(error, DidNotHappen) else f"{type(error).__name__}: {error}"
        return Result(drill, False, happened, None, time.monotonic() - began)
    return Result(drill, True, outcome.happened, outcome.recovery_seconds, time.monotonic() - began)


async def _rests(fleet: Fleet) -> bool:
    try:
        await asyncio.gather(*(fleet.indexed(chain, 60) for chain in CHAIN_IDS))
    except DidNotHappen:
        return False
    return True


async def final_checks(fleet: Fleet, load: Load, say: Say) -> list[str]:
    """Nothing lost, nothing doubled: after the last drill, over everything that was bet."""
    say("\nnothing lost, nothing doubled")
    broken = await faults(fleet, load)
    counts = ", ".join(f"{len(load.taken(surface))} {surface}" for surface in SURFACES if load.taken(surface))
    refused = sum(one.report is LoadReport.REFUSED for one in load.promises)
    say(f"  {counts or 'no bets'} taken, {refused} refused, {load.reads} reads of which {load.failed_reads} failed")
    for each in broken:
        say(f"  FAULT {each}")
    if not broken:
        say("  every bet that was taken is there once, none that was refused is; tables and contracts agree")
    return broken
