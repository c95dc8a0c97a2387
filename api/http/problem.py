"""The exception with which a handler refuses a request; the surface renders its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# The Retry-After of a 429 that sets none itself.
LATER_SECONDS = 10


class Problem(Exception):
    """An error answer. `message`: a sentence that a person can act on. `extra`: further fields of the body."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})
        if status == 429:
            self.headers.setdefault("Retry-After", str(LATER_SECONDS))
        self.extra = dict(extra or {})

    @property
    def body(self) -> dict[str, Any]:
        """The usual body of an error: a code, a sentence and the extra fields."""
        return {"error": self.code, "message": self.message, **self.extra}


def not_found(what: str = "There is nothing at this path.") -> Problem:
    return Problem(404, "not_found", what)


def invalid(message: str, **extra: Any) -> Problem:
    return Problem(400, "invalid_request", message, extra=extra)


def invalid_part(kind: str, name: str, what: str) -> Problem:
    """Return a 400 that names one part of a request. `kind`: such as "query parameter". `what`: what is wrong."""
    return invalid(f"The {kind} {name} is wrong: {what}.", details=[{"field": name, "problem": what}])
