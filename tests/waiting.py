"""Waiting for what happens elsewhere: in a database, a chain, another process.

A caller says what it waits for, polls for it and gets the answer. A wait that ends without it fails the test
and says what was waited for: in words, or by a function that is called only then and describes what there is instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar, overload

from core.service.cancelling import cancel_and_wait

T = TypeVar("T")
Description = str | Callable[[], object]

# Seconds that a test waits for what must come: several times what a machine needs that is busy with something else, and
# well within the limit of a test. What must come *soon* names its own bound.
PATIENCE = 150.0


@overload
async def until(
    holds: Callable[[], Awaitable[T | None]],
    what: Description = "it",
    seconds: float = PATIENCE,
    *,
    pause: float = 0.05,
) -> T: ...


@overload
async def until(
    holds: Callable[[], T | None], what: Description = "it", seconds: float = PATIENCE, *, pause: float = 0.05
) -> T: ...


async def until(
    holds: Callable[[], Any], what: Description = "it", seconds: float = PATIENCE, *, pause: float = 0.05
) -> Any:
    """The first true answer of `holds`, which may be asynchronous."""
    deadline = time.monotonic() + seconds
    while True:
        found = holds()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        _check_patience(deadline, what, seconds)
        await asyncio.sleep(pause)


def wait(
    holds: Callable[[], T | None], what: Description = "it", seconds: float = PATIENCE, *, pause: float = 0.05
) -> T:
    """`until`, where no event loop runs."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        _check_patience(deadline, what, seconds)
        time.sleep(pause)
    return found


def _check_patience(deadline: float, what: Description, seconds: float) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"waited {seconds:g} s for {what() if callable(what) else what}")


@contextlib.asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something in the background, and cancel it at the end. Raises what it failed with."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await cancel_and_wait(task)
        with contextlib.suppress(asyncio.CancelledError):
            task.result()
