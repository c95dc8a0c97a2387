"""What a bet would be paid, and what is allowed but unwise about it. Pure; amounts are token units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from api.agent.facts import BookTotals, ListedMarket, Stake
from api.operations import Body
from core.agent.book import Quote
from core.agent.words import moment
from core.money import decimal_text, json_number, json_ratio_down

# As long as a payment may take from its challenge to its block.
CLOSES_SOON_SECONDS = 120
SHARE_DECIMALS = 6

CautionCode = Literal["pays_less_than_stake", "first_on_its_side", "wallet_underfunded", "closes_soon"]


class BetWarning(Body, kw_only=False):
    """A reason to think again before a bet."""

    code: CautionCode
    message: str


@dataclass(frozen=True, slots=True)
class Projection:
    """What `shares` would be paid if their side won with the book as it stands, the bet itself included."""

    payout: int
    shares: int
    warnings: tuple[BetWarning, ...] = ()

    def fields(self) -> dict[str, Any]:
        """Return the fields of a body that shows it. A share's part is rounded down."""
        return {
            "projected_payout_usd": json_number(self.payout),
            "projected_payout_per_share_usd": (
                json_ratio_down(self.payout, self.shares, SHARE_DECIMALS) if self.shares else None
            ),
            "warnings": list(self.warnings),
        }


def project_quote(
    market: ListedMarket, outcome: int, got: Quote, *, now: int | None = None, balance: int | None = None
) -> Projection:
    """Project a bet that might be made. `now`: the chain's clock; `balance`: the wallet's; None: not checked."""
    book, _ = market.book.staked(outcome, got.amount)
    payout = book.projected(outcome, got.amount, got.shares)
    warnings = _warnings(market, outcome, got.amount, payout, alone=market.outcome_bets[outcome] == 0)
    if balance is not None and balance < got.amount:
        warnings.append(
            BetWarning(
                "wallet_underfunded",
                f"The wallet holds {decimal_text(balance)} USDC, less than the bet of {decimal_text(got.amount)}.",
            )
        )
    if now is not None and 0 < market.closes_at - now <= CLOSES_SOON_SECONDS:
        warnings.append(
            BetWarning(
                "closes_soon",
                f"Bets end at {moment(market.closes_at)}, in {market.closes_at - now} seconds.",
            )
        )
    return Projection(payout, got.shares, tuple(warnings))


def project_stake(market: ListedMarket, stake: Stake, outcome: int, totals: BookTotals) -> Projection:
    """Project a stake as it was placed. `totals`: what each outcome held right after it."""
    payout = market.book_of(totals).projected(outcome, stake.amount, stake.shares)
    warnings = _warnings(market, outcome, stake.amount, payout, alone=totals[outcome][-1] == 1)
    return Projection(payout, stake.shares, tuple(warnings))


def project_position(market: ListedMarket, stake: Stake, outcome: int) -> Projection:
    """Project a stake as of now."""
    payout = market.book.projected(outcome, stake.amount, stake.shares)
    if market.ending is not None:
        return Projection(payout, stake.shares)
    warnings = _warnings(market, outcome, stake.amount, payout, alone=market.outcome_bets[outcome] == 1)
    return Projection(payout, stake.shares, tuple(warnings))


def _warnings(market: ListedMarket, outcome: int, amount: int, payout: int, *, alone: bool) -> list[BetWarning]:
    """Return the warnings for a bet. `alone`: there is no other bet on the outcome."""
    label = market.outcomes[outcome].label
    warnings = []
    if payout < amount:
        warnings.append(
            BetWarning(
                "pays_less_than_stake",
                f"If {label} won with the book as it stands, this bet of {decimal_text(amount)} USDC would be paid "
                f"{decimal_text(payout)}: nearly nobody has bet against it.",
            )
        )
    if alone:
        warnings.append(
            BetWarning(
                "first_on_its_side",
                f"Nobody else has bet on {label}; should nobody bet on anything else, every stake goes back whole.",
            )
        )
    return warnings
