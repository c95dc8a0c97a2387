"""The vested parimutuel in exact integers: what `VestedMarkets` computes, to the unit, without a chain.

Every value is a token unit (6 decimals) unless a name says otherwise; accumulators are scaled by `S`. Outcome 0 is UP,
1 is DOWN, and every pair is (UP, DOWN). Nothing here does I/O or keeps state: functions take frozen values and return
new ones. `vested_fold` builds those values from logs, `vested_views` puts them together for readers.

Rounding: every division rounds down, as the EVM's does, and each one says whom that favours. Because all of them keep
value inside the market, payouts can never exceed the pool; what they leave is the residue.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from core.stock.classic import classic_payout, fee_on_gain

S: Final = 10**18
"""Scale of the accumulators: `S` means one unit promised per unit of principal."""

MAX_SIDE_CAP: Final = 2**48 - 1
"""The highest cap of a side that the contract takes: it keeps every sum in its word."""

UP: Final = 0
DOWN: Final = 1
SEED: Final = 0
"""The vintage of the two seed positions; real vintages carry a block number, which is never 0."""

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Moment:
    """When something is read: `block_number` as contracts see it (on an Arbitrum-style chain, Ethereum's), and time."""

    block_number: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms a market was created with; they never change."""

    market_id: int
    opener: bytes
    resolver: bytes
    freeze_time: int
    void_delay: int
    fee_bps: int
    kappa: int
    seed_per_leg: int
    min_entry: int
    max_entry: int
    side_cap: int
    """The most one outcome takes in all, the seed counted."""


@dataclass(frozen=True, slots=True)
class Book:
    """One outcome's book: accepted principal, and what each unit of it was promised since the beginning, times `S`."""

    principal: int
    acc: int


@dataclass(frozen=True, slots=True)
class Vintage:
    """All entries of one market in one `block.number`. `accepted` and `entry_acc` are None until it is matched."""

    number: int
    offered: Pair
    accepted: Pair | None = None
    entry_acc: Pair | None = None


@dataclass(frozen=True, slots=True)
class VestedMarket:
    """A market's books and where it stands. `vintage` is the one not yet matched on chain, if any."""

    terms: Terms
    books: tuple[Book, Book]
    vintage: Vintage | None = None
    winner: int | None = None
    voided: bool = False
    paid_principal: int = 0
    """Accepted amounts of the positions whose settlement was sent."""
    paid: int = 0
    """What was sent for them, after fees."""
    fees: int = 0
    refunded: int = 0
    """Refused parts given back so far."""
    residue_claimed: int = 0

    @property
    def settled(self) -> bool:
        return self.voided or self.winner is not None

    @property
    def pool(self) -> int:
        """Return everything accepted on both outcomes, seed included."""
        return self.books[UP].principal + self.books[DOWN].principal

    @property
    def distributed(self) -> int:
        """Return what has left the pool: payouts before fees, and the residue."""
        return self.paid + self.fees + self.residue_claimed

    @property
    def unpaid_principal(self) -> int:
        """Principal whose settlement is still to be sent: the winner's, both when void, nothing while open."""
        if self.voided:
            return self.pool - self.paid_principal
        if self.winner is not None:
            return self.books[self.winner].principal - self.paid_principal
        return 0


@dataclass(frozen=True, slots=True)
class Position:
    """One entry, or one seed leg. `before` is what was offered on its side of its vintage ahead of it."""

    position_id: int
    market_id: int
    owner: bytes
    outcome: int
    offered: int
    vintage: int
    before: int
    claimed: bool = False
    """Its payout was sent. A loser has none and is never claimed here, even if its refund was sent after the end."""
    refunded: bool = False
    """Its refused part was sent."""
    payout: int = 0
    """What was sent for its accepted part, after `fee`."""
    fee: int = 0
    refund: int = 0

    @property
    def seed(self) -> bool:
        return self.vintage == SEED


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a position gets: `net = gross - fee`; `total` is what of `net` and `refund` is not sent yet."""

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
    """Return the books after the seed: each leg has already vested into the other."""
    return Book(seed_per_leg, S), Book(seed_per_leg, S)


def seed_vintage(seed_per_leg: int) -> Vintage:
    """Vintage 0, for one leg as for the other: accepted whole, entered at accumulator 0, so that a seed leg's accrual
    includes the other leg."""
    leg = (seed_per_leg, seed_per_leg)
    return Vintage(SEED, offered=leg, accepted=leg, entry_acc=(0, 0))


def capacity(market: VestedMarket, outcome: int) -> int:
    """Return all that may vest into `outcome`: kappa times its principal, at most the cap of a side."""
    return min(market.terms.kappa * market.books[outcome].principal, market.terms.side_cap)


def room(market: VestedMarket) -> Pair:
    """Return what each outcome's vintage may be accepted in all, from the books as they stand, before any demand."""
    up, down = market.books[UP].principal, market.books[DOWN].principal
    return (
        max(0, capacity(market, DOWN) - up),
        max(0, capacity(market, UP) - down),
    )


def demand(market: VestedMarket) -> Pair:
    """Return what the vintage not matched yet offers."""
    return market.vintage.offered if market.vintage is not None else (0, 0)


def match(market: VestedMarket) -> tuple[VestedMarket, Vintage]:
    """Match the pending vintage against the books as they stood before it: what `VintageFinalized` records."""
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
    """Check whether the pending vintage takes no more entries: its block has passed, or the market froze within it."""
    pending = market.vintage
    return pending is not None and (
        pending.number != now.block_number or now.timestamp >= market.terms.freeze_time or market.settled
    )


def as_of(market: VestedMarket, now: Moment) -> tuple[VestedMarket, Vintage | None]:
    """The market as its views show it: a finished vintage counts as matched, and is returned, before it is on chain."""
    return match(market) if finished(market, now) else (market, None)


def headroom(market: VestedMarket, now: Moment) -> Pair:
    """Return what each outcome would still accept in this block: its room less what the open vintage already offers."""
    seen, _ = as_of(market, now)
    rooms, offered = room(seen), demand(seen)
    return max(0, rooms[UP] - offered[UP]), max(0, rooms[DOWN] - offered[DOWN])


def live(market: VestedMarket, now: Moment) -> Pair:
    """Return each outcome's principal if the open vintage closed now."""
    seen, _ = as_of(market, now)
    rooms, offered = room(seen), demand(seen)
    return (
        seen.books[UP].principal + min(rooms[UP], offered[UP]),
        seen.books[DOWN].principal + min(rooms[DOWN], offered[DOWN]),
    )


def offer(market: VestedMarket, outcome: int, amount: int, block_number: int) -> tuple[VestedMarket, int]:
    """Add an entry to the vintage of `block_number`; also returns what was offered ahead of it on its side."""
    if market.vintage is not None and market.vintage.number != block_number:
        raise ValueError(f"market {market.terms.market_id}: vintage {market.vintage.number} is not matched yet")
    vintage = market.vintage or Vintage(block_number, offered=(0, 0))
    before = vintage.offered[outcome]
    up, down = vintage.offered
    offered = (up + amount, down) if outcome == UP else (up, down + amount)
    return replace(market, vintage=replace(vintage, offered=offered)), before


# ---------------------------------------------------------------- what a position is worth


def share(before: int, offered: int, accepted: int, demanded: int) -> int:
    """Return an entry's part of its side's `accepted`, in proportion to its offer within `demanded`, which is not 0.

    Both quotients round down, and consecutive entries share their borders, so the parts add up to `accepted` exactly;
    a part is less than one unit away from its exact proportion.
    """
    return (before + offered) * accepted // demanded - before * accepted // demanded


def accepted_of(position: Position, vintage: Vintage) -> int | None:
    """Return what of a position was accepted; None while its vintage is not matched."""
    if vintage.accepted is None:
        return None
    if position.seed:
        return position.offered
    side = position.outcome
    return share(position.before, position.offered, vintage.accepted[side], vintage.offered[side])


def gross_payout(market: VestedMarket, position: Position, vintage: Vintage) -> int:
    """Return what the books promise a position of a matched vintage if its side wins, before the fee.

    Rounded down: the fraction of a unit stays in the pool and ends in the residue.
    """
    accepted = accepted_of(position, vintage)
    if accepted is None or vintage.entry_acc is None:
        raise ValueError(f"position {position.position_id}: its vintage {vintage.number} is not matched yet")
    side = position.outcome
    return accepted * (S + market.books[side].acc - vintage.entry_acc[side]) // S


def seen_vintage(vintage: Vintage, matched: Vintage | None) -> Vintage:
    """Return a position's vintage as views see it, given what `as_of` matched."""
    return matched if matched is not None and matched.number == vintage.number else vintage


def accrued(market: VestedMarket, position: Position, vintage: Vintage, now: Moment) -> int:
    """Return what the position would be paid, before the fee, if its side won now. Never falls while the market is
    open, and keeps its last value after.

    A position whose own vintage is still open has nothing yet: what later entries of its block leave it is not known.
    """
    seen, matched = as_of(market, now)
    vintage = seen_vintage(vintage, matched)
    return gross_payout(seen, position, vintage) if vintage.accepted is not None else 0


def settlement(market: VestedMarket, position: Position, vintage: Vintage, now: Moment) -> Settlement:
    """Return what a position gets: before the market is settled, its refused part, once its vintage is finished."""
    seen, matched = as_of(market, now)
    vintage = seen_vintage(vintage, matched)
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
    """Floor dust of a resolved market, known once every winning position is paid; None before that and in a void."""
    if market.winner is None or market.unpaid_principal > 0:
        return None
    return market.pool - market.paid - market.fees


def classic(market: VestedMarket, position: Position, vintage: Vintage) -> int | None:
    """Return what an ordinary pool would have paid the position, after the same fee; None until the market resolves."""
    accepted = accepted_of(position, vintage)
    if market.winner is None or accepted is None:
        return None
    if position.outcome != market.winner:
        return 0
    return classic_payout(accepted, market.pool, market.books[market.winner].principal, market.terms.fee_bps)
