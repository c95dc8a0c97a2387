"""The settlement wallet in exact integers: prices, stakes, payouts and results, to the unit, without a chain.

Amounts, pools and shares are token units (6 decimals on chain; the paper markets use the same arithmetic on cents).
Prices are wads (10**18 is one). Feed values have 8 decimals, times are Unix seconds. Nothing here does I/O or keeps
state.

An outcome of weight `w` among a total `W` costs `w / W`. A net stake `s` on it buys the integral of ds / price,

    shares = s + (W - w) * ln((w + s) / w)

with every rounding against the buyer, far enough that a stake cut into pieces never buys more than the whole; the
argument stands in `contracts/settlement/Pricing.sol`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from core.mirror.fixed import WAD, ln_wad, mul_div

BPS: Final = 10_000
LN_MARGIN: Final = 3
"""Taken off every logarithm, in wad units: what the approximations could have gained."""

MIN_STAKE: Final = 10**6
MAX_STAKE: Final = 10**15
MAX_POOL: Final = 10**21
"""All stakes of one market together."""

CHALLENGE_DELAY: Final = 600
"""Seconds after the deadline in which an early proof may still come in before NO can be declared."""


# ---------------------------------------------------------------- Pricing


def fee_of(amount: int, fee_bps: int) -> int:
    """The fee of a stake, rounded down."""
    return amount * fee_bps // BPS


def buying(amount: int, fee_bps: int) -> int:
    """What buys shares: the stake less the fee rounded up. At most one unit less than the stake less its fee."""
    return amount * (BPS - fee_bps) // BPS


def shares_for(s: int, weight: int, total: int) -> int:
    """Shares that `s` buys on an outcome of `weight` among `total`; never more than the exact integral."""
    ratio = (weight + s) * WAD // weight  # down
    ln = max(0, ln_wad(ratio) - LN_MARGIN)
    return s + (total - weight) * ln // WAD  # down


@dataclass(frozen=True, slots=True)
class Quote:
    """What a stake would get; prices are of the outcome it is on."""

    amount: int
    fee: int
    net: int  # enters the pool: amount - fee
    shares: int
    price_before: int  # wad, down
    price_after: int  # wad, down


@dataclass(frozen=True, slots=True)
class Book:
    """One market's book: per outcome the stakes less fees, and the shares issued."""

    virtual_liquidity: int
    fee_bps: int
    net: tuple[int, ...]
    shares: tuple[int, ...]

    @classmethod
    def empty(cls, outcomes: int, virtual_liquidity: int, fee_bps: int) -> Book:
        return cls(virtual_liquidity, fee_bps, (0,) * outcomes, (0,) * outcomes)

    @property
    def outcomes(self) -> int:
        return len(self.net)

    @property
    def virtual_weight(self) -> int:
        """What an outcome weighs without stakes, rounded down; all together weigh this times the outcomes."""
        return self.virtual_liquidity // self.outcomes

    @property
    def net_pool(self) -> int:
        return sum(self.net)

    @property
    def total_weight(self) -> int:
        return self.virtual_weight * self.outcomes + self.net_pool

    def weight(self, outcome: int) -> int:
        return self.virtual_weight + self.net[outcome]

    def price(self, outcome: int) -> int:
        """Wad, rounded down: prices sum to at most one."""
        return self.weight(outcome) * WAD // self.total_weight

    def quote(self, outcome: int, amount: int) -> Quote:
        weight, total = self.weight(outcome), self.total_weight
        fee = fee_of(amount, self.fee_bps)
        net = amount - fee
        return Quote(
            amount=amount,
            fee=fee,
            net=net,
            shares=shares_for(buying(amount, self.fee_bps), weight, total),
            price_before=weight * WAD // total,
            price_after=(weight + net) * WAD // (total + net),
        )

    def staked(self, outcome: int, amount: int) -> tuple[Book, Quote]:
        """The book after a stake, and what the stake got."""
        got = self.quote(outcome, amount)
        net, shares = list(self.net), list(self.shares)
        net[outcome] += got.net
        shares[outcome] += got.shares
        return replace(self, net=tuple(net), shares=tuple(shares)), got

    def payout(self, winner: int, shares: int) -> int:
        """What `shares` of the winning outcome are paid, rounded down. The outcome must have shares."""
        return mul_div(shares, self.net_pool, self.shares[winner])

    def refunds(self, winner: int | None) -> bool:
        """Whether every stake is given back whole: the market is void (None), or nobody holds the winner."""
        return winner is None or self.shares[winner] == 0

    def owed(self, winner: int | None, outcome: int, amount: int, shares: int) -> int:
        """What a stake is owed once its market is settled; `winner` None means void."""
        if winner is None or self.refunds(winner):
            return amount
        return self.payout(winner, shares) if outcome == winner else 0


# ---------------------------------------------------------------- Results


class Kind(IntEnum):
    THRESHOLD = 0
    RANGE = 1
    DIRECTION = 2


YES: Final = 0
NO: Final = 1
UP: Final = 0
DOWN: Final = 1


class VoidReason(IntEnum):
    STALE = 1
    BAD_ANSWER = 2
    NO_READING = 3
    TIMEOUT = 4
    TIE = 5
    MET_BEFORE_OPEN = 6


@dataclass(frozen=True, slots=True)
class Reading:
    """A round of a feed that was proven to be in effect at the moment it is used for."""

    answer: int  # 8 decimals
    updated_at: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The part of a market that decides it."""

    kind: Kind
    opens_at: int
    closes_at: int
    max_age: int
    target: int = 0
    bounds: tuple[int, ...] = ()
    early_resolvable: bool = False
    start_at: int = 0
    lag: int = 0
    """Seconds after a moment during which the feed may still be given readings dated before it."""
    void_delay: int = 0

    @property
    def settles_after(self) -> int:
        """The reading at the deadline counts strictly after this time."""
        return self.closes_at + (max(self.lag, CHALLENGE_DELAY) if self.early_resolvable else self.lag)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A winning outcome, or the reason of a void; exactly one of them."""

    winner: int | None
    void: VoidReason | None = None


def crosses(terms: Terms, reading: Reading, now: int) -> bool:
    """Whether a round that was in effect when it was written settles the market as YES at once."""
    return (
        terms.early_resolvable
        and reading.answer > 0
        and reading.answer >= terms.target
        and terms.opens_at <= reading.updated_at <= terms.closes_at
        and reading.updated_at < now
    )


def bucket(bounds: tuple[int, ...], value: int) -> int:
    """The range outcome that holds a value: lower bounds inclusive, upper exclusive, open at both ends."""
    return sum(value >= bound for bound in bounds)


def fault(terms: Terms, reading: Reading | None, moment: int) -> VoidReason | None:
    """Why the reading in effect at `moment` (None: the feed has none) cannot decide a market."""
    if reading is None:
        return VoidReason.NO_READING
    if reading.answer <= 0:
        return VoidReason.BAD_ANSWER
    return VoidReason.STALE if moment - reading.updated_at > terms.max_age else None


def decide(terms: Terms, end: Reading | None, start: Reading | None = None) -> Verdict:
    """What the readings in effect at the deadline, and for a direction at the start, make of a market once final.

    On chain a fault needs `voidMarket` and everything else `resolve`; the answer is the same.
    """
    found = fault(terms, end, terms.closes_at)
    if found is None and terms.kind is Kind.DIRECTION:
        found = fault(terms, start, terms.start_at)
    if found is not None or end is None:
        return Verdict(None, found)
    if terms.kind is Kind.THRESHOLD:
        if end.answer < terms.target:
            return Verdict(NO)
        if terms.early_resolvable and end.updated_at < terms.opens_at:
            return Verdict(None, VoidReason.MET_BEFORE_OPEN)
        return Verdict(YES)
    if terms.kind is Kind.RANGE:
        return Verdict(bucket(terms.bounds, end.answer))
    if start is None or end.answer == start.answer:
        return Verdict(None, VoidReason.TIE)
    return Verdict(UP if end.answer > start.answer else DOWN)
