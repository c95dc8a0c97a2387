"""What a drill is: what it breaks, what is expected to hold, and a function that does it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scripts._drill.fleet import DidNotHappen, Fleet
from scripts._drill.load import Load, Promise, Told
from scripts._stack.wallets import Wallet


@dataclass(frozen=True, slots=True)
class Held:
    """What happened, and how long it took from the repair (or the blow, where nothing is repaired) to normal."""

    happened: str
    recovery_seconds: float


TRY_EVERY_SECONDS = 4.0

Run = Callable[[Fleet, Load], Awaitable[Held]]


@dataclass(frozen=True, slots=True)
class Drill:
    name: str
    breaks: str
    expected: str
    runbook: str  # the section of docs/operate.md whose symptom it produces
    run: Run


def require(holds: bool, otherwise: str) -> None:
    """DidNotHappen with the sentence unless it holds."""
    if not holds:
        raise DidNotHappen(otherwise)


async def bet_taken(fleet: Fleet, load: Load, seconds: float, wallet: Wallet | None = None) -> float:
    """Seconds until a new gasless bet is confirmed from end to end. One that has to wait does not hold up the next."""
    trying: list[asyncio.Task[Promise | None]] = []
    tried = 0.0

    def taken() -> bool:
        nonlocal tried
        if time.monotonic() - tried > TRY_EVERY_SECONDS:
            tried = time.monotonic()
            trying.append(asyncio.create_task(load.stock(wallet)))
        done = [task.result() for task in trying if task.done() and task.exception() is None]
        return any(promise is not None and promise.told is Told.TAKEN for promise in done)

    took = await fleet.until(taken, "a new bet confirmed", seconds)
    load.adopt(trying)
    return took


async def reads_served(load: Load) -> int:
    """The status of the market list now."""
    status, _ = await load.call("GET", "/api/markets")
    return status
