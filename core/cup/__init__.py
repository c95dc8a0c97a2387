"""The paper tournament, as used by the API and the keeper.

- `amounts`, `wheel`, `listing`: pure functions for cents, the wheel and its draw, and paper listings.
- `ledger`: the only code that moves amounts.
- `books`, `trading`, `rounds`, `betting`, `settling`, `board`: work on a connection in autocommit; each function opens
  its own transaction.
- `export`: writes everything to one file, from which all results can be recomputed.

Amounts are integer cents of pUSDC. A `Refusal` says what a caller did wrong, with the status and code of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# The status of a position or a bet on a round.
PaperStatus = Literal["open", "won", "lost", "refunded"]


class Refusal(Exception):
    """The refusal of a request. `message` is a sentence to act on; `extra` is added to the error body."""

    def __init__(self, status: int, code: str, message: str, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = dict(extra or {})
