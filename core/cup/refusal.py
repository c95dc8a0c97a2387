"""Why a request is refused: the status and code that the contract gives it, and what the body echoes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Refusal(Exception):
    """The refusal of a request: `message` is a sentence a person or an agent can act on; `extra` joins the error
    body."""

    def __init__(self, status: int, code: str, message: str, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = dict(extra or {})
