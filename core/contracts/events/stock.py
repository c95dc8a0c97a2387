"""The stock side's events: the settler (VestedMarkets), the resolver and the lister.

Amounts are token units (6 decimals), accumulators those times 1e18 per unit of principal, answers have 8 decimals,
times are Unix seconds. Addresses are 20 bytes. `t` is the joined topics, `d` the data.
"""

from __future__ import annotations

import msgspec

from core.contracts.events.layout import by_topic, layout, num, tail, text

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


class Entered(msgspec.Struct, frozen=True, gc=False):
    """A position that was entered; the two seed positions are told of in the same way, with vintage 0."""

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
    """How a market was settled: outcome 0 UP, 1 DOWN, 2 FLAT, 3 VOID; reason 0 none, 1 flat, 2 stale, 3 paused, 4 bad
    answer."""

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
    allowed: bool


class OpenerSet(msgspec.Struct, frozen=True, gc=False):
    opener: bytes
    allowed: bool


# ---------------------------------------------------------------- entities


def market_entity(market_id: int) -> bytes:
    return STOCK_MARKET + market_id.to_bytes(8)


def _by_market(t: bytes, _d: bytes) -> bytes:
    return STOCK_MARKET + t[56:64]


def _by_position(t: bytes, _d: bytes) -> bytes:
    """A position's id is `marketId << 32 | ...`, so its upper half is the market's."""
    return STOCK_MARKET + t[52:60]


def _by_venue(_t: bytes, _d: bytes) -> bytes:
    return STOCK_VENUE


# ---------------------------------------------------------------- decoders


def _market_created(t: bytes, d: bytes) -> MarketCreated:
    return MarketCreated(
        num(t[32:64]),
        t[76:96],
        d[12:32],
        num(d[32:64]),
        num(d[64:96]),
        num(d[96:128]),
        num(d[128:160]),
        num(d[160:192]),
        num(d[192:224]),
        num(d[224:256]),
    )


def _entered(t: bytes, d: bytes) -> Entered:
    return Entered(num(t[32:64]), num(t[64:96]), t[108:128], d[31], num(d[32:64]), num(d[64:96]))


def _vintage_finalized(t: bytes, d: bytes) -> VintageFinalized:
    return VintageFinalized(
        num(t[32:64]),
        num(t[64:96]),
        num(d[0:32]),
        num(d[32:64]),
        num(d[64:96]),
        num(d[96:128]),
        num(d[128:160]),
        num(d[160:192]),
    )


def _resolved(t: bytes, d: bytes) -> Resolved:
    return Resolved(num(t[32:64]), d[31])


def _voided(t: bytes, _d: bytes) -> Voided:
    return Voided(num(t[32:64]))


def _delivered(t: bytes, d: bytes) -> Delivered:
    return Delivered(num(t[32:64]), t[76:96], num(d[0:32]), num(d[32:64]), num(d[64:96]))


def _delivery_failed(t: bytes, d: bytes) -> DeliveryFailed:
    return DeliveryFailed(num(t[32:64]), t[76:96], num(d))


def _position_transferred(t: bytes, _d: bytes) -> PositionTransferred:
    return PositionTransferred(num(t[32:64]), t[76:96], t[108:128])


def _residue_claimed(t: bytes, d: bytes) -> ResidueClaimed:
    return ResidueClaimed(num(t[32:64]), num(d))


def _fees_swept(_t: bytes, d: bytes) -> FeesSwept:
    return FeesSwept(num(d))


def _entries_paused(_t: bytes, d: bytes) -> EntriesPaused:
    return EntriesPaused(d[31] != 0)


def _spec_registered(t: bytes, d: bytes) -> SpecRegistered:
    return SpecRegistered(
        num(t[32:64]),
        t[64:96],
        d[12:32],
        d[44:64],
        num(d[64:96]),
        num(d[96:128]),
        num(d[128:160]),
        num(d[160:192]),
    )


def _settled(t: bytes, d: bytes) -> Settled:
    return Settled(
        num(t[32:64]),
        d[31],
        d[63],
        num(d[64:96]),
        num(d[96:128], signed=True),
        num(d[128:160]),
        num(d[160:192]),
        num(d[192:224], signed=True),
        num(d[224:256]),
    )


def _market_opened(t: bytes, d: bytes) -> MarketOpened:
    return MarketOpened(
        num(t[32:64]),
        t[64:96],
        t[108:128],
        text(tail(d, 0)),
        d[63],
        num(d[64:96]),
        num(d[96:128]),
        num(d[128:160]),
        num(d[160:192]),
        num(d[192:224]),
    )


def _feed_set(t: bytes, d: bytes) -> FeedSet:
    return FeedSet(t[44:64], t[76:96], text(tail(d, 0)), num(d[32:64]), num(d[64:96]), d[127] != 0)


def _opener_set(t: bytes, d: bytes) -> OpenerSet:
    return OpenerSet(t[44:64], d[31] != 0)


# ---------------------------------------------------------------- layouts

ENTERED = layout(
    "Entered(uint256 indexed marketId, uint256 indexed positionId, address indexed owner, uint8 outcome,"
    " uint256 offered, uint64 vintage)",
    _entered,
    _by_market,
)

SETTLER_EVENTS = by_topic(
    layout(
        "MarketCreated(uint256 indexed marketId, address indexed opener, address resolver, uint64 freezeTime,"
        " uint32 voidDelay, uint16 feeBps, uint32 kappa, uint64 seedPerLeg, uint64 minEntry, uint64 maxEntry)",
        _market_created,
        _by_market,
    ),
    ENTERED,
    layout(
        "VintageFinalized(uint256 indexed marketId, uint64 indexed vintage, uint256 offeredUp, uint256 offeredDown,"
        " uint256 acceptedUp, uint256 acceptedDown, uint256 accUp, uint256 accDown)",
        _vintage_finalized,
        _by_market,
    ),
    layout("Resolved(uint256 indexed marketId, uint8 winner)", _resolved, _by_market),
    layout("Voided(uint256 indexed marketId)", _voided, _by_market),
    layout(
        "Delivered(uint256 indexed positionId, address indexed owner, uint256 payout, uint256 fee, uint256 refund)",
        _delivered,
        _by_position,
    ),
    layout(
        "DeliveryFailed(uint256 indexed positionId, address indexed owner, uint256 amount)",
        _delivery_failed,
        _by_position,
    ),
    layout(
        "PositionTransferred(uint256 indexed positionId, address indexed from, address indexed to)",
        _position_transferred,
        _by_position,
    ),
    layout("ResidueClaimed(uint256 indexed marketId, uint256 amount)", _residue_claimed, _by_market),
    layout("FeesSwept(uint256 amount)", _fees_swept, _by_venue),
    layout("EntriesPaused(bool paused)", _entries_paused, _by_venue),
)

RESOLVER_EVENTS = by_topic(
    layout(
        "SpecRegistered(uint256 indexed marketId, bytes32 indexed specId, address feed, address stockToken,"
        " uint64 strikeTime, uint64 finalTime, uint32 maxStrikeAge, uint32 maxFinalAge)",
        _spec_registered,
        _by_market,
    ),
    layout(
        "Settled(uint256 indexed marketId, uint8 outcome, uint8 reason, uint80 strikeRound, int256 strikeAnswer,"
        " uint256 strikeAt, uint80 finalRound, int256 finalAnswer, uint256 finalAt)",
        _settled,
        _by_market,
    ),
)

LISTER_EVENTS = by_topic(
    layout(
        "MarketOpened(uint256 indexed marketId, bytes32 indexed specId, address indexed feed, string ticker,"
        " uint8 family, uint64 strikeTime, uint64 finalTime, uint64 seedPerLeg, uint64 minEntry, uint64 maxEntry)",
        _market_opened,
        _by_market,
    ),
    layout(
        "FeedSet(address indexed feed, address indexed stockToken, string ticker, uint32 maxStrikeAge,"
        " uint32 maxFinalAge, bool allowed)",
        _feed_set,
        _by_venue,
    ),
    layout("OpenerSet(address indexed opener, bool allowed)", _opener_set, _by_venue),
)
