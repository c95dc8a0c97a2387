"""What stakes are owed once their market is settled. Pure; token units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.mirror.settlement import Book

BATCH = 50
"""Stakes in one `pay`."""

IN_BOOK, OWED_BACK = 1, 2
RESOLVED, VOID = 2, 3


@dataclass(frozen=True, slots=True)
class Stake:
    """A stake the contract has not paid, with what decides what it is owed."""

    stake_id: int
    status: int
    outcome: int | None
    amount: int
    shares: int
    failed: int  # payouts the token refused so far


@dataclass(frozen=True, slots=True)
class Due:
    """A stake that `pay` would send something for."""

    stake_id: int
    amount: int
    failed: int


def dues(stakes: Sequence[Stake], book: Book, status: int, winner: int | None) -> list[Due]:
    """Of one market. A late payment is owed back whatever becomes of the market."""
    found = []
    for stake in stakes:
        owed = 0
        if stake.status == OWED_BACK:
            owed = stake.amount
        elif stake.status == IN_BOOK and status in (RESOLVED, VOID) and stake.outcome is not None:
            owed = book.owed(winner if status == RESOLVED else None, stake.outcome, stake.amount, stake.shares)
        if owed:
            found.append(Due(stake.stake_id, owed, stake.failed))
    return sorted(found, key=lambda due: due.stake_id)


def payments(ready: Sequence[Due]) -> list[tuple[Due, ...]]:
    """In batches. One that the token refused before goes with its like, so it never delays the others."""
    fresh = [due for due in ready if not due.failed]
    again = [due for due in ready if due.failed]
    return [tuple(group[start : start + BATCH]) for group in (fresh, again) for start in range(0, len(group), BATCH)]
