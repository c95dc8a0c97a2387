"""The paper tournament. Amounts are integer cents of pUSDC, and only `ledger` moves them.

`amounts` and `wheel` are pure. Functions of the other modules take a connection in autocommit and open their own
transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# The status of a position or a bet on a round.
PaperStatus = Literal["open", "won", "lost", "refunded"]


class Refusal(Exception):
    """The refusal of a request, with the API's status and code. `extra` is added to the error body."""

    def __init__(self, status: int, code: str, message: str, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = dict(extra or {})
