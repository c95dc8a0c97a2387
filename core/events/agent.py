"""The settlement wallet's events.

Amounts and shares are token units (6 decimals), feed values have 8 decimals, times are Unix seconds. Market ids are 32
bytes, addresses 20. `t` is the joined topics, `d` the data.
"""

from __future__ import annotations

import msgspec
from eth_abi.abi import decode as abi_decode
from eth_abi.exceptions import DecodingError

from core.events.layout import UndecodableLog, by_topic, layout, num, tail, text

AGENT_MARKET = b"a"
"""Entity: everything about one market, `a` and the market's id."""
AGENT_VENUE = b"w"
"""Entity: what belongs to no market: roles, the pause, fee sweeps."""

SPEC_TYPE = "(uint8,address,int256,int256[],bool,uint64,uint64,uint64,uint32,uint32,uint16,uint8,uint64)"


class MarketSpec(msgspec.Struct, frozen=True):
    """kind 0 threshold, 1 range, 2 direction."""

    kind: int
    feed: bytes
    target: int
    bounds: tuple[int, ...]
    early_resolvable: bool
    opens_at: int
    closes_at: int
    start_at: int
    max_age: int
    void_delay: int
    fee_bps: int
    outcomes: int
    virtual_liquidity: int


class MarketListed(msgspec.Struct, frozen=True):
    market_id: bytes
    spec: MarketSpec
    metadata: str


class Staked(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    stake_id: int
    wallet: bytes
    outcome: int
    amount: int
    fee: int
    shares: int
    intent_hash: bytes
    idem_hash: bytes
    builder: bytes
    ref: bytes


class RefundBooked(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    stake_id: int
    wallet: bytes
    amount: int
    reason: int
    intent_hash: bytes
    idem_hash: bytes


class MarketResolved(msgspec.Struct, frozen=True, gc=False):
    market_id: bytes
    outcome: int
    observed: int
    round_id: int
    observed_at: int


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


# ---------------------------------------------------------------- entities


def market_entity(market_id: bytes) -> bytes:
    return AGENT_MARKET + market_id


def _by_market(t: bytes, _d: bytes) -> bytes:
    return AGENT_MARKET + t[32:64]


def _by_venue(_t: bytes, _d: bytes) -> bytes:
    return AGENT_VENUE


# ---------------------------------------------------------------- decoders


def _market_listed(t: bytes, d: bytes) -> MarketListed:
    # Listed once per market: here the general decoder costs nothing, and the specification is a nested struct.
    try:
        (spec,) = abi_decode([SPEC_TYPE], tail(d, 5))
    except (DecodingError, OverflowError) as error:
        raise UndecodableLog(f"MarketListed: its specification cannot be read: {error}.") from None
    kind, feed, target, bounds, *rest = spec
    return MarketListed(
        t[32:64], MarketSpec(kind, bytes.fromhex(feed[2:]), target, tuple(bounds), *rest), text(tail(d, 6))
    )


def _staked(t: bytes, d: bytes) -> Staked:
    return Staked(
        t[32:64],
        num(t[64:96]),
        t[108:128],
        d[31],
        num(d[32:64]),
        num(d[64:96]),
        num(d[96:128]),
        d[128:160],
        d[160:192],
        d[204:224],
        d[224:256],
    )


def _refund_booked(t: bytes, d: bytes) -> RefundBooked:
    return RefundBooked(t[32:64], num(t[64:96]), t[108:128], num(d[0:32]), d[63], d[64:96], d[96:128])


def _market_resolved(t: bytes, d: bytes) -> MarketResolved:
    return MarketResolved(t[32:64], d[31], num(d[32:64], signed=True), num(d[64:96]), num(d[96:128]))


def _market_voided(t: bytes, d: bytes) -> MarketVoided:
    return MarketVoided(t[32:64], d[31])


def _paid(t: bytes, d: bytes) -> Paid:
    return Paid(t[32:64], num(t[64:96]), t[108:128], num(d[0:32]), d[63] != 0)


def _payout_failed(t: bytes, d: bytes) -> PayoutFailed:
    return PayoutFailed(t[32:64], num(t[64:96]), t[108:128], num(d))


def _fees_swept(_t: bytes, d: bytes) -> WalletFeesSwept:
    return WalletFeesSwept(num(d))


def _stakes_paused(_t: bytes, d: bytes) -> StakesPaused:
    return StakesPaused(d[31] != 0)


def _role_set(t: bytes, d: bytes) -> RoleSet:
    return RoleSet(t[32:64], t[76:96], d[31] != 0)


# ---------------------------------------------------------------- layouts

WALLET_EVENTS = by_topic(
    layout(
        "MarketListed(bytes32 indexed marketId, uint8 kind, address indexed feed, uint64 closesAt, uint16 feeBps,"
        " uint8 outcomes, uint64 virtualLiquidity, bytes spec, string metadata)",
        _market_listed,
        _by_market,
    ),
    layout(
        "Staked(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint8 outcome,"
        " uint256 amount, uint256 fee, uint256 shares, bytes32 intentHash, bytes32 idemHash, address builder,"
        " bytes32 ref)",
        _staked,
        _by_market,
    ),
    layout(
        "RefundBooked(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount,"
        " uint8 reason, bytes32 intentHash, bytes32 idemHash)",
        _refund_booked,
        _by_market,
    ),
    layout(
        "MarketResolved(bytes32 indexed marketId, uint8 outcome, int256 observed, uint80 round, uint256 observedAt)",
        _market_resolved,
        _by_market,
    ),
    layout("MarketVoided(bytes32 indexed marketId, uint8 reason)", _market_voided, _by_market),
    layout(
        "Paid(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount, bool refund)",
        _paid,
        _by_market,
    ),
    layout(
        "PayoutFailed(bytes32 indexed marketId, uint256 indexed stakeId, address indexed wallet, uint256 amount)",
        _payout_failed,
        _by_market,
    ),
    layout("FeesSwept(uint256 amount)", _fees_swept, _by_venue),
    layout("StakesPaused(bool paused)", _stakes_paused, _by_venue),
    layout("RoleSet(bytes32 indexed role, address indexed account, bool allowed)", _role_set, _by_venue),
)
