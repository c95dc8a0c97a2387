"""A circuit breaker: after several failures in a row an endpoint rests, longer each time, until a probe succeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class CircuitBreaker:
    """A circuit breaker: closed -> open after `threshold` failures in a row -> half-open after the rest, when one
    request probes -> closed, or open for longer. `clock` returns monotonic seconds."""

    clock: Callable[[], float]
    threshold: int = 3
    first_rest_seconds: float = 1.0
    longest_rest_seconds: float = 30.0
    longest_asked_seconds: float = 30.0
    _failures: int = field(default=0, init=False)
    _open_until: float | None = field(default=None, init=False)
    _rest_seconds: float = field(default=0.0, init=False)
    _probing: bool = field(default=False, init=False)

    @property
    def state(self) -> str:
        if self._open_until is None:
            return "closed"
        return "half-open" if self.clock() >= self._open_until else "open"

    def allows(self) -> bool:
        """Return whether a request may be sent. While half-open, only one caller gets True until its outcome is
        recorded."""
        if self._open_until is None:
            return True
        if self.clock() < self._open_until or self._probing:
            return False
        self._probing = True
        return True

    def succeeded(self) -> None:
        if self._open_until is not None and not self._probing:
            return  # sent before the circuit opened, so it says nothing about the endpoint now
        self._failures = 0
        self._open_until = None
        self._rest_seconds = 0.0
        self._probing = False

    def failed(self, rest_seconds: float | None = None) -> None:
        """Record a failure; `rest_seconds` (a node's Retry-After) opens the circuit at once for at least that long."""
        self._failures += 1
        probed, self._probing = self._probing, False
        asked = self.clock() + min(rest_seconds or 0.0, self.longest_asked_seconds)
        if self._open_until is not None and not probed:
            self._open_until = max(self._open_until, asked)
            return
        if rest_seconds is None and self._open_until is None and self._failures < self.threshold:
            return
        grown = self._rest_seconds * 2 if self._rest_seconds else self.first_rest_seconds
        self._rest_seconds = min(grown, self.longest_rest_seconds)
        self._open_until = max(self.clock() + self._rest_seconds, asked)

    def abandoned(self) -> None:
        """Record that a probe was cancelled; the next caller may probe."""
        self._probing = False
