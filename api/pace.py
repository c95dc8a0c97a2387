"""How often something may be done for long, and how often at once."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """A limit for whoever does something again and again: once in `seconds` on average, and up to `at_once` times in a
    row after as long a quiet time."""

    def __init__(self, seconds: float, at_once: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._credit_seconds = seconds * (at_once - 1)
        self._clock = clock
        self._next = clock() - self._credit_seconds

    def pause(self) -> float:
        """Counts one more, and tells how long to wait before the next."""
        now = self._clock()
        self._next = max(self._next, now - self._credit_seconds) + self._seconds
        return max(0.0, self._next - now)
