"""The agent contracts' events: settlement wallet, resolver and lister.

Amounts, weights and shares are token units (6 decimals), feed values have 8 decimals, times are Unix seconds. Market
ids are 32 bytes, addresses 20. In decoders, `t` is the joined topics and `d` is the data.
"""

from __future__ import annotations

import msgspec
from eth_utils.abi import get_abi_input_types

from core.contracts.abi import abi
from core.contracts.events.layout import by_topic, decode_with_eth_abi, layout, num, text
from core.hexadecimal import bytes_of

AGENT_MARKET = b"a"
"""Entity: everything about one market, `a` and the market's id."""
AGENT_VENUE = b"w"
"""Entity: what belongs to no market: roles, feeds, bounds, the pause, fee sweeps."""

_WALLET, _RESOLVER, _LISTER = (abi(name).events for name in ("SettlementWallet", "FeedResolver", "AgentLister"))


class MarketOpened(msgspec.Struct, frozen=True):
    market_id: bytes
    index: int
    opens_at: int
    closes_at: int
    fee_bps: int
    pot_cap: int
    weights: tuple[int, ...]


class MarketSpec(msgspec.Struct, frozen=True):
    """The lister's choices for a market. kind: 0 threshold, 1 range, 2 direction."""

    kind: int
    feed: bytes
    target: int
    bounds: tuple[int, ...]
    early_resolvable: bool
    opens_at: int
    closes_at: int
    start_at: int
    ends_at: int
    weights: tuple[int, ...]


class MarketTerms(msgspec.Struct, frozen=True):
    fee_bps: int
    pot_cap: int
    published: bool
    max_age: int
    early_from: int
    settles_after: int
    voids_after: int


class MarketListed(msgspec.Struct, frozen=True):
    market_id: bytes
    feed: bytes
    lister: bytes
    spec: MarketSpec
    terms: MarketTerms
    metadata: str


class MarketRegistered(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    feed: bytes


class Reading(msgspec.Struct, frozen=True, gc=False):
    """A round of a feed. All fields are zero if the round was not used."""

    round_id: int
    answer: int
    updated_at: int


class MarketDecided(msgspec.Struct, frozen=True, gc=False):
    """The resolver's verdict. `code` is the winning outcome or, if `is_void`, the reason for the void."""

    market_id: bytes
    is_void: bool
    code: int
    end: Reading
    start: Reading


class Staked(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    stake_id: int
    wallet: bytes
    outcome: int
    amount: int
    fee: int
    shares: int
    nonce: bytes
    bet_hash: bytes
    idem_hash: bytes
    builder: bytes
    ref: bytes


class RefundBooked(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    stake_id: int
    wallet: bytes
    amount: int
    reason: int
    nonce: bytes
    bet_hash: bytes
    idem_hash: bytes


class MarketResolved(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    outcome: int


class MarketVoided(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    reason: int


class Paid(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    stake_id: int
    wallet: bytes
    amount: int
    refund: bool


class PayoutFailed(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    stake_id: int
    wallet: bytes
    amount: int


class WalletFeesSwept(msgspec.Struct, frozen=True, gc=False):
    amount: int


class StakesPaused(msgspec.Struct, frozen=True, gc=False):
    paused: bool


class RoleSet(msgspec.Struct, frozen=True, gc=False):
    role: bytes
    account: bytes
    allowed: bool


class BoundsSet(msgspec.Struct, frozen=True, gc=False):
    fee_bps: int
    min_weight: int
    max_weight: int
    dispute_window: int
    void_delay: int


class AgentFeedSet(msgspec.Struct, frozen=True, gc=False):
    feed: bytes
    allowed: bool
    published: bool
    memory: int
    max_age: int
    lag: int
    pot_cap: int
    step: int  # seconds between grid readings; 0 for a feed of rounds
    feed_cap: int


class FeedCondemned(msgspec.Struct, frozen=True, gc=False):
    feed: bytes


class ListerSet(msgspec.Struct, frozen=True, gc=False):
    account: bytes
    allowed: bool


# ---------------------------------------------------------------- entities


def _by_market(t: bytes, _d: bytes) -> bytes:
    return AGENT_MARKET + t[32:64]


def _by_venue(_t: bytes, _d: bytes) -> bytes:
    return AGENT_VENUE


# ---------------------------------------------------------------- decoders


# A market is opened only once, so the general decoder is fast enough.
_OPENED = get_abi_input_types(_WALLET["MarketOpened"])[1:]
# The metadata is read as bytes, since a lister may write anything.
_LISTED = [*get_abi_input_types(_LISTER["MarketListed"])[3:5], "bytes"]


def _market_opened(t: bytes, d: bytes) -> MarketOpened:
    index, opens_at, closes_at, fee_bps, pot_cap, weights = decode_with_eth_abi("MarketOpened", _OPENED, d)
    return MarketOpened(t[32:64], index, opens_at, closes_at, fee_bps, pot_cap, tuple(weights))


def _market_listed(t: bytes, d: bytes) -> MarketListed:
    spec, terms, metadata = decode_with_eth_abi("MarketListed", _LISTED, d)
    kind, feed, target, bounds, early, opens_at, closes_at, start_at, ends_at, weights = spec
    times = (opens_at, closes_at, start_at, ends_at)
    return MarketListed(
        t[32:64],
        t[76:96],
        t[108:128],
        MarketSpec(kind, bytes_of(feed), target, tuple(bounds), early, *times, tuple(weights)),
        MarketTerms(*terms),
        text(metadata),
    )


def _bounds_set(_t: bytes, d: bytes) -> BoundsSet:
    return BoundsSet(*(num(d[at : at + 32]) for at in range(0, 160, 32)))


# ---------------------------------------------------------------- layouts

WALLET_EVENTS = by_topic(
    layout(_WALLET["MarketOpened"], _market_opened, _by_market),
    layout(_WALLET["Staked"], Staked, _by_market),
    layout(_WALLET["RefundBooked"], RefundBooked, _by_market),
    layout(_WALLET["MarketResolved"], MarketResolved, _by_market),
    layout(_WALLET["MarketVoided"], MarketVoided, _by_market),
    layout(_WALLET["Paid"], Paid, _by_market),
    layout(_WALLET["PayoutFailed"], PayoutFailed, _by_market),
    layout(_WALLET["FeesSwept"], WalletFeesSwept, _by_venue),
    layout(_WALLET["StakesPaused"], StakesPaused, _by_venue),
    layout(_WALLET["RoleSet"], RoleSet, _by_venue),
)

AGENT_RESOLVER_EVENTS = by_topic(
    layout(_RESOLVER["MarketRegistered"], MarketRegistered, _by_market),
    layout(_RESOLVER["MarketDecided"], MarketDecided, _by_market),
)

AGENT_LISTER_EVENTS = by_topic(
    layout(_LISTER["MarketListed"], _market_listed, _by_market),
    layout(_LISTER["BoundsSet"], _bounds_set, _by_venue),
    layout(_LISTER["FeedSet"], AgentFeedSet, _by_venue),
    layout(_LISTER["FeedCondemned"], FeedCondemned, _by_venue),
    layout(_LISTER["ListerSet"], ListerSet, _by_venue),
)
