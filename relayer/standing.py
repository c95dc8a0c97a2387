"""May a lane sign anything new? Pure; amounts in wei. What is in flight is followed whatever the answer."""

from __future__ import annotations

from dataclasses import dataclass

from core.outbox.lanes import LaneStatus

_ETHER = 10**18


@dataclass(frozen=True, slots=True)
class LaneStanding:
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


def lane_status(standing: LaneStanding) -> tuple[LaneStatus, str]:
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
