"""How lanes of one chain behave, as one frozen object made from the settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from core.chain.contract import CustomError
from core.config import ChainName, RelayerSettings
from core.outbox.lanes import RELAY
from relayer.fees import FeePolicy
from relayer.transaction import Patience


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
