"""The keeper's settings. Waits that protect money are not configurable."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from core.config.loading import SettingsBase, named_after

Interval = Annotated[float, Field(gt=0, le=86_400, description="a number of seconds above 0")]


class KeeperSettings(SettingsBase):
    """The keeper's settings."""

    model_config = named_after("VPM_KEEPER_")

    # How often jobs run
    settle_every_seconds: Interval = 10.0
    list_every_seconds: Interval = 30.0
    snapshot_every_seconds: Interval = 60.0
    canary_every_seconds: Interval = 240.0

    # Stock markets. A daily market is listed about when the session before it ends, a weekly one over the weekend.
    daily_lead_seconds: int = Field(default=18 * 3600, ge=300, le=172_800, description="seconds from 300 to 172800")
    weekly_lead_seconds: int = Field(default=72 * 3600, ge=300, le=604_800, description="seconds from 300 to 604800")
    sweep_from_units: int = Field(default=10_000_000, ge=1, description="token units, 1000000 being one dollar")

    # How long finished transactions are kept whole; afterwards only what prevents a second sending. The agent API uses
    # them to tell which payouts of the last week we made.
    keep_days: int = Field(default=90, ge=8, le=36_500, description="a number of days from 8 on")

    # Agent markets
    sources_file: Path | None = Field(
        default=None, description="the path of a TOML file, see keeper/sources/settings.py"
    )
    list_series: bool | None = Field(
        default=None,
        description="1 to list the standing series of agent markets, 0 not to; unset: on local deployments only",
    )
    round_seconds: int = Field(
        default=3600, ge=300, le=86_400, description="the length of up/down rounds, 300 to 86400 seconds"
    )
    # Within the Safe's bounds. More weight makes prices move less, at the cost of bettors in one-sided markets.
    weight_units: int = Field(
        default=10 * 10**6,
        ge=1,
        le=2**32 - 1,
        description="the average virtual weight of an outcome in token units, 1000000 being one dollar",
    )
    pool_outage_seconds: Annotated[int, Field(ge=0, le=64_800)] | None = Field(
        default=None,
        description="how long an outage the pools must remember, 0 to 64800 seconds, 0 leaves them unchanged; "
        "default 43200, on local deployments 3600",
    )
    watch_caps: bool | None = Field(
        default=None,
        description="1 to list only on pool feeds whose pools support 70% of the cap, 0 on all; "
        "unset: 1, on local deployments 0",
    )
    canary: bool = Field(default=True, description="1 to quote and trade (simulated) through VPM_PUBLIC_URL")

    # Local deployments only
    local_drills: bool = Field(default=True, description="1 to keep listing short markets on local deployments")
    local_prices: bool = Field(default=True, description="1 to move the price feeds of local deployments")
