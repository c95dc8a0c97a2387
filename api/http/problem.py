"""What a handler raises to refuse a request; the surface turns it into a body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# When to ask again after a 429 that does not know better: every one has Retry-After.
LATER_SECONDS = 10


class Problem(Exception):
    """An answer that is an error. `message` is a sentence a person can act on; `extra` joins the body."""

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
        """The usual body of an error: a code, a sentence, and what joins them."""
        return {"error": self.code, "message": self.message, **self.extra}


def not_found(what: str = "There is nothing at this path.") -> Problem:
    return Problem(404, "not_found", what)


def invalid(message: str, **extra: Any) -> Problem:
    return Problem(400, "invalid_request", message, extra=extra)


def invalid_part(kind: str, name: str, what: str) -> Problem:
    """A 400 for one part of a request, which it names. `kind`: a query parameter, say; `what` is wrong with it."""
    return invalid(f"The {kind} {name} is wrong: {what}.", details=[{"field": name, "problem": what}])
