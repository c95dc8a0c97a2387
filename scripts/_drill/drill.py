"""What a drill is: what it breaks, what is expected to hold, what must be different afterwards, and a function that
does it and looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scripts._drill.fleet import DidNotHappen, Fleet
from scripts._drill.load import Load, LoadReport, Promise
from scripts._drill.witness import is_public, times_there


@dataclass(frozen=True, slots=True)
class DrillHeld:
    """What happened, and how long it took from the repair (or the blow, where nothing is repaired) to normal."""

    happened: str
    recovery_seconds: float


TRY_EVERY_SECONDS = 4.0

Run = Callable[[Fleet, Load], Awaitable[DrillHeld]]


@dataclass(frozen=True, slots=True)
class Drill:
    """A thing to break. expected: what goes on, and how soon. afterwards: what the chain or the public pages then show,
    and would not if nothing had been broken or it had not been mended; `run` looks. runbook: the section of
    docs/operate.md whose symptom it produces."""

    name: str
    breaks: str
    expected: str
    afterwards: str
    runbook: str
    run: Run


def require(holds: bool, otherwise: str) -> None:
    """DidNotHappen with the sentence unless it holds."""
    if not holds:
        raise DidNotHappen(otherwise)


async def bet_taken(fleet: Fleet, load: Load, seconds: float, door: str | None = None) -> float:
    """Seconds until a new gasless bet is confirmed from end to end: told, on the chain once, and shown on the public
    page of its owner (`door`: by this API process). One that has to wait does not hold up the next."""
    trying: list[asyncio.Task[Promise | None]] = []
    tried = 0.0

    async def taken() -> bool:
        nonlocal tried
        if time.monotonic() - tried > TRY_EVERY_SECONDS:
            tried = time.monotonic()
            trying.append(asyncio.create_task(load.stock()))
        done = [task.result() for task in trying if task.done() and task.exception() is None]
        for promise in done:
            if promise is None or promise.report is not LoadReport.TAKEN:
                continue
            if await times_there(fleet, promise) == 1 and await is_public(fleet, load, promise, door):
                return True
        return False

    took = await fleet.until(taken, "a new bet confirmed, on the chain and on its owner's page", seconds)
    load.adopt(trying)
    return took


async def reads_served(load: Load) -> int:
    """The status of the market list now."""
    status, _ = await load.call("GET", "/api/markets")
    return status


async def all_taken(fleet: Fleet, bets: list[asyncio.Task[Promise | None]], what: str, seconds: float) -> float:
    """Seconds until each of these bets is told as taken and on the chain once. One that was never signed is none."""

    async def are_there() -> bool:
        if not all(task.done() for task in bets):
            return False
        made = [promise for task in bets if (promise := task.result()) is not None]
        require(bool(made), "no bet was made: there was nothing to lose")
        return all([one.report is LoadReport.TAKEN and await times_there(fleet, one) == 1 for one in made])

    return await fleet.until(are_there, what, seconds)
