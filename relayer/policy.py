"""A lane's limits from the settings, and whether it may sign anything new (pure; amounts in wei)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from core.chain.contract import CustomError
from core.config import ChainName, RelayerSettings
from core.outbox.lanes import RELAY, LaneStatus
from relayer.fees import FeePolicy
from relayer.transaction import Patience

_ETHER = 10**18


@dataclass(frozen=True, slots=True)
class LanePolicy:
    """A lane's limits. bets_cap_wei: the most offered per gas by a lane that carries bets, if less than by others.
    gas_per_hour_wei: the stop-loss per lane. low_balance_wei: below it a warning. errors: custom errors by selector, to
    say in words why a call reverts."""

    fees: FeePolicy
    patience: Patience
    bets_cap_wei: int | None = None
    max_in_flight: int = 1024
    batch_size: int = 200
    rpc_batch_size: int = 100
    max_gas: int = 30_000_000
    gas_per_hour_wei: int = 10**18
    low_balance_wei: int = 10**16
    watch_seconds: float = 5.0
    defer_seconds: float = 2.0
    errors: Mapping[bytes, CustomError] = field(default_factory=dict, repr=False)

    def for_groups(self, groups: Collection[str]) -> LanePolicy:
        """That of a lane which serves these groups."""
        if self.bets_cap_wei is None or RELAY not in groups:
            return self
        return replace(self, fees=replace(self.fees, cap_wei=min(self.fees.cap_wei, self.bets_cap_wei)))


def policy_of(settings: RelayerSettings, chain: ChainName, errors: Mapping[bytes, CustomError]) -> LanePolicy:
    cap = settings.base_max_fee_gwei if chain == "base" else settings.stock_max_fee_gwei
    return LanePolicy(
        fees=FeePolicy(_gwei(cap), _gwei(settings.min_priority_fee_gwei), _gwei(settings.max_priority_fee_gwei)),
        bets_cap_wei=_gwei(settings.bets_max_fee_gwei),
        patience=Patience(settings.resend_after_seconds, settings.bump_after_seconds),
        max_in_flight=settings.max_in_flight,
        batch_size=settings.batch_size,
        rpc_batch_size=settings.rpc_batch_size,
        max_gas=settings.max_gas_per_transaction,
        gas_per_hour_wei=int(settings.gas_per_hour_ether * 10**18),
        low_balance_wei=int(settings.low_balance_ether * 10**18),
        errors=errors,
    )


def _gwei(amount: Decimal) -> int:
    return int(amount * 10**9)


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    """What decides whether a lane may sign.

    `balance_wei` None: not read yet. `worst_cost_wei`: of all in flight, value included. `spent_wei`: on gas in the
    last hour; `expected_wei`: on gas of all in flight. A `base_fee_wei` above `fee_cap_wei` means that no new
    transaction could be mined.
    """

    node_down: bool
    base_fee_wei: int
    fee_cap_wei: int
    balance_wei: int | None
    worst_cost_wei: int
    spent_wei: int
    expected_wei: int
    hourly_limit_wei: int
    in_flight: int
    max_in_flight: int
    out_of_funds: str | None = None
    signer_trouble: str | None = None


def lane_status(standing: LaneSnapshot) -> tuple[LaneStatus, str]:
    """(status, a sentence). The first reason that holds, the most serious first."""
    if standing.node_down:
        return LaneStatus.NODE_DOWN, "No RPC URL of the chain answers."
    if standing.signer_trouble is not None:
        return LaneStatus.SIGNER_DOWN, standing.signer_trouble
    if standing.out_of_funds is not None:
        return LaneStatus.OUT_OF_GAS, standing.out_of_funds
    if standing.balance_wei is None:
        return LaneStatus.STARTING, "The balance is not known yet."
    if standing.balance_wei == 0 or standing.balance_wei < standing.worst_cost_wei:
        has, may = standing.balance_wei / _ETHER, standing.worst_cost_wei / _ETHER
        return LaneStatus.OUT_OF_GAS, f"The key holds {has:.6f} ether, and what is in flight may cost {may:.6f}."
    if standing.spent_wei + standing.expected_wei >= standing.hourly_limit_wei:
        spent, limit = standing.spent_wei / _ETHER, standing.hourly_limit_wei / _ETHER
        return LaneStatus.STOP_LOSS, f"{spent:.6f} ether went to gas within an hour; the limit is {limit:.6f}."
    if standing.base_fee_wei > standing.fee_cap_wei:
        base, cap = standing.base_fee_wei / 1e9, standing.fee_cap_wei / 1e9
        return LaneStatus.FEES_TOO_HIGH, f"The base fee is {base:.3f} gwei, above our cap of {cap:.3f}."
    if standing.in_flight >= standing.max_in_flight:
        return LaneStatus.FULL, f"{standing.in_flight} transactions are in flight, as many as allowed."
    return LaneStatus.READY, ""
