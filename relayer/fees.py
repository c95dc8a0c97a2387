"""What a transaction offers for gas: the first quote, and the bump of one that is stuck. Pure; all amounts in wei."""

from __future__ import annotations

from dataclasses import dataclass

from relayer.signing import Fees


@dataclass(frozen=True, slots=True)
class FeePolicy:
    """The bounds of what we offer per gas. cap: the most ever. The priority fee follows the market between its
    bounds."""

    cap_wei: int
    min_priority_wei: int = 1_000_000
    max_priority_wei: int = 5_000_000_000


@dataclass(frozen=True, slots=True)
class FeeMarket:
    """The next block's base fee, and the priority fee that recent blocks took."""

    base_fee_wei: int
    priority_wei: int


def quote(policy: FeePolicy, market: FeeMarket, cap_wei: int | None = None) -> Fees | None:
    """Fees that stay good while the base fee doubles; None when even the next block would cost more than the cap."""
    cap = policy.cap_wei if cap_wei is None else min(cap_wei, policy.cap_wei)
    priority = min(max(market.priority_wei, policy.min_priority_wei), policy.max_priority_wei)
    if market.base_fee_wei + policy.min_priority_wei > cap:
        return None
    max_fee = min(2 * market.base_fee_wei + priority, cap)
    return Fees(max_fee, min(priority, max_fee))


def bump(policy: FeePolicy, market: FeeMarket, old: Fees, cap_wei: int | None = None) -> Fees | None:
    """Fees that replace `old`: both fields at least an eighth higher, as nodes demand, and enough for the market.

    None when that exceeds the cap: then only waiting for the base fee to fall is left.
    """
    cap = policy.cap_wei if cap_wei is None else min(cap_wei, policy.cap_wei)
    least = Fees(_eighth_more(old.max_fee_wei), _eighth_more(old.max_priority_fee_wei))
    if least.max_fee_wei > cap:
        return None
    quoted = quote(policy, market, cap)
    if quoted is None:
        return None
    max_fee = max(least.max_fee_wei, quoted.max_fee_wei)
    # The priority fee may never exceed the whole; `least` is within it because `old` was.
    priority = max(least.max_priority_fee_wei, quoted.max_priority_fee_wei)
    return Fees(max_fee, min(priority, max_fee))


def most(policy: FeePolicy, old: Fees) -> Fees:
    """The most that may be offered in place of `old`. A node that still has `old` may find it too little."""
    return Fees(policy.cap_wei, min(_eighth_more(old.max_priority_fee_wei), policy.cap_wei))


def expected_price(fees: Fees, market: FeeMarket) -> int:
    """What a unit of gas will probably cost; never more than offered."""
    return min(fees.max_fee_wei, market.base_fee_wei + fees.max_priority_fee_wei)


def _eighth_more(value: int) -> int:
    """Strictly at least 12.5% more, rounded up; a zero becomes 1."""
    return value + -(-value // 8) + (1 if value == 0 else 0)
