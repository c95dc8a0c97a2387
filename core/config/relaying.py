"""How the relayer sends: fees, limits and patience. Its keys are in `core.config.secrets`."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import Field

from core.config.loading import SettingsBase
from core.config.values import KeyServiceUrl

Gwei = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=9)]
Ether = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=18)]


class RelayerSettings(SettingsBase):
    """What the relayer pays at most and how patient it is."""

    # The most ever offered per gas: above it a lane waits. Stock chain and Base are priced apart.
    base_max_fee_gwei: Gwei = Field(
        default=Decimal(20), alias="VPM_RELAYER_BASE_MAX_FEE_GWEI", description="a number of gwei above 0"
    )
    stock_max_fee_gwei: Gwei = Field(
        default=Decimal(20), alias="VPM_RELAYER_STOCK_MAX_FEE_GWEI", description="a number of gwei above 0"
    )
    min_priority_fee_gwei: Gwei = Field(
        default=Decimal("0.001"), alias="VPM_RELAYER_MIN_PRIORITY_FEE_GWEI", description="a number of gwei above 0"
    )
    max_priority_fee_gwei: Gwei = Field(
        default=Decimal(2), alias="VPM_RELAYER_MAX_PRIORITY_FEE_GWEI", description="a number of gwei above 0"
    )
    # Stop-loss: a lane that spent this much on gas within an hour signs nothing new until some of it is an hour old.
    gas_per_hour_ether: Ether = Field(
        default=Decimal("0.5"), alias="VPM_RELAYER_GAS_PER_HOUR_ETHER", description="an amount of ether above 0"
    )
    low_balance_ether: Ether = Field(
        default=Decimal("0.02"), alias="VPM_RELAYER_LOW_BALANCE_ETHER", description="an amount of ether above 0"
    )
    max_gas_per_transaction: Annotated[int, Field(ge=21_000, le=1_000_000_000)] = Field(
        default=30_000_000, alias="VPM_RELAYER_MAX_GAS_PER_TRANSACTION", description="gas units of at least 21000"
    )
    # Many nodes keep only some hundreds of one sender's transactions; ours are resent should they drop any.
    max_in_flight: Annotated[int, Field(ge=1, le=20_000)] = Field(
        default=1024, alias="VPM_RELAYER_MAX_IN_FLIGHT", description="unmined transactions per lane, at least 1"
    )
    batch_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=200, alias="VPM_RELAYER_BATCH_SIZE", description="intents signed in one database transaction"
    )
    # JSON-RPC batches: 1 sends each transaction in a request of its own, for nodes that refuse batches.
    rpc_batch_size: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=100, alias="VPM_RELAYER_RPC_BATCH_SIZE", description="requests in one JSON-RPC batch"
    )
    bump_after_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=15.0, alias="VPM_RELAYER_BUMP_AFTER_SECONDS", description="a number of seconds above 0"
    )
    resend_after_seconds: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=4.0, alias="VPM_RELAYER_RESEND_AFTER_SECONDS", description="a number of seconds above 0"
    )
    lease_seconds: Annotated[float, Field(ge=1, le=300)] = Field(
        default=15.0, alias="VPM_RELAYER_LEASE_SECONDS", description="seconds of at least 1"
    )
    # Keys in a cloud's key service: each signature is a request that takes tens of milliseconds, and is paid for.
    kms_at_once: Annotated[int, Field(ge=1, le=100)] = Field(
        default=8, alias="VPM_RELAYER_KMS_AT_ONCE", description="signatures asked of one key at a time, 1 to 100"
    )
    kms_patience_seconds: Annotated[float, Field(ge=1, le=25)] = Field(
        default=10.0,
        alias="VPM_RELAYER_KMS_PATIENCE_SECONDS",
        description="seconds, 1 to 25, in which a signature is asked for again before its lane waits",
    )
    gcp_kms_url: KeyServiceUrl = Field(
        default="https://cloudkms.googleapis.com",
        alias="VPM_RELAYER_GCP_KMS_URL",
        description="the https address of Cloud KMS, if it is a private one of yours",
    )
