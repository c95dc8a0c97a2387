"""The settlement wallet's arithmetic in exact integers: prices, stakes, payouts and results. docs/mechanism.md has the
formulas and what is proven about them.

Amounts, weights, pools and shares are token units (6 decimals on chain; paper markets use cents). Prices are wads
(10**18 is one). Feed values have 8 decimals, times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from core.agent.fixed import WAD, ln_wad
from core.contracts.statuses import MarketKind, VoidReason
from core.money import BPS

# Subtracted from every logarithm, in wad units: the most that the approximations can gain.
LN_MARGIN: Final = 3

MIN_STAKE: Final = 10**6
MAX_STAKE: Final = 10**15
# The lister's minimum fee: before the fee, some books sell a sure dollar for 98.4 cents.
MIN_FEE_BPS: Final = 175
# How far a bucket's upper bound must exceed its lower one: narrower buckets are cheap to hit.
MIN_BUCKET_BPS: Final = 400
MIN_OUTCOMES: Final = 2
MAX_OUTCOMES: Final = 8

# Seconds after its end during which an early-resolvable market still waits for a crossing to be recorded.
CHALLENGE_DELAY: Final = 3_600

# Seconds between the last stake and the start of any measurement that decides the market.
MARGIN: Final = 60

MAX_AHEAD: Final = 366 * 86_400  # seconds from listing to the end

# Grid steps over which an early-resolvable market may be measured, at most.
MAX_CROSSING_STEPS: Final = 2**20


YES: Final = 0
NO: Final = 1
UP: Final = 0
DOWN: Final = 1


# ---------------------------------------------------------------- Pricing


def fee_of(amount: int, fee_bps: int) -> int:
    """Return the fee of a stake, rounded down."""
    return amount * fee_bps // BPS


def amount_for_shares(amount: int, fee_bps: int) -> int:
    """Return the part of a stake that buys shares: the stake less its fee. For this purpose the fee is rounded up."""
    return amount * (BPS - fee_bps) // BPS  # down


def shares_for(s: int, weight: int, total: int) -> int:
    """Return the shares that a net stake `s` buys on an outcome of weight `weight`; `total` is the sum of all weights.
    The result never exceeds the exact integral."""
    ratio = (weight + s) * WAD // weight  # down
    ln = max(0, ln_wad(ratio) - LN_MARGIN)
    return s + (total - weight) * ln // WAD  # down


@dataclass(frozen=True, slots=True)
class Quote:
    """A quote for a stake, with the outcome's price before and after it."""

    amount: int
    fee: int
    net: int  # enters the pool: amount - fee
    shares: int
    price_before: int  # wad, down
    price_after: int  # wad, down


@dataclass(frozen=True, slots=True)
class Book:
    """The book of one market. Each tuple has one value per outcome: the virtual weight, the net stake (less fees), the
    shares issued, and `excess`, which is the sum of max(0, shares - net stake) over the outcome's stakes."""

    weights: tuple[int, ...]
    fee_bps: int
    net: tuple[int, ...]
    shares: tuple[int, ...]
    excess: tuple[int, ...]

    @classmethod
    def from_rows(cls, market: Any, outcomes: Sequence[Any]) -> Book:
        """Make a book from a row of `agent_market` and the rows of its outcomes, in order."""
        return cls(
            tuple(int(each) for each in market.weights),
            market.fee_bps,
            tuple(each.net for each in outcomes),
            tuple(each.shares for each in outcomes),
            tuple(each.excess for each in outcomes),
        )

    @classmethod
    def from_row(cls, row: Any) -> Book:
        """Make a book from a row of `agent_market` joined with its outcomes. Each outcome column is an array in outcome
        order."""
        columns = (row.weights, row.net, row.shares, row.excess)
        weights, net, shares, excess = (tuple(map(int, each)) for each in columns)
        return cls(weights, row.fee_bps, net, shares, excess)

    @classmethod
    def empty(cls, weights: Sequence[int], fee_bps: int) -> Book:
        nothing = (0,) * len(weights)
        return cls(tuple(weights), fee_bps, nothing, nothing, nothing)

    @property
    def outcomes(self) -> int:
        return len(self.weights)

    @property
    def net_pool(self) -> int:
        return sum(self.net)

    @property
    def total_weight(self) -> int:
        return sum(self.weights) + self.net_pool

    def weight(self, outcome: int) -> int:
        return self.weights[outcome] + self.net[outcome]

    def room(self, outcome: int, pot_cap: int) -> int:
        """Return the largest stake, fee included, that an outcome still accepts. The net stakes on an outcome may add
        up to pot_cap / (outcomes - 1)."""
        left = pot_cap // (self.outcomes - 1) - self.net[outcome]  # down: the others together stay under the cap
        return left * BPS // (BPS - self.fee_bps)  # down: one unit more would bring more than what is left

    def price(self, outcome: int) -> int:
        """Return an outcome's price as a wad, rounded down, so prices sum to at most one."""
        return self.weight(outcome) * WAD // self.total_weight

    def quote(self, outcome: int, amount: int) -> Quote:
        weight, total = self.weight(outcome), self.total_weight
        fee = fee_of(amount, self.fee_bps)
        net = amount - fee
        return Quote(
            amount=amount,
            fee=fee,
            net=net,
            shares=shares_for(amount_for_shares(amount, self.fee_bps), weight, total),
            price_before=weight * WAD // total,
            price_after=(weight + net) * WAD // (total + net),
        )

    def staked(self, outcome: int, amount: int) -> tuple[Book, Quote]:
        got = self.quote(outcome, amount)
        net, shares, excess = list(self.net), list(self.shares), list(self.excess)
        net[outcome] += got.net
        shares[outcome] += got.shares
        excess[outcome] += max(0, got.shares - got.net)
        return replace(self, net=tuple(net), shares=tuple(shares), excess=tuple(excess)), got

    def pays_alike(self, winner: int) -> bool:
        """Return whether the pool holds at least a dollar per winning share. If it does, every winning share is paid
        the same."""
        return self.net_pool >= self.shares[winner]

    def payout(self, winner: int, amount: int, shares: int) -> int:
        """Return a winning stake's payout, rounded down, in a market whose stakes are not refunded. If winning shares
        are not all paid the same, each winner first gets back its net stake. The losers' money is then split in
        proportion to the shares that each stake has beyond its net amount."""
        if self.pays_alike(winner):
            return shares * self.net_pool // self.shares[winner]
        net = amount - fee_of(amount, self.fee_bps)
        lost = self.net_pool - self.net[winner]
        return net + max(0, shares - net) * lost // self.excess[winner]

    def refunds(self, winner: int | None) -> bool:
        """Return whether all stakes are refunded in full: the market is void (`winner` is None), no stake is on the
        winner, or no stake is on any other outcome."""
        return winner is None or self.shares[winner] == 0 or self.net[winner] == self.net_pool

    def share_payout(self, winner: int | None) -> tuple[int, int] | None:
        """Return the payout per winning share as the fraction (pool, shares), or None if stakes are refunded or winning
        shares are not all paid the same."""
        if winner is None or self.refunds(winner) or not self.pays_alike(winner):
            return None
        return self.net_pool, self.shares[winner]

    def owed(self, winner: int | None, outcome: int, amount: int, shares: int) -> int:
        """Return a stake's payout or refund in a settled market. `winner` is None if the market is void."""
        if winner is None or self.refunds(winner):
            return amount
        return self.payout(winner, amount, shares) if outcome == winner else 0

    def projected(self, outcome: int, amount: int, shares: int) -> int:
        """Return what a stake in this book would be paid if its outcome won and no more stakes were added."""
        return self.owed(outcome, outcome, amount, shares)


# ---------------------------------------------------------------- Listing


class Unlistable(ValueError):
    """The lister would refuse the market's times."""


@dataclass(frozen=True, slots=True)
class MarketSpec:
    """The lister's choices for a market: IAgentLister.MarketSpec without the feed's address."""

    kind: MarketKind
    opens_at: int
    closes_at: int
    ends_at: int
    weights: tuple[int, ...]
    start_at: int = 0
    target: int = 0
    bounds: tuple[int, ...] = ()
    early_resolvable: bool = False


@dataclass(frozen=True, slots=True)
class FeedTerms:
    memory: int
    max_age: int
    lag: int
    pot_cap: int
    published: bool
    step: int = 0  # seconds between grid readings; 0 for a feed of rounds
    feed_cap: int = 0  # limit on the pot caps of all its unsettled markets together


@dataclass(frozen=True, slots=True)
class ListingBounds:
    """The Safe's bounds for every market: IAgentLister.Bounds."""

    fee_bps: int
    min_weight: int
    max_weight: int
    dispute_window: int
    void_delay: int


@dataclass(frozen=True, slots=True)
class MarketTerms:
    """A market's terms under the Safe's bounds: IAgentLister.MarketTerms and the opening time."""

    opens_at: int
    fee_bps: int
    pot_cap: int
    published: bool
    max_age: int
    early_from: int  # 0 unless early-resolvable
    settles_after: int
    voids_after: int


def listing_terms(spec: MarketSpec, feed: FeedTerms, bounds: ListingBounds, now: int) -> MarketTerms:
    """Return the terms that `AgentLister.preview` would return at `now`. Raise Unlistable if the contract would refuse
    the times. Only the contract checks outcomes, bounds, weights and the feed."""
    opens_at = max(spec.opens_at, now)
    _check_times(spec, feed, opens_at, now)
    early_from = spec.closes_at + MARGIN + feed.memory if spec.early_resolvable else 0
    wait = feed.lag
    if feed.published:
        wait += bounds.dispute_window
    elif spec.early_resolvable:
        wait = max(wait, CHALLENGE_DELAY)
    settles_after = spec.ends_at + wait
    return MarketTerms(
        opens_at=opens_at,
        fee_bps=bounds.fee_bps,
        pot_cap=feed.pot_cap,
        published=feed.published,
        max_age=min(feed.max_age, _since_stakes(spec, feed)),
        early_from=early_from,
        settles_after=settles_after,
        voids_after=settles_after + bounds.void_delay,
    )


def _since_stakes(spec: MarketSpec, feed: FeedTerms) -> int:
    """Return the maximum age in seconds of the first reading that a market uses. A reading within this age does not
    cover any time during which stakes were accepted. A reading on a grid also covers time before its own timestamp, so
    its maximum age is lower."""
    moment = spec.start_at if spec.kind is MarketKind.DIRECTION else spec.ends_at
    looks_back = feed.memory - feed.step if feed.step else 0
    return moment - spec.closes_at - MARGIN - looks_back


def _check_times(spec: MarketSpec, feed: FeedTerms, opens_at: int, now: int) -> None:
    closes_at, ends_at = spec.closes_at, spec.ends_at
    if closes_at <= now:
        raise Unlistable(f"Stakes would end at {closes_at}, but it is already {now}.")
    if closes_at <= opens_at:
        raise Unlistable(f"Stakes would end at {closes_at}, before they begin at {opens_at}.")
    if ends_at > now + MAX_AHEAD:
        raise Unlistable(f"The market would end at {ends_at}; the latest allowed is {now + MAX_AHEAD}.")
    if spec.kind is MarketKind.DIRECTION:
        _closes_before(closes_at, spec.start_at, feed)
        length, least = ends_at - spec.start_at, 2 * feed.memory
        if length < least:
            raise Unlistable(f"The round is {length} s long; it must be at least {least} s, twice the feed's memory.")
        return
    _closes_before(closes_at, ends_at, feed)
    longest = ends_at - feed.memory - closes_at
    if spec.early_resolvable:
        if feed.published or not feed.step:
            raise Unlistable(
                "Only a market on a pool feed can settle as soon as its target is reached: a false published reading "
                "could not be disputed in time, and a feed of rounds does not show every crossing."
            )
        longest -= MARGIN  # from early_from to ends_at
        if longest > MAX_CROSSING_STEPS * feed.step:
            raise Unlistable(
                f"The market would be measured for {longest} s; the maximum is {MAX_CROSSING_STEPS} grid steps."
            )
    if closes_at - opens_at > longest:
        raise Unlistable(
            f"Stakes would be open for {closes_at - opens_at} s; the maximum is {longest} s, the time in which "
            "the outcome can still change after stakes end."
        )


def _closes_before(closes_at: int, moment: int, feed: FeedTerms) -> None:
    latest = moment - feed.memory - MARGIN
    if closes_at > latest:
        raise Unlistable(
            f"Stakes would end at {closes_at}, while the outcome is being measured; the latest allowed is {latest}."
        )


# ---------------------------------------------------------------- Results


@dataclass(frozen=True, slots=True)
class Reading:
    """A round that is proven to be in effect at the moment for which it is used."""

    answer: int  # 8 decimals
    updated_at: int


@dataclass(frozen=True, slots=True)
class DecidingTerms:
    """The terms that decide a market: IFeedResolver.Terms without the feed's address."""

    kind: MarketKind
    target: int
    bounds: tuple[int, ...]
    early_resolvable: bool
    published: bool
    max_age: int
    start_at: int
    ends_at: int
    early_from: int
    settles_after: int  # the reading at the end counts strictly after this time
    voids_after: int


@dataclass(frozen=True, slots=True)
class Verdict:
    winner: int | None
    void: VoidReason | None = None


def is_crossing(terms: DecidingTerms, reading: Reading, now: int) -> bool:
    """Return whether a promptly recorded reading settles the market as YES at once."""
    return (
        terms.early_resolvable
        and reading.answer > 0
        and reading.answer >= terms.target
        and terms.early_from <= reading.updated_at <= terms.ends_at
        and reading.updated_at < now
    )


def bucket(bounds: tuple[int, ...], value: int) -> int:
    """Return the range outcome that contains a value. Lower bounds are inclusive, upper bounds exclusive."""
    return sum(value >= bound for bound in bounds)


def reading_problem(terms: DecidingTerms, reading: Reading | None, moment: int) -> VoidReason | None:
    """Return why the reading in effect at `moment` cannot decide a market, or None if it can."""
    if reading is None:
        return VoidReason.NO_READING
    if reading.answer <= 0:
        return VoidReason.BAD_ANSWER
    return VoidReason.STALE if moment - reading.updated_at > terms.max_age else None


def decide(terms: DecidingTerms, end: Reading | None, start: Reading | None = None) -> Verdict:
    """Return the verdict from the reading in effect at the end and, for a direction market, the one at the start.

    On chain, `voidMarket` handles a problem with a reading and `resolve` everything else, with the same result. A
    crossing (`is_crossing`) settles a market earlier.
    """
    problem = reading_problem(terms, end, terms.ends_at)
    if problem is None and terms.kind is MarketKind.DIRECTION:
        problem = reading_problem(terms, start, terms.start_at)
    if problem is not None or end is None:
        return Verdict(None, problem)
    if terms.kind is MarketKind.THRESHOLD:
        if end.answer < terms.target:
            return Verdict(NO)
        if terms.early_resolvable and end.updated_at < terms.early_from:
            return Verdict(None, VoidReason.MET_BEFORE_START)
        return Verdict(YES)
    if terms.kind is MarketKind.RANGE:
        return Verdict(bucket(terms.bounds, end.answer))
    if start is None or end.answer == start.answer:
        return Verdict(None, VoidReason.TIE)
    return Verdict(UP if end.answer > start.answer else DOWN)
