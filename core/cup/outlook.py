"""What a paper trade would be paid, and what is allowed but unwise about it."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, cast

from core.cup import Refusal
from core.cup.books import PaperMarket

CLOSES_SOON: Final = timedelta(seconds=120)

# What is unwise: of the agent surface's codes those that can be, as paper pays no fee and a right trade never gets less
# than it cost. And what the wallet of a simulation would be refused for: the codes of the refusals.
PaperCautionCode = Literal[
    "first_on_its_side",
    "closes_soon",
    "insufficient_funds",
    "cup_agent_trades_halted",
    "stake_out_of_bounds",
    "bet_conflict",
]


@dataclass(frozen=True, slots=True)
class PaperCaution:
    """A reason to think again before a bet."""

    code: PaperCautionCode
    message: str


async def refusal_as_warning(check: Awaitable[None]) -> list[PaperCaution]:
    """Return a caution for what would be refused if it were real: `check` refuses it."""
    try:
        await check
    except Refusal as refusal:
        return [PaperCaution(cast("PaperCautionCode", refusal.code), refusal.message)]
    return []


def warnings(market: PaperMarket, outcome: int, now: datetime) -> list[PaperCaution]:
    """Return the cautions about a trade that might be made in this book."""
    cautions: list[PaperCaution] = []
    label = market.sides[outcome].label
    if market.book.net[outcome] == 0:
        cautions.append(
            PaperCaution(
                "first_on_its_side",
                f"Nobody holds {label} yet; if nobody holds anything else in the end, every trade is given back.",
            )
        )
    left = market.closes_at - now
    if timedelta() < left <= CLOSES_SOON:
        cautions.append(PaperCaution("closes_soon", f"Trades end in {int(left.total_seconds())} seconds."))
    return cautions
