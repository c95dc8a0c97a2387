"""The projected payout of a bet, and warnings about it. Pure; amounts are token units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from api.agent.facts import BookTotals, ListedMarket, Stake
from api.operations import Body
from core.agent.book import Quote
from core.agent.words import moment
from core.money import decimal_text, json_number, json_ratio_down

# The time that a payment may take from its challenge to its block.
CLOSES_SOON_SECONDS = 120
SHARE_DECIMALS = 6

CautionCode = Literal["pays_less_than_stake", "first_on_its_side", "wallet_underfunded", "closes_soon"]


class BetWarning(Body, kw_only=False):
    """A reason to reconsider a bet."""

    code: CautionCode
    message: str


@dataclass(frozen=True, slots=True)
class Projection:
    """The payout of `shares` if their side wins with the current book, which includes the bet."""

    payout: int
    shares: int
    warnings: tuple[BetWarning, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return the fields with which a body shows the projection. The payout per share is rounded down."""
        return {
            "projected_payout_usd": json_number(self.payout),
            "projected_payout_per_share_usd": (
                json_ratio_down(self.payout, self.shares, SHARE_DECIMALS) if self.shares else None
            ),
            "warnings": list(self.warnings),
        }


def project_quote(
    market: ListedMarket, outcome: int, quoted: Quote, *, now: int | None = None, balance: int | None = None
) -> Projection:
    """Project a quoted bet. `now`: the chain's clock. `balance`: the wallet's balance. If either is None, the check
    that needs it is skipped."""
    book, _ = market.book.staked(outcome, quoted.amount)
    payout = book.projected(outcome, quoted.amount, quoted.shares)
    warnings = _warnings(market, outcome, quoted.amount, payout, alone=market.outcome_bets[outcome] == 0)
    if balance is not None and balance < quoted.amount:
        warnings.append(
            BetWarning(
                "wallet_underfunded",
                f"The wallet holds {decimal_text(balance)} USDC, but the bet is {decimal_text(quoted.amount)} USDC.",
            )
        )
    if now is not None and 0 < market.closes_at - now <= CLOSES_SOON_SECONDS:
        warnings.append(
            BetWarning(
                "closes_soon",
                f"Betting ends at {moment(market.closes_at)}, in {market.closes_at - now} seconds.",
            )
        )
    return Projection(payout, quoted.shares, tuple(warnings))


def project_stake(market: ListedMarket, stake: Stake, outcome: int, totals: BookTotals) -> Projection:
    """Project a stake at the time it was placed. `totals`: the totals of each outcome right after the stake."""
    payout = market.book_of(totals).projected(outcome, stake.amount, stake.shares)
    warnings = _warnings(market, outcome, stake.amount, payout, alone=totals[outcome][-1] == 1)
    return Projection(payout, stake.shares, tuple(warnings))


def project_position(market: ListedMarket, stake: Stake, outcome: int) -> Projection:
    """Project a stake with the current book."""
    payout = market.book.projected(outcome, stake.amount, stake.shares)
    if market.ending is not None:
        return Projection(payout, stake.shares)
    warnings = _warnings(market, outcome, stake.amount, payout, alone=market.outcome_bets[outcome] == 1)
    return Projection(payout, stake.shares, tuple(warnings))


def _warnings(market: ListedMarket, outcome: int, amount: int, payout: int, *, alone: bool) -> list[BetWarning]:
    """Return the warnings about a bet. `alone`: whether there is no other bet on the outcome."""
    label = market.outcomes[outcome].label
    warnings = []
    if payout < amount:
        warnings.append(
            BetWarning(
                "pays_less_than_stake",
                f"If {label} won with the current book, this bet of {decimal_text(amount)} USDC would be paid "
                f"{decimal_text(payout)} USDC: there is too little money on the other side.",
            )
        )
    if alone:
        warnings.append(
            BetWarning(
                "first_on_its_side",
                f"There is no other bet on {label} yet. If no other outcome gets a bet, every stake is refunded in "
                "full.",
            )
        )
    return warnings
