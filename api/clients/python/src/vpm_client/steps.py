"""What a sequence of calls is made of: it says what it wants done next, and a client, sync or async, does it.

So the sequence stands once, for both.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from vpm_client.bound import TypedData
from vpm_client.call import Call, Lost, Reply, answer
from vpm_client.errors import ApiError, Unreachable

T = TypeVar("T")

FIRST_PAUSE = 0.25
MAX_PAUSE = 5.0


@dataclass(frozen=True, slots=True)
class Ask:
    """A call to make; a Reply or a Lost is the result."""

    call: Call[Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Sign:
    """Something for the wallet to sign; the bytes of the signature are the result."""

    typed: TypedData


@dataclass(frozen=True, slots=True)
class Keep:
    """A ticket to show the caller as it stands now, before anything is done with it."""

    ticket: Any


Step = Ask | Pause | Sign | Keep
Steps = Generator[Step, Any, T]


class Patience:
    """The time there is for something, and growing pauses within it."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    def next(self, least: float | None = None) -> float | None:
        """How long to wait before another try, None when there is no time for one. `least`: what the API asked for."""
        pause = max(self._pause * random.uniform(0.7, 1.3), least or 0.0)  # noqa: S311 (only spreads retries)
        self._pause = min(self._pause * 2, MAX_PAUSE)
        return None if time.monotonic() + pause > self._ends else pause


def ask(call: Call[Any]) -> Steps[Reply | Lost]:
    heard: Reply | Lost = yield Ask(call)
    return heard


def once(call: Call[T]) -> Steps[T]:
    """The answer to a call that is not made again, whatever comes of it."""
    heard = yield from ask(call)
    if isinstance(heard, Lost):
        raise Unreachable(f"{call.method} {call.path}: {heard.why}")
    return answer(call, heard)


def asked(call: Call[T], patience: Patience) -> Steps[T]:
    """The answer to a call that may be made again as often as one likes: it changes nothing."""
    while True:
        try:
            return (yield from once(call))
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and not error.retriable:
                raise
            pause = patience.next(error.retry_after if isinstance(error, ApiError) else None)
            if pause is None:
                raise
        yield Pause(pause)
