"""The relayer's settings: fees, limits and waits. Its keys are in `core.config.secrets`."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from core.config.loading import SettingsBase, named_after

Gwei = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=9, description="a number of gwei above 0")]
Ether = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=18, description="an amount of ether above 0")]


class RelayerSettings(SettingsBase):
    """The relayer's fees, limits and waits."""

    model_config = named_after("VPM_RELAYER_")

    # The highest fee per gas; a lane waits while the chain asks for more. Separate for each chain.
    base_max_fee_gwei: Gwei = Decimal(5)
    stock_max_fee_gwei: Gwei = Decimal(5)
    # The same for lanes that carry bets: the smallest bet is a dollar and pays a fee of two cents at any gas price.
    bets_max_fee_gwei: Gwei = Decimal("0.5")
    min_priority_fee_gwei: Gwei = Decimal("0.001")
    max_priority_fee_gwei: Gwei = Decimal(2)
    # Stop-loss: a lane that has spent this much on gas within an hour signs nothing new until older spending expires.
    gas_per_hour_ether: Ether = Decimal("0.5")
    low_balance_ether: Ether = Decimal("0.02")
    max_gas_per_transaction: int = Field(
        default=30_000_000, ge=21_000, le=1_000_000_000, description="gas units of at least 21000"
    )
    # Many nodes keep only a few hundred transactions of one sender; dropped ones are sent again.
    max_in_flight: int = Field(default=1024, ge=1, le=20_000, description="unmined transactions per lane, at least 1")
    batch_size: int = Field(default=200, ge=1, le=1000, description="intents signed in one database transaction")
    # 1 sends each transaction in a separate request, for nodes that refuse JSON-RPC batches.
    rpc_batch_size: int = Field(default=100, ge=1, le=1000, description="requests in one JSON-RPC batch")
    bump_after_seconds: float = Field(default=15.0, gt=0, le=3600, description="a number of seconds above 0")
    resend_after_seconds: float = Field(default=4.0, gt=0, le=3600, description="a number of seconds above 0")
    lease_seconds: float = Field(default=15.0, ge=1, le=300, description="seconds of at least 1")
    # Keys in AWS KMS: each signature is a paid request that takes tens of milliseconds.
    kms_at_once: int = Field(
        default=8, ge=1, le=100, description="signatures requested from one key at a time, 1 to 100"
    )
    kms_patience_seconds: float = Field(
        default=10.0,
        ge=1,
        le=25,
        description="seconds, 1 to 25, for which a signature is requested again before its lane waits",
    )
