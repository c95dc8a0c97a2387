"""The stock side's events: the settler (VestedMarkets), the resolver and the lister.

Amounts are token units (6 decimals). Accumulators are token units times 1e18 per unit of principal. Answers have 8
decimals, times are Unix seconds, and addresses are 20 bytes. In decoders, `t` is the joined topics and `d` is the data.
"""

from __future__ import annotations

import msgspec

from core.contracts.abi import abi
from core.contracts.events.layout import by_topic, layout

STOCK_MARKET = b"m"
"""Entity: everything about one market, `m` and the market's id in 8 bytes."""
STOCK_VENUE = b"v"
"""Entity: what belongs to no market: feeds, openers, the pause, fee sweeps."""


class MarketCreated(msgspec.Struct, frozen=True, gc=False):
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
    side_cap: int  # the most that one outcome accepts, seed included


class Entered(msgspec.Struct, frozen=True, gc=False):
    """A new position. The two seed positions of a market have vintage 0."""

    market_id: int
    position_id: int
    owner: bytes
    outcome: int
    offered: int
    vintage: int


class VintageFinalized(msgspec.Struct, frozen=True, gc=False):
    market_id: int
    vintage: int
    offered_up: int
    offered_down: int
    accepted_up: int
    accepted_down: int
    acc_up: int
    acc_down: int


class Resolved(msgspec.Struct, frozen=True, gc=False):
    market_id: int
    winner: int


class Voided(msgspec.Struct, frozen=True, gc=False):
    market_id: int


class Delivered(msgspec.Struct, frozen=True, gc=False):
    position_id: int
    owner: bytes
    payout: int
    fee: int
    refund: int


class DeliveryFailed(msgspec.Struct, frozen=True, gc=False):
    position_id: int
    owner: bytes
    amount: int


class PositionTransferred(msgspec.Struct, frozen=True, gc=False):
    position_id: int
    sender: bytes
    to: bytes


class ResidueClaimed(msgspec.Struct, frozen=True, gc=False):
    market_id: int
    amount: int


class FeesSwept(msgspec.Struct, frozen=True, gc=False):
    amount: int


class EntriesPaused(msgspec.Struct, frozen=True, gc=False):
    paused: bool


class SpecRegistered(msgspec.Struct, frozen=True, gc=False):
    market_id: int
    spec_id: bytes
    feed: bytes
    stock_token: bytes
    strike_time: int
    final_time: int
    max_strike_age: int
    max_final_age: int


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A market's settlement. outcome: 0 UP, 1 DOWN, 2 FLAT, 3 VOID. reason: 0 none, 1 flat, 2 stale, 3 paused, 4 bad
    answer, 5 multiplier, 6 outage."""

    market_id: int
    outcome: int
    reason: int
    strike_round: int
    strike_answer: int
    strike_at: int
    final_round: int
    final_answer: int
    final_at: int


class MarketOpened(msgspec.Struct, frozen=True, gc=False):
    market_id: int
    spec_id: bytes
    feed: bytes
    ticker: str
    family: int
    strike_time: int
    final_time: int
    seed_per_leg: int
    min_entry: int
    max_entry: int


class FeedSet(msgspec.Struct, frozen=True, gc=False):
    feed: bytes
    stock_token: bytes
    ticker: str
    max_strike_age: int
    max_final_age: int
    side_cap: int
    allowed: bool


class OpenerSet(msgspec.Struct, frozen=True, gc=False):
    opener: bytes
    allowed: bool


# ---------------------------------------------------------------- entities


def _by_market(t: bytes, _d: bytes) -> bytes:
    return STOCK_MARKET + t[56:64]


def _by_position(t: bytes, _d: bytes) -> bytes:
    # A position's id is `marketId << 32 | ...`.
    return STOCK_MARKET + t[52:60]


def _by_venue(_t: bytes, _d: bytes) -> bytes:
    return STOCK_VENUE


# ---------------------------------------------------------------- layouts

_SETTLER, _RESOLVER, _LISTER = (abi(name).events for name in ("VestedMarkets", "RoundResolver", "MarketLister"))

ENTERED = layout(_SETTLER["Entered"], Entered, _by_market)

SETTLER_EVENTS = by_topic(
    layout(_SETTLER["MarketCreated"], MarketCreated, _by_market),
    ENTERED,
    layout(_SETTLER["VintageFinalized"], VintageFinalized, _by_market),
    layout(_SETTLER["Resolved"], Resolved, _by_market),
    layout(_SETTLER["Voided"], Voided, _by_market),
    layout(_SETTLER["Delivered"], Delivered, _by_position),
    layout(_SETTLER["DeliveryFailed"], DeliveryFailed, _by_position),
    layout(_SETTLER["PositionTransferred"], PositionTransferred, _by_position),
    layout(_SETTLER["ResidueClaimed"], ResidueClaimed, _by_market),
    layout(_SETTLER["FeesSwept"], FeesSwept, _by_venue),
    layout(_SETTLER["EntriesPaused"], EntriesPaused, _by_venue),
)

RESOLVER_EVENTS = by_topic(
    layout(_RESOLVER["SpecRegistered"], SpecRegistered, _by_market),
    layout(_RESOLVER["Settled"], Settled, _by_market),
)

LISTER_EVENTS = by_topic(
    layout(_LISTER["MarketOpened"], MarketOpened, _by_market),
    layout(_LISTER["FeedSet"], FeedSet, _by_venue),
    layout(_LISTER["OpenerSet"], OpenerSet, _by_venue),
)
