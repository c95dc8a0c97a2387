"""The agent markets at one moment, and the links to them: frozen values, no I/O. Amounts, weights and shares are token
units (6 decimals), prices are wads, feed values have 8 decimals, and times are Unix seconds of the chain's clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from api.head import Head
from core.agent.bet import market_key, ref_text
from core.agent.book import YES, Book
from core.agent.document import CATEGORIES, ID_PATTERN, MAX_ID, Category, MarketDocument, Metadata, Specification
from core.agent.words import OutcomeWords
from core.contracts.statuses import MarketKind, RefundReason
from core.feeds.grid import grid_time
from core.hexadecimal import bytes_of, hex_of

_KEY = re.compile(r"0x[0-9a-f]{64}")
_ID = re.compile(rf"(?=.{{1,{MAX_ID}}}\Z){ID_PATTERN}")

# By outcome: net stakes, shares, excess, number of stakes.
BookTotals = Mapping[int, tuple[int, int, int, int]]


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a settled market. `winner` is None if the market is void. A reading is None if it did not decide the
    market."""

    winner: int | None
    end_answer: int | None
    end_at: int | None
    start_answer: int | None
    start_at: int | None
    at: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class ListedMarket:
    """A listed market. `volume`: all stakes, fees included. `version` changes whenever the market's row does."""

    key: bytes
    feed: str
    spec: Specification
    words: MarketDocument
    book: Book
    volume: int
    pot_cap: int
    bets: int
    outcome_bets: tuple[int, ...]
    ending: Ending | None
    listed_order: tuple[int, int]
    version: str
    metadata: Metadata | None

    @property
    def id(self) -> str:
        return self.words.id

    @property
    def kind(self) -> MarketKind:
        return self.spec.kind

    @property
    def closes_at(self) -> int:
        return self.spec.closes_at

    @property
    def outcomes(self) -> tuple[OutcomeWords, ...]:
        return self.words.outcomes

    @property
    def metric(self) -> Category:
        return CATEGORIES[self.kind]

    @property
    def token_symbol(self) -> str:
        return self.words.token_symbol

    @property
    def supported(self) -> bool:
        """Return whether bets are accepted. The service must know the feed, and the specification must match the id."""
        return self.words.verified

    def opens_later(self, now: int) -> bool:
        """Return whether betting starts later. Until then the status is `closed`, as it is after betting ends."""
        return self.ending is None and now < self.spec.opens_at

    def status(self, now: int) -> Literal["open", "closed", "resolved", "void"]:
        if self.ending is not None:
            return "void" if self.ending.winner is None else "resolved"
        return "open" if self.spec.opens_at <= now < self.closes_at else "closed"

    def outcome(self, side: str) -> int | None:
        return next((at for at, each in enumerate(self.outcomes) if each.key == side), None)

    def book_of(self, totals: BookTotals) -> Book:
        nets, shares, excesses, _ = zip(
            *(totals.get(at, (0, 0, 0, 0)) for at in range(self.book.outcomes)), strict=True
        )
        return Book(self.book.weights, self.book.fee_bps, nets, shares, excesses)

    @property
    def winner(self) -> int | None:
        return None if self.ending is None else self.ending.winner

    @property
    def sort_key(self) -> tuple[int, ...]:
        """Return the market's place in lists: earliest deadline first, then by block and log index of the listing."""
        return (self.closes_at, *self.listed_order)

    def refunded(self) -> bool:
        return self.ending is not None and self.book.refunds(self.ending.winner)


def deciding_times(market: ListedMarket, now: int) -> dict[int, int]:
    """Map each deciding moment to the time of its reading. For a settled market, this is the reading that decided it.
    For an unsettled market on a pool feed, it is the reading that will decide, known as soon as the moment has passed.
    The readings of other feeds are not known in advance."""
    spec, ending, computed = market.spec, market.ending, market.words.computed
    if ending is None:
        moments = (spec.start_at, spec.ends_at) if spec.kind is MarketKind.DIRECTION else (spec.ends_at,)
        return {} if computed is None else {each: grid_time(each, computed.step) for each in moments if each < now}
    times = {}
    if ending.start_at is not None:
        times[spec.start_at] = ending.start_at
    if ending.end_at is not None:
        crossed = spec.early_resolvable and ending.winner == YES and ending.end_at >= spec.early_from
        times[ending.end_at if crossed else spec.ends_at] = ending.end_at
    return times


@dataclass(frozen=True, slots=True)
class Stake:
    """A stake or, if `outcome` is None, a late payment to refund. Transaction hashes are 32 bytes."""

    id: int
    market_key: bytes
    ordinal: int
    wallet: str
    outcome: int | None
    amount: int
    fee: int
    shares: int
    price_after: int | None
    bet_hash: bytes
    idem_hash: bytes
    builder: str | None
    ref: bytes | None
    refund_reason: RefundReason | None
    block: int
    log_index: int
    at: int
    tx: bytes
    paid_tx: bytes | None

    @property
    def net(self) -> int:
        return self.amount - self.fee

    @property
    def ref_text(self) -> str | None:
        return None if self.ref is None else ref_text(self.ref)


@dataclass(frozen=True, slots=True)
class Holding:
    """A wallet's stakes on one outcome of an open market or, without `market_key`, all its settled stakes."""

    market_key: bytes | None
    outcome: int
    stakes: int
    amount: int
    shares: int
    worth: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """An authorization's state in the index. `value` is None unless the authorization moved money."""

    cancelled: bool
    value: int | None
    block: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class FeedRound:
    """A feed's round, with the transaction that recorded it. A `value` of zero or less is invalid."""

    value: int
    updated_at: int
    tx: bytes


@dataclass(frozen=True, slots=True)
class MarketsSnapshot:
    """The agent markets, read in one transaction. `markets`: all unsettled ones and the newest settled ones."""

    head: Head
    stakes_paused: bool
    reorgs: int
    markets: Mapping[bytes, ListedMarket]
    latest: Mapping[str, FeedRound]
    volume_24h: Mapping[bytes, int]

    @property
    def now(self) -> int:
        return self.head.timestamp

    def open_markets(self) -> list[ListedMarket]:
        return [each for each in self.markets.values() if each.supported and each.status(self.now) == "open"]


# The empty state before a contract is deployed.
BEFORE_DEPLOYMENT = MarketsSnapshot(
    Head(0, 0, seen_at=0), stakes_paused=False, reorgs=0, markets={}, latest={}, volume_24h={}
)


@lru_cache(maxsize=4_096)
def key_from_name(name: str) -> bytes | None:
    """Return a market's key, given the market's id or the key in hex. Return None for any other text."""
    if _KEY.fullmatch(name):
        return bytes_of(name)
    return market_key(name) if _ID.fullmatch(name) else None


@dataclass(frozen=True, slots=True)
class Links:
    """Links to the site, the API, the documentation and the block explorer. `explorer` is None on a local chain."""

    origin: str
    explorer: str | None
    settlement: str

    @property
    def api(self) -> str:
        return f"{self.origin}/api/agent/v1"

    @property
    def docs(self) -> str:
        return f"{self.origin}/agents.txt"

    @property
    def errors(self) -> str:
        return f"{self.origin}/errors.txt"

    def app(self, market: ListedMarket) -> str:
        return f"{self.origin}/markets/{market.id}"

    def proof(self, trade_id: bytes) -> str:
        return f"{self.api}/proof/{hex_of(trade_id)}"

    def tx(self, tx: bytes) -> str | None:
        return None if self.explorer is None else f"{self.explorer}/tx/{hex_of(tx)}"

    def address(self, address: str) -> str | None:
        return None if self.explorer is None else f"{self.explorer}/address/{address}"
