"""The state of the stock chain at one moment, as frozen values: markets, positions, the head and rounds.

Amounts are token units (6 decimals), and answers have 8 decimals. Times are Unix seconds of the chain's clock unless a
name says otherwise. Addresses are checksummed, hashes are lower-case hex.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from api.head import Head
from api.stock.bodies import FamilyName, Side
from core.feeds.rounds import Round, Spec
from core.stock.vested import Position, VestedMarket, Vintage

FAMILIES: Final[tuple[FamilyName, ...]] = ("daily", "weekly", "drill")
SIDES: Final[tuple[Side, Side]] = ("UP", "DOWN")


class Phase(StrEnum):
    OPENS = "opens"
    LIVE = "live"
    FROZEN = "frozen"
    RESOLVED = "resolved"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class MarketResult:
    """A market's result. `outcome` and `reason`: the resolver's numbers, both None if the timeout voided the market."""

    outcome: int | None
    reason: int | None
    strike: Round | None
    final: Round | None
    tx: str
    at: int


@dataclass(frozen=True, slots=True)
class ListedMarket:
    """A market with its books and its result. `version` changes whenever any row of the market changes."""

    id: int
    ticker: str
    family: int
    feed: str
    stock_token: str
    spec_id: str
    opener: str
    strike_time: int
    final_time: int
    max_strike_age: int
    max_final_age: int
    opened_at: int
    opened_tx: str
    market: VestedMarket
    positions: int
    result: MarketResult | None
    version: tuple[int, int]

    @property
    def spec(self) -> Spec:
        return Spec(self.strike_time, self.final_time, self.max_strike_age, self.max_final_age)

    @property
    def href(self) -> str:
        return f"/m/{self.id}"

    @property
    def voidable_at(self) -> int:
        return self.market.terms.freeze_time + self.market.terms.void_delay

    def phase(self, now: int) -> Phase:
        """Return the phase at the head block's time `now`. If the chain stalls, its markets stall too."""
        if self.market.voided:
            return Phase.VOID
        if self.market.winner is not None:
            return Phase.RESOLVED
        if now >= self.final_time:
            return Phase.FROZEN
        return Phase.LIVE if now >= self.strike_time else Phase.OPENS


@dataclass(frozen=True, slots=True)
class HeldPosition:
    position: Position
    vintage: Vintage
    owner: str
    entered_by: str
    entered_at: int
    entry_tx: str
    payout_tx: str | None
    failed_deliveries: int = 0


@dataclass(frozen=True, slots=True)
class MarketsSnapshot:
    """The state of the stock markets, read in one transaction. `reorgs`: the id of the last reorganization.
    `markets`: all unsettled markets, the newest settled ones, and those with unpaid winners."""

    head: Head
    entries_paused: bool
    fees_swept: int
    reorgs: int
    markets: Mapping[int, ListedMarket] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolverPreview:
    status: int
    strike_round: int = 0
    strike_answer: int = 0
    strike_at: int = 0
    final_round: int = 0
    final_answer: int = 0
    final_at: int = 0


@dataclass(frozen=True, slots=True)
class MarketReadings:
    strike: Round | None = None
    strike_problem: int = 0
    final: Round | None = None
    final_problem: int = 0
    preview: ResolverPreview | None = None


@dataclass(frozen=True, slots=True)
class Oracle:
    """The last reading of feeds and markets. `read_at`: the time of the reading by our clock; 0 before the first
    reading. `latest`: the last good round of each feed. `unreadable`: the feeds that returned no round at the last
    read. `halts`: for each halted feed, the reason why its markets accept no bets now. `version` grows with every
    change."""

    read_at: int = 0
    latest: Mapping[str, Round] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    readings: Mapping[int, MarketReadings] = field(default_factory=dict)
    halts: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
