"""The vested parimutuel in exact integers: the arithmetic of `VestedMarkets`, exact to the unit (docs/mechanism.md).

Every value is a token unit (6 decimals) unless a name says otherwise; accumulators are scaled by `S`. Outcome 0 is UP,
1 is DOWN, and every pair is (UP, DOWN). Functions take frozen values and return new ones. Every division rounds down,
as in the EVM, and so keeps value inside the market. Payouts never exceed the pool; the remainder is the residue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from core.contracts.events.stock import MarketCreated
from core.money import BPS

S: Final = 10**18
"""Scale of the accumulators: `S` means one unit promised per unit of principal."""

MAX_SIDE_CAP: Final = 2**48 - 1
"""The highest side cap that the contract accepts; it keeps every sum within its word."""

UP: Final = 0
DOWN: Final = 1
SEED: Final = 0
"""The vintage of the two seed positions; real vintages carry a block number, which is never 0."""

Pair: TypeAlias = tuple[int, int]

Terms: TypeAlias = MarketCreated
"""A market's terms, fixed at creation."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The block number and timestamp at which a market is read. `block_number` is the number that contracts see; on an
    Arbitrum-style chain that is Ethereum's."""

    block_number: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Book:
    """One outcome's book: the accepted principal, and an accumulator. The accumulator is the amount promised to each
    unit of principal since the start, times `S`."""

    principal: int
    acc: int


@dataclass(frozen=True, slots=True)
class Vintage:
    """All entries into one market at one `block.number`. `accepted` and `entry_acc` are None until the vintage is
    matched."""

    number: int
    offered: Pair
    accepted: Pair | None = None
    entry_acc: Pair | None = None


@dataclass(frozen=True, slots=True)
class VestedMarket:
    """A market's books and state. `vintage` is the vintage that is not yet matched on chain, if any."""

    terms: Terms
    books: tuple[Book, Book]
    vintage: Vintage | None = None
    winner: int | None = None
    voided: bool = False
    paid_principal: int = 0
    """Accepted amounts of the positions whose settlement was sent."""
    paid: int = 0
    """Payouts sent for them, after fees."""
    fees: int = 0
    refunded: int = 0
    """Refused parts given back so far."""
    residue_claimed: int = 0

    @property
    def settled(self) -> bool:
        return self.voided or self.winner is not None

    @property
    def pool(self) -> int:
        """Return the total that both outcomes have accepted, including the seed."""
        return self.books[UP].principal + self.books[DOWN].principal

    @property
    def distributed(self) -> int:
        """Return what has left the pool: payouts before fees, and the residue."""
        return self.paid + self.fees + self.residue_claimed

    @property
    def unpaid_principal(self) -> int:
        """Return the principal of positions whose settlement has not been sent. Only the winning side's positions
        count, or both sides' in a void market. The result is 0 while the market is open."""
        if self.voided:
            return self.pool - self.paid_principal
        if self.winner is not None:
            return self.books[self.winner].principal - self.paid_principal
        return 0


@dataclass(frozen=True, slots=True)
class Position:
    """An entry or a seed leg. `offered_before` is the sum of earlier offers on the same side of its vintage."""

    position_id: int
    market_id: int
    owner: bytes
    outcome: int
    offered: int
    vintage: int
    offered_before: int
    claimed: bool = False
    """Its payout was sent. A losing position has none and is never claimed, even if its refund was sent."""
    refunded: bool = False
    """Its refused part was sent."""
    payout: int = 0
    """The payout sent for its accepted part, after `fee`."""
    fee: int = 0
    refund: int = 0

    @property
    def seed(self) -> bool:
        return self.vintage == SEED


@dataclass(frozen=True, slots=True)
class Settlement:
    """The amounts due to a position: `net = gross - fee`; `total` is the part of `net` and `refund` that has not been
    sent yet."""

    gross: int
    fee: int
    net: int
    refund: int
    total: int

    @property
    def deliverable(self) -> bool:
        return self.total > 0


# ---------------------------------------------------------------- books and vintages


def open_books(seed_per_leg: int) -> tuple[Book, Book]:
    """Return the books directly after the seed. Each leg has already vested into the other."""
    return Book(seed_per_leg, S), Book(seed_per_leg, S)


def seed_vintage(seed_per_leg: int) -> Vintage:
    """Return vintage 0, which holds both seed legs. It is fully accepted, and its entry accumulators are 0, so that
    each leg's accrual includes the other leg."""
    leg = (seed_per_leg, seed_per_leg)
    return Vintage(SEED, offered=leg, accepted=leg, entry_acc=(0, 0))


def capacity(market: VestedMarket, outcome: int) -> int:
    """Return the most that may vest into `outcome`: kappa times its principal, or the side cap if that is lower."""
    return min(market.terms.kappa * market.books[outcome].principal, market.terms.side_cap)


def room(market: VestedMarket) -> Pair:
    """Return how much of each outcome's vintage can be accepted, given the books before that vintage."""
    up, down = market.books[UP].principal, market.books[DOWN].principal
    return (
        max(0, capacity(market, DOWN) - up),
        max(0, capacity(market, UP) - down),
    )


def demand(market: VestedMarket) -> Pair:
    return market.vintage.offered if market.vintage is not None else (0, 0)


def match(market: VestedMarket) -> tuple[VestedMarket, Vintage]:
    """Match the pending vintage against the books before it, with the results that the event `VintageFinalized`
    records."""
    pending = market.vintage
    if pending is None:
        raise ValueError(f"market {market.terms.market_id} has no vintage to match")
    rooms = room(market)
    accepted = (min(pending.offered[UP], rooms[UP]), min(pending.offered[DOWN], rooms[DOWN]))
    up, down = market.books
    # Rounded down against the holders: a promise may fall short by under 1/S per unit of principal, never exceed.
    acc_up = up.acc + accepted[DOWN] * S // up.principal
    acc_down = down.acc + accepted[UP] * S // down.principal
    books = (Book(up.principal + accepted[UP], acc_up), Book(down.principal + accepted[DOWN], acc_down))
    return replace(market, books=books, vintage=None), replace(pending, accepted=accepted, entry_acc=(acc_up, acc_down))


def finished(market: VestedMarket, now: Moment) -> bool:
    """Return whether the pending vintage is closed to entries: its block has passed, or the market froze within it."""
    pending = market.vintage
    return pending is not None and (
        pending.number != now.block_number or now.timestamp >= market.terms.freeze_time or market.settled
    )


def as_of(market: VestedMarket, now: Moment) -> tuple[VestedMarket, Vintage | None]:
    """Return the market as the contract's views show it: a finished vintage counts as matched even before it is matched
    on chain. Also return the matched version of that vintage, or None if no vintage is finished."""
    return match(market) if finished(market, now) else (market, None)


def headroom(market: VestedMarket, now: Moment) -> Pair:
    """Return what each outcome would still accept in this block: its room minus the open vintage's offers."""
    seen, _ = as_of(market, now)
    rooms, offered = room(seen), demand(seen)
    return max(0, rooms[UP] - offered[UP]), max(0, rooms[DOWN] - offered[DOWN])


def live(market: VestedMarket, now: Moment) -> Pair:
    """Return each outcome's principal as it would be if the open vintage closed now."""
    seen, _ = as_of(market, now)
    rooms, offered = room(seen), demand(seen)
    return (
        seen.books[UP].principal + min(rooms[UP], offered[UP]),
        seen.books[DOWN].principal + min(rooms[DOWN], offered[DOWN]),
    )


def offer(market: VestedMarket, outcome: int, amount: int, block_number: int) -> tuple[VestedMarket, int]:
    """Add an entry to the vintage of `block_number`. Also return the sum of earlier offers on the same side."""
    if market.vintage is not None and market.vintage.number != block_number:
        raise ValueError(f"market {market.terms.market_id}: vintage {market.vintage.number} is not matched yet")
    vintage = market.vintage or Vintage(block_number, offered=(0, 0))
    before = vintage.offered[outcome]
    up, down = vintage.offered
    offered = (up + amount, down) if outcome == UP else (up, down + amount)
    return replace(market, vintage=replace(vintage, offered=offered)), before


# ---------------------------------------------------------------- what a position is worth


def fee_on_gain(gross: int, principal: int, fee_bps: int) -> int:
    """Return the fee on a payout's gain. The fee is rounded down, in the winner's favour."""
    return max(0, gross - principal) * fee_bps // BPS


def classic_payout(accepted: int, pool: int, winning_pool: int, fee_bps: int) -> int:
    """Return what a winning stake of `accepted` would get in an ordinary parimutuel pool, after the fee on its gain.

    In such a pool, the winners share the whole pool in proportion to their stakes, regardless of when they bet. The
    share is rounded down.
    """
    if accepted == 0:
        return 0
    gross = accepted * pool // winning_pool
    return gross - fee_on_gain(gross, accepted, fee_bps)


def share(before: int, offered: int, accepted: int, demanded: int) -> int:
    """Return an entry's part of its side's `accepted`, in proportion to its offer within `demanded` (above 0).

    The part is the difference of two quotients, each rounded down. Each entry starts at the quotient where the previous
    entry ends, so the parts add up to `accepted` exactly. A part is less than one unit away from its exact proportion.
    """
    return (before + offered) * accepted // demanded - before * accepted // demanded


def accepted_of(position: Position, vintage: Vintage) -> int | None:
    """Return the accepted part of a position, or None until its vintage is matched."""
    if vintage.accepted is None:
        return None
    if position.seed:
        return position.offered
    side = position.outcome
    return share(position.offered_before, position.offered, vintage.accepted[side], vintage.offered[side])


def gross_payout(market: VestedMarket, position: Position, vintage: Vintage) -> int:
    """Return the payout, before the fee, that a position gets if its side wins. The position's vintage must be matched.
    The payout is rounded down; the lost fraction of a unit stays in the residue."""
    accepted = accepted_of(position, vintage)
    if accepted is None or vintage.entry_acc is None:
        raise ValueError(f"position {position.position_id}: its vintage {vintage.number} is not matched yet")
    side = position.outcome
    return accepted * (S + market.books[side].acc - vintage.entry_acc[side]) // S


def current_vintage(vintage: Vintage, matched: Vintage | None) -> Vintage:
    """Return a position's vintage as the contract's views show it. This is `matched` (from `as_of`) if that is the same
    vintage, else `vintage`."""
    return matched if matched is not None and matched.number == vintage.number else vintage


def accrued(market: VestedMarket, position: Position, vintage: Vintage, now: Moment) -> int:
    """Return the payout before the fee if the position's side won now. It never falls.

    It is 0 while the position's own vintage is open, because later entries in the same block may still reduce the
    accepted part.
    """
    seen, matched = as_of(market, now)
    vintage = current_vintage(vintage, matched)
    return gross_payout(seen, position, vintage) if vintage.accepted is not None else 0


def settlement(market: VestedMarket, position: Position, vintage: Vintage, now: Moment) -> Settlement:
    """Return the amounts due to a position. Until the market is settled, only the refused part can be due. It is due
    once the vintage is finished."""
    seen, matched = as_of(market, now)
    vintage = current_vintage(vintage, matched)
    accepted = accepted_of(position, vintage)
    if accepted is None:
        return Settlement(0, 0, 0, 0, 0)
    gross = fee = 0
    if market.voided:
        gross = accepted
    elif market.winner == position.outcome:
        gross = gross_payout(seen, position, vintage)
        fee = fee_on_gain(gross, accepted, market.terms.fee_bps)
    net, refund = gross - fee, position.offered - accepted
    unsent = (0 if position.claimed else net) + (0 if position.refunded else refund)
    return Settlement(gross, fee, net, refund, unsent)


def residue(market: VestedMarket) -> int | None:
    """Return the rounding remainder of a resolved market after all winners are paid. Return None if the market is not
    resolved or is void."""
    if market.winner is None or market.unpaid_principal > 0:
        return None
    return market.pool - market.paid - market.fees


def classic(market: VestedMarket, position: Position, vintage: Vintage) -> int | None:
    """Return what an ordinary pool would pay the position, or None until the market resolves."""
    accepted = accepted_of(position, vintage)
    if market.winner is None or accepted is None:
        return None
    if position.outcome != market.winner:
        return 0
    return classic_payout(accepted, market.pool, market.books[market.winner].principal, market.terms.fee_bps)


# ---------------------------------------------------------------- what readers see


@dataclass(frozen=True, slots=True)
class BookView:
    principal: int
    acc: int
    capacity: int
    vested: int
    demand: int
    live: int


@dataclass(frozen=True, slots=True)
class MarketView:
    books: tuple[BookView, BookView]
    headroom: Pair
    vintage_block: int | None
    """The block of the vintage that is open to entries, if any."""
    pool: int
    """Accepted on both outcomes, including the seed and a finished vintage."""


@dataclass(frozen=True, slots=True)
class PositionView:
    """A position as the contract's view shows it. Until its vintage is finished, `accepted` and `entry_acc` are None
    and `refused` is 0."""

    offered: int
    accepted: int | None
    refused: int
    entry_acc: int | None
    accrued: int
    payout: int | None
    """After settlement: the payout after the fee; 0 for a loser."""
    classic_payout: int | None
    """After a resolution: an ordinary pool's payout after the same fee."""
    settlement: Settlement
    paid_out: int | None
    """The part of `payout` that was sent; None if nothing was sent."""
    open: bool


def market_view(market: VestedMarket, now: Moment) -> MarketView:
    seen, _ = as_of(market, now)
    offered, closing = demand(seen), live(market, now)
    up, down = (
        BookView(
            principal=seen.books[side].principal,
            acc=seen.books[side].acc,
            capacity=capacity(seen, side),
            vested=seen.books[1 - side].principal,
            demand=offered[side],
            live=closing[side],
        )
        for side in (UP, DOWN)
    )
    return MarketView(
        books=(up, down),
        headroom=headroom(market, now),
        vintage_block=seen.vintage.number if seen.vintage is not None else None,
        pool=seen.pool,
    )


def position_view(market: VestedMarket, position: Position, vintage: Vintage, now: Moment) -> PositionView:
    seen, matched = as_of(market, now)
    vintage = current_vintage(vintage, matched)
    accepted = accepted_of(position, vintage)
    due = settlement(market, position, vintage, now)
    return PositionView(
        offered=position.offered,
        accepted=accepted,
        refused=0 if accepted is None else position.offered - accepted,
        entry_acc=None if vintage.entry_acc is None else vintage.entry_acc[position.outcome],
        accrued=accrued(market, position, vintage, now),
        payout=due.net if market.settled else None,
        classic_payout=classic(seen, position, vintage),
        settlement=due,
        paid_out=position.payout if position.claimed else None,
        open=not market.settled,
    )
