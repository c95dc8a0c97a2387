"""The vested parimutuel, written a second time and naively on purpose, to check the contract and the mirror against.

It follows the mechanism's text entry by entry: a vintage is matched the moment its block is over, every promise is
handed to every entry in a loop, and each entry remembers what it was promised. It has no accumulators, lazy reads or
storage layout, and no code in common with `core.stock.vested`. It rounds where the mechanism rounds (a promise per unit
of principal, an entry's share, a payout, a fee); `exact_payout` is the same without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

SCALE = 10**18


@dataclass
class Entry:
    """A stake, or a seed leg. `per_unit` is the value of each accepted unit if it wins, times SCALE, rounded."""

    number: int
    owner: str
    side: int
    offered: int
    block: int
    accepted: int | None = None
    per_unit: int = SCALE
    promises: list[Fraction] = field(default_factory=list)
    refund_sent: bool = False
    payout_sent: bool = False


@dataclass(frozen=True)
class Due:
    """What an entry is entitled to in total, sent or not; before the settlement, at most the refused part."""

    gross: int
    fee: int
    refund: int

    @property
    def net(self) -> int:
        return self.gross - self.fee


class Model:
    """One market from its seed to its last payout."""

    def __init__(self, kappa: int, fee_bps: int, seed: int, opener: str, side_cap: int) -> None:
        self.kappa = kappa
        self.side_cap = side_cap
        self.fee_bps = fee_bps
        self.entries: list[Entry] = []
        self.open_block: int | None = None
        self.winner: int | None = None
        self.voided = False
        for side in (0, 1):
            leg = Entry(len(self.entries), opener, side, seed, block=0, accepted=seed)
            # Each leg has vested into the other: one unit promised per unit, in addition to the stake.
            leg.per_unit += SCALE
            leg.promises.append(Fraction(1))
            self.entries.append(leg)

    # ---------------------------------------------------------------- the books

    def principal(self, side: int) -> int:
        return sum(e.accepted for e in self.entries if e.side == side and e.accepted is not None)

    def promised_since_the_seed(self, side: int) -> int:
        """Return the seed leg's promise per unit, times SCALE: by definition the side's accumulator."""
        return self.entries[side].per_unit - SCALE

    def room(self, side: int) -> int:
        """Return the remaining capacity of the other outcome, from the present books."""
        return max(0, self.capacity(1 - side) - self.principal(side))

    def capacity(self, side: int) -> int:
        """Return the most that may vest into a side: kappa times its principal, at most the cap of the other side."""
        return min(self.kappa * self.principal(side), self.side_cap)

    def demand(self, side: int) -> int:
        return sum(e.offered for e in self.entries if e.side == side and e.accepted is None)

    def headroom(self, side: int) -> int:
        return max(0, self.room(side) - self.demand(side))

    # ---------------------------------------------------------------- what happens

    def reach(self, block: int) -> None:
        """Move to `block`. The vintage of an earlier block is then over, even if no transaction has closed it."""
        if self.open_block is not None and self.open_block < block:
            self.match()

    def enter(self, owner: str, side: int, amount: int, block: int) -> Entry:
        self.reach(block)
        self.open_block = block
        entry = Entry(len(self.entries), owner, side, amount, block)
        self.entries.append(entry)
        return entry

    def match(self) -> None:
        standing = [e for e in self.entries if e.accepted is not None]
        principal = [self.principal(0), self.principal(1)]
        total = [min(self.demand(side), self.room(side)) for side in (0, 1)]
        for side in (0, 1):
            newcomers = [e for e in self.entries if e.side == side and e.accepted is None]
            demand = self.demand(side)
            ahead, given = 0, 0
            for entry in newcomers:
                # The first entries together get the whole part of their joint share; each takes what the ones before
                # it left of that.
                ahead += entry.offered
                joint = floor(Fraction(ahead * total[side], demand))
                entry.accepted = joint - given
                given = joint
            # What was accepted here is promised to those who stood on the other side before this vintage.
            for entry in standing:
                if entry.side == 1 - side:
                    promise = Fraction(total[side], principal[1 - side])
                    entry.promises.append(promise)
                    entry.per_unit += floor(promise * SCALE)
        self.open_block = None

    def freeze(self) -> None:
        """Take no more entries. The open vintage is then over at any block."""
        if self.open_block is not None:
            self.match()

    def resolve(self, winner: int) -> None:
        self.winner = winner

    def void(self) -> None:
        self.voided = True

    # ---------------------------------------------------------------- what an entry is worth

    def accrued(self, entry: Entry) -> int:
        """Return the payout before the fee if its side won now; nothing while its vintage is open."""
        if entry.accepted is None:
            return 0
        return floor(Fraction(entry.accepted * entry.per_unit, SCALE))

    def exact_payout(self, entry: Entry) -> Fraction:
        """Return the payout without rounding, except that of the accepted amount."""
        return Fraction(entry.accepted or 0) * (1 + sum(entry.promises))

    def rounding_bound(self, entry: Entry) -> Fraction:
        """Return how far a payout may be below its exact value: under 1/SCALE a unit for each promise, and one unit."""
        return 1 + Fraction((entry.accepted or 0) * len(entry.promises), SCALE)

    def due(self, entry: Entry) -> Due:
        if entry.accepted is None:
            return Due(0, 0, 0)
        refund = entry.offered - entry.accepted
        if self.voided:
            return Due(entry.accepted, 0, refund)
        if self.winner != entry.side:
            return Due(0, 0, refund)
        gross = self.accrued(entry)
        return Due(gross, floor(Fraction((gross - entry.accepted) * self.fee_bps, 10_000)), refund)

    # ---------------------------------------------------------------- what is sent

    @property
    def settled(self) -> bool:
        return self.voided or self.winner is not None

    def unsent(self, entry: Entry) -> Due:
        """Return what a delivery of everything would send now."""
        due = self.due(entry)
        refund = 0 if entry.refund_sent else due.refund
        return Due(0, 0, refund) if entry.payout_sent else Due(due.gross, due.fee, refund)

    def send_refund(self, entry: Entry) -> int:
        refund = self.unsent(entry).refund
        entry.refund_sent = entry.refund_sent or refund > 0
        return refund

    def send_all(self, entry: Entry) -> Due:
        sent = self.unsent(entry)
        if sent.net + sent.refund > 0:
            entry.refund_sent = entry.refund_sent or sent.refund > 0
            entry.payout_sent = entry.payout_sent or self.settled
        return sent

    def unpaid_principal(self) -> int:
        """Return the accepted parts of the positions still to be paid: the winners', or all of a void market."""
        return sum(
            e.accepted
            for e in self.entries
            if e.accepted is not None and not e.payout_sent and (self.voided or self.winner == e.side)
        )

    def residue(self) -> int:
        """Return the rest of the accepted pool after every winner is paid."""
        if self.winner is None:
            return 0
        return self.principal(0) + self.principal(1) - sum(self.due(e).gross for e in self.entries)
