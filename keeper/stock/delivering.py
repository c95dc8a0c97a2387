"""What is owed and not sent yet: payouts, refused remainders, finished vintages, residue, fees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core.stock.vested import Moment, Position, VestedMarket, Vintage, finished, residue, settlement

POKE_AFTER_SECONDS = 60
"""The next entry finalizes a vintage by itself; only one that waited this long is worth a transaction."""


@dataclass(frozen=True, slots=True)
class DuePosition:
    """A position that is owed something now, since `due_at`; token units."""

    position_id: int
    market_id: int
    owner: bytes
    amount: int
    failed: int  # deliveries the token refused so far
    settled: bool  # its market is; before that only a refused part is owed
    due_at: int

    @property
    def subject(self) -> str:
        """A refused part and a settlement are two errands: the one done does not hold up the other."""
        return f"stock:{'deliver' if self.settled else 'return'}:{self.position_id}"


@dataclass(frozen=True, slots=True)
class Holding:
    """A position with its market and vintage, as the index has them."""

    market: VestedMarket
    position: Position
    vintage: Vintage
    failed: int
    entered_at: int
    closed_at: int | None


def dues(holdings: Iterable[Holding], now: Moment) -> list[DuePosition]:
    """Those that a delivery would send something to, by market and position."""
    owed = []
    for holding in holdings:
        what = settlement(holding.market, holding.position, holding.vintage, now)
        if what.total:
            has_refused_part = what.refund and not holding.position.refunded
            owed.append(
                DuePosition(
                    holding.position.position_id,
                    holding.position.market_id,
                    holding.position.owner,
                    what.total,
                    holding.failed,
                    holding.market.settled,
                    # A refused part is owed from the next block on.
                    holding.entered_at if has_refused_part or holding.closed_at is None else holding.closed_at,
                )
            )
    return sorted(owed, key=lambda due: (due.market_id, due.position_id))


def poke(market: VestedMarket, entered_at: int, now: Moment) -> str | None:
    """Why its pending vintage should be finalized, or None. entered_at: chain time of the vintage's last entry."""
    if market.vintage is None or market.settled or not finished(market, now):
        return None
    waited = now.timestamp - entered_at
    return f"its vintage {market.vintage.number} waits since {waited} s" if waited >= POKE_AFTER_SECONDS else None


def residue_due(market: VestedMarket) -> int:
    """Floor dust that may go to the treasury now: every winning position has been paid."""
    if not market.settled or market.residue_claimed or market.unpaid_principal:
        return 0
    return residue(market) or 0
