"""What is known of the agent markets at one moment: frozen values, no I/O.

Amounts and shares are token units (6 decimals), prices wads, feed values have 8 decimals, times are Unix seconds of the
chain's clock. A market's texts come from the metadata its lister wrote; what is missing there is worded from its terms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.market_words import Outcome
from core.mirror.settlement import Book, Kind

METRICS = {Kind.THRESHOLD: "market_cap", Kind.RANGE: "market_cap_range", Kind.DIRECTION: "price_direction"}
OPEN, RESOLVED, VOID = 1, 2, 3
LONGEST_LAG_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Head:
    """The last indexed block. `seen_at`: our own clock's time when a node last told what its head is."""

    number: int
    timestamp: int
    seen_at: int
    state: str
    lag: int
    """Blocks the node has and the index has not."""
    lag_seconds: int
    """Chain time between the last indexed block and the node's newest."""

    def why_late(self, now: float) -> str | None:
        """A sentence when what is known of the chain is too old to bet on, by our own clock; else None."""
        if self.state == "halted":
            return "The indexer stopped at blocks that contradict each other."
        if now - self.seen_at > LONGEST_LAG_SECONDS or (self.lag > 0 and self.lag_seconds > LONGEST_LAG_SECONDS):
            return "The indexer lags."
        return None


@dataclass(frozen=True, slots=True)
class Ending:
    """How a market ended. `winner` None: void."""

    winner: int | None
    observed: int | None
    observed_at: int | None
    round_id: int | None
    void_reason: int | None
    at: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class Market:
    """One listed market. `volume` includes fees; `version` changes with every change of its row."""

    key: bytes
    kind: Kind
    feed: str
    target: int
    bounds: tuple[int, ...]
    early_resolvable: bool
    opens_at: int
    closes_at: int
    start_at: int
    book: Book
    volume: int
    bets: int
    outcome_bets: tuple[int, ...]
    ending: Ending | None
    listed_at: int
    listed_order: tuple[int, int]
    version: str
    document: Mapping[str, Any] | None
    outcomes: tuple[Outcome, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.texts["id"]

    @property
    def slug(self) -> str:
        return self.texts["slug"]

    @property
    def metric(self) -> str:
        return METRICS[self.kind]

    @property
    def token_symbol(self) -> str:
        return self.texts["tokenSymbol"]

    @property
    def supported(self) -> bool:
        """Whether the service can take bets on it: a Base market with readable metadata and a feed."""
        if self.document is None or int(self.feed, 16) == 0:
            return False
        return self.texts["chainId"] == "base"

    def status(self, now: int) -> str:
        if self.ending is not None:
            return "void" if self.ending.winner is None else "resolved"
        return "open" if now < self.closes_at else "closed"

    def outcome(self, side: str) -> int | None:
        """The number of a side; None when the market has no such outcome."""
        return next((at for at, each in enumerate(self.outcomes) if each.key == side), None)

    @property
    def winner(self) -> int | None:
        return None if self.ending is None else self.ending.winner

    def refunded(self) -> bool:
        return self.ending is not None and self.book.refunds(self.ending.winner)


@dataclass(frozen=True, slots=True)
class Stake:
    """A stake or a late payment owed back (`outcome` None). Transaction hashes are 32 bytes."""

    id: int
    market_key: bytes
    wallet: str
    outcome: int | None
    amount: int
    fee: int
    shares: int
    price_after: int | None
    intent_hash: bytes
    idem_hash: bytes
    builder: str | None
    ref: bytes | None
    status: int
    block: int
    at: int
    tx: bytes
    paid_amount: int
    paid_at: int | None
    paid_tx: bytes | None

    @property
    def net(self) -> int:
        return self.amount - self.fee

    @property
    def ref_text(self) -> str | None:
        if self.ref is None:
            return None
        text = self.ref.rstrip(b"\0")
        return text.decode("ascii") if text.isascii() and text.decode("ascii").isprintable() else None


@dataclass(frozen=True, slots=True)
class Observation:
    """A round of a feed."""

    value: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Venue:
    """Everything the index says, read in one transaction."""

    head: Head
    stakes_paused: bool
    reorgs: int
    markets: Mapping[bytes, Market]
    latest: Mapping[str, Observation]
    volume_24h: Mapping[bytes, int]
    by_name: Mapping[str, Market]

    @property
    def now(self) -> int:
        return self.head.timestamp

    def market(self, name: str) -> Market | None:
        """By id, slug, or the hex of the contract's key."""
        return self.by_name.get(name)


def names_of(markets: Mapping[bytes, Market]) -> dict[str, Market]:
    """Lookup table; an id always wins over a slug, an earlier listing over a later one of the same slug."""
    found: dict[str, Market] = {}
    ordered = sorted(markets.values(), key=lambda each: each.listed_order)
    for market in ordered:
        found.setdefault(market.slug, market)
    for market in ordered:
        found[market.id] = market
        found["0x" + market.key.hex()] = market
    return found
