"""The state of the stock chain at one moment: markets, positions, the head, rounds. Frozen values, no I/O.

Amounts are token units (6 decimals), answers have 8 decimals, times are Unix seconds of the chain's clock unless a name
says otherwise. Addresses are checksummed, hashes lower-case hex.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from api.head import Head
from api.stock.bodies.parts import FamilyName, Side
from core.feeds.rounds import Round, Spec
from core.stock.vested import Position, VestedMarket, Vintage

FAMILIES: Final[tuple[FamilyName, ...]] = ("daily", "weekly", "drill")
SIDES: Final[tuple[Side, Side]] = ("UP", "DOWN")


class Phase(StrEnum):
    """A stock market's phase, as the API shows it."""

    OPENS = "opens"
    LIVE = "live"
    FROZEN = "frozen"
    RESOLVED = "resolved"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class MarketResult:
    """How a market ended. `outcome` and `reason` are the resolver's numbers, None if it was voided by the timeout."""

    outcome: int | None
    reason: int | None
    strike: Round | None
    final: Round | None
    tx: str
    at: int


@dataclass(frozen=True, slots=True)
class ListedMarket:
    """A market as the lister opened it, its books, and how it was settled. `version` changes whenever a row does."""

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
        """Return the phase at `now`, the head block's time: when the chain stalls, so do its markets."""
        if self.market.voided:
            return Phase.VOID
        if self.market.winner is not None:
            return Phase.RESOLVED
        if now >= self.final_time:
            return Phase.FROZEN
        return Phase.LIVE if now >= self.strike_time else Phase.OPENS


@dataclass(frozen=True, slots=True)
class HeldPosition:
    """A position with its vintage, who entered it, who holds it, and where its events are."""

    position: Position
    vintage: Vintage
    owner: str
    entered_by: str
    entered_at: int
    entry_tx: str
    payout_tx: str | None
    failed_deliveries: int = 0


@dataclass(frozen=True, slots=True)
class EntryReceipt:
    """The state of a signed bet as of the block `head`; `block` and `tx` are None while it is in no block. `position`
    is also None if its transaction made several equal ones."""

    head: Head
    final_block: int
    block: int | None = None
    tx: str | None = None
    position: HeldPosition | None = None

    @property
    def state(self) -> Literal["pending", "confirmed", "final"]:
        if self.block is None:
            return "pending"
        return "final" if self.block <= self.final_block else "confirmed"


@dataclass(frozen=True, slots=True)
class MarketsSnapshot:
    """The stock markets as they stand, read in one transaction. `reorgs` is the id of the last reorganization undone;
    `markets`: all that are unsettled, the newest settled, and those of which winners are unpaid."""

    head: Head
    entries_paused: bool
    fees_swept: int
    reorgs: int
    markets: Mapping[int, ListedMarket] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolverPreview:
    """The resolver's `preview`, as it answers."""

    status: int
    strike_round: int = 0
    strike_answer: int = 0
    strike_at: int = 0
    final_round: int = 0
    final_answer: int = 0
    final_at: int = 0


@dataclass(frozen=True, slots=True)
class MarketReadings:
    """The chain's answers about one market: the rounds that the finder proved, and the resolver's preview."""

    strike: Round | None = None
    strike_problem: int = 0
    final: Round | None = None
    final_problem: int = 0
    preview: ResolverPreview | None = None


@dataclass(frozen=True, slots=True)
class Oracle:
    """What the last view calls returned for feeds and markets. `read_at`: by our clock; 0 before the first read.
    `unreadable`: feeds that returned no round at the last read; `latest` keeps their last good one. `halts`: by feed,
    why its markets take no bets now."""

    read_at: int = 0
    latest: Mapping[str, Round] = field(default_factory=dict)
    unreadable: frozenset[str] = frozenset()
    readings: Mapping[int, MarketReadings] = field(default_factory=dict)
    halts: Mapping[str, str] = field(default_factory=dict)
    version: int = 0
