"""Warnings about paper trades and bets that are allowed but unwise."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, cast

from core.cup import Refusal
from core.cup.books import PaperMarket

CLOSES_SOON: Final = timedelta(seconds=120)

# The warnings of the agent surface that apply here (paper pays no fee, so a winning trade never gets less than it
# cost), and the codes of refusals that a simulation's wallet would get.
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
    """A warning about a paper trade or bet."""

    code: PaperCautionCode
    message: str


async def refusal_as_warning(check: Awaitable[None]) -> list[PaperCaution]:
    """Run `check` and return the refusal that it raises as a warning. The warning says that the simulated trade would
    be refused if it were real."""
    try:
        await check
    except Refusal as refusal:
        return [PaperCaution(cast("PaperCautionCode", refusal.code), refusal.message)]
    return []


def warnings(market: PaperMarket, outcome: int, now: datetime) -> list[PaperCaution]:
    """Return warnings about a trade on this outcome of the market."""
    cautions: list[PaperCaution] = []
    label = market.sides[outcome].label
    if market.book.net[outcome] == 0:
        cautions.append(
            PaperCaution(
                "first_on_its_side",
                f"No one has bet on {label} yet. If no one bets on any other outcome, all trades are refunded.",
            )
        )
    left = market.closes_at - now
    if timedelta() < left <= CLOSES_SOON:
        cautions.append(PaperCaution("closes_soon", f"Trading ends in {int(left.total_seconds())} seconds."))
    return cautions
