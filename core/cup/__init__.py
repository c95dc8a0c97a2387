"""The paper tournament: everything that does not depend on who asks. The API and the keeper both use it.

- `amounts`, `messages`, `wheel`, `listing`: pure: cents, what is signed, the wheel and its draw, listings as markets.
- `ledger`: the only way amounts move. `wallets`, `books`, `trading`, `rounds`, `betting`, `settling`, `board`,
  `enrolment`: one noun each, over one database connection in autocommit: each function opens its own transaction.
- `export` writes everything down as one file, from which all of it can be recomputed.

Amounts are integer cents of pUSDC. A `Refusal` is what a caller did wrong, with the status and code of the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

# Of a position, or a bet on a round.
PaperStatus = Literal["open", "won", "lost", "refunded"]


class Refusal(Exception):
    """The refusal of a request: `message` is a sentence a person or an agent can act on; `extra` joins the error
    body."""

    def __init__(self, status: int, code: str, message: str, extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.extra = dict(extra or {})
