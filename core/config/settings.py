"""The settings that all daemons share, and those of individual daemons.

To add a setting, add a field. The setting's variable is the class's prefix followed by the field's name in capitals. In
error messages, the field's description follows the word "expected". A duration's name ends with its unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from core.config.lanes import LaneKeys, LaneKeystores
from core.config.loading import SettingsBase, variables_with_prefix
from core.config.values import (
    DatabaseUrl,
    HttpUrls,
    HttpUrlText,
    NetworkName,
    Port,
    PrivateKey,
    Regions,
    UtcTime,
    WsUrls,
)
from core.paths import REPOSITORY

ChainName = Literal["base", "stock"]
CHAIN_NAMES: tuple[ChainName, ...] = ("base", "stock")

Finality = Annotated[int, Field(ge=1, le=100_000, description="a number of blocks, at least 1")]
PollInterval = Annotated[int, Field(ge=50, le=60_000, description="50 to 60000 milliseconds")]
Timeout = Annotated[float, Field(gt=0, le=120, description="a number of seconds above 0")]


@dataclass(frozen=True, slots=True)
class ChainSettings:
    name: ChainName
    rpc_urls: tuple[str, ...] = field(repr=False)
    ws_urls: tuple[str, ...] = field(repr=False)
    deployment_file: Path
    finality_blocks: int
    poll_interval_ms: int


class Settings(SettingsBase):
    """The settings that every process reads."""

    model_config = variables_with_prefix("VPM_")

    # Database
    database_url: DatabaseUrl = Field(
        alias="DATABASE_URL",
        description="a URL like postgresql://user:password@host:5432/vpm; for several hosts, one:5432,two:5432",
    )
    database_read_url: DatabaseUrl | None = Field(
        default=None, alias="DATABASE_READ_URL", description="the URL of a read replica"
    )
    database_pool_size: int = Field(default=6, ge=1, le=64, description="1 to 64 connections per pool, best 4 to 8")
    database_connect_timeout_seconds: Timeout = 5.0

    # Chains
    base_rpc_urls: HttpUrls = ()
    base_ws_urls: WsUrls = ()
    stock_rpc_urls: HttpUrls = ()
    stock_ws_urls: WsUrls = ()
    deployments_dir: Path = Field(default=REPOSITORY / "deployments", description="a folder with deployment files")
    base_network: NetworkName = "base"
    stock_network: NetworkName = "stock"
    # Blocks this deep are final: 64 Base blocks are 128 s, 512 stock-chain blocks about as long.
    base_finality_blocks: Finality = 64
    stock_finality_blocks: Finality = 512
    base_poll_interval_ms: PollInterval = 1000
    stock_poll_interval_ms: PollInterval = 1000
    rpc_timeout_seconds: Timeout = 10.0
    # Reads during a request get less time: a page must not wait for a slow node.
    rpc_request_path_timeout_seconds: float = Field(default=2.0, gt=0, le=30, description="a number of seconds above 0")

    # HTTP
    host: str = Field(default="127.0.0.1", description="a host to listen on, like 0.0.0.0")
    port: Port = 8400
    public_url: HttpUrlText = Field(
        default="http://127.0.0.1:8400", description="the service's public URL, like https://example.org"
    )
    metrics_host: str = Field(default="127.0.0.1", description="a host for /metrics, /health and /ready to listen on")
    api_metrics_port: Port = 8401
    indexer_metrics_port: Port = 8402
    keeper_metrics_port: Port = 8403
    relayer_metrics_port: Port = 8404

    # Access in and out
    trust_proxy: bool = Field(default=False, description="1 behind a trusted proxy, otherwise 0")
    proxy_hops: int = Field(
        default=1, ge=1, le=8, description="the number of your proxies that add to X-Forwarded-For, 1 to 8"
    )
    region_header: str = Field(
        default="CF-IPCountry",
        pattern=r"^[A-Za-z0-9-]{1,64}$",
        description="the header in which the proxy sends the country",
    )
    blocked_regions: Regions = Field(
        default=("US", "CA", "GB", "CH"), description="two-letter country codes, separated by commas"
    )
    allow_private_webhooks: bool = Field(default=False, description="1 for local development, otherwise 0")
    agent_stream_seconds: float = Field(
        default=300.0, gt=0, le=3_600, description="seconds until an event stream closes, above 0"
    )
    limits_storage_url: SecretStr = Field(
        default=SecretStr("memory://"), description="memory:// or a Redis URL as in the documentation of `limits`"
    )

    # Trades and relayed bets that one process checks at once; others must be retried. Those that wait for their block
    # do not count.
    payments_in_hand: int = Field(default=64, ge=3, le=10_000, description="a number of payments, at least 3")
    # With more bets than this queued or in flight, the relay returns `busy`.
    relay_busy_above: int = Field(default=200, ge=0, le=100_000, description="how many bets may wait at once")

    # Switches
    trading_paused: bool = Field(default=False, description="1 to refuse every trade of the agent API, otherwise 0")
    agent_enabled: bool = Field(default=True, description="1 to serve the agent API, 0 to return 404")
    cup_opens_at: UtcTime | None = Field(default=None, description="a time like 2026-11-21T00:00:00Z")
    cup_closes_at: UtcTime | None = Field(default=None, description="a time like 2026-12-21T00:00:00Z")

    # Logs and stopping
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="DEBUG, INFO, WARNING or ERROR"
    )
    log_format: Literal["json", "console"] = Field(default="json", description="json or console")
    stop_grace_seconds: float = Field(
        default=10.0, ge=0, le=300, description="seconds for tasks to clean up after SIGTERM"
    )

    @model_validator(mode="after")
    def _check_cup_window(self) -> Self:
        if (self.cup_opens_at is None) != (self.cup_closes_at is None):
            raise ValueError("Only one of VPM_CUP_OPENS_AT and VPM_CUP_CLOSES_AT is set: set both or neither")
        if self.cup_opens_at and self.cup_closes_at and self.cup_opens_at >= self.cup_closes_at:
            raise ValueError("VPM_CUP_CLOSES_AT must be later than VPM_CUP_OPENS_AT")
        return self

    def chain(self, name: ChainName) -> ChainSettings:
        """Return the settings of one chain. RPC URLs may be missing: only code that needs one should refuse to run."""
        return ChainSettings(
            name=name,
            rpc_urls=getattr(self, f"{name}_rpc_urls"),
            ws_urls=getattr(self, f"{name}_ws_urls"),
            deployment_file=self.deployments_dir / f"{getattr(self, f'{name}_network')}.json",
            finality_blocks=getattr(self, f"{name}_finality_blocks"),
            poll_interval_ms=getattr(self, f"{name}_poll_interval_ms"),
        )

    @property
    def read_url(self) -> SecretStr:
        return self.database_read_url or self.database_url


Interval = Annotated[float, Field(gt=0, le=86_400, description="a number of seconds above 0")]


class KeeperSettings(SettingsBase):
    model_config = variables_with_prefix("VPM_KEEPER_")

    # How often jobs run
    settle_every_seconds: Interval = 10.0
    list_every_seconds: Interval = 30.0
    snapshot_every_seconds: Interval = 60.0
    canary_every_seconds: Interval = 240.0

    # Stock markets. A daily market is listed about when the session before it ends, a weekly one over the weekend.
    daily_lead_seconds: int = Field(default=18 * 3600, ge=300, le=172_800, description="300 to 172800 seconds")
    weekly_lead_seconds: int = Field(default=72 * 3600, ge=300, le=604_800, description="300 to 604800 seconds")
    sweep_from_units: int = Field(default=10_000_000, ge=1, description="token units (1000000 per dollar)")

    # How long finished transactions are kept whole; later only their keys and outcomes remain, so that none is sent
    # twice. The agent API needs a week of them to know which payouts we sent.
    keep_days: int = Field(default=90, ge=8, le=36_500, description="a number of days, at least 8")

    # Agent markets
    sources_file: Path | None = Field(
        default=None, description="the path of a TOML file like deployments/sources.example.toml"
    )
    list_series: bool | None = Field(
        default=None, description="1 to list the standing series of agent markets, otherwise 0; unset: 1 if local"
    )
    round_seconds: int = Field(
        default=3600, ge=300, le=86_400, description="the length of an up/down round, 300 to 86400 seconds"
    )
    # Within the Safe's bounds. More weight makes prices move less, at the cost of bettors in one-sided markets.
    weight_units: int = Field(
        default=10 * 10**6,
        ge=1,
        le=2**32 - 1,
        description="an outcome's average virtual weight in token units (1000000 per dollar)",
    )
    pool_outage_seconds: Annotated[int, Field(ge=0, le=64_800)] | None = Field(
        default=None,
        description="the longest outage that the pools' history must cover, 0 to 64800 seconds; 0 leaves the history "
        "as it is; unset: 43200, or 3600 if local",
    )
    watch_caps: bool | None = Field(
        default=None,
        description="1 to list only on pool feeds whose pools support 70% of the cap, 0 to list on all; "
        "unset: 0 if local, otherwise 1",
    )
    canary: bool = Field(default=True, description="1 to quote and simulate trades through VPM_PUBLIC_URL, otherwise 0")

    # Local deployments only
    local_drills: bool = Field(default=True, description="1 to keep listing short markets locally, otherwise 0")
    local_prices: bool = Field(default=True, description="1 to move local price feeds, otherwise 0")


Gwei = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=9, description="a number of gwei above 0")]
Ether = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=18, description="an amount of ether above 0")]
Wait = Annotated[float, Field(gt=0, le=3600, description="a number of seconds above 0")]


class RelayerSettings(SettingsBase):
    model_config = variables_with_prefix("VPM_RELAYER_")

    # The highest fee per gas on each chain; a lane waits while the chain's fee is higher.
    base_max_fee_gwei: Gwei = Decimal(5)
    stock_max_fee_gwei: Gwei = Decimal(5)
    # The highest fee per gas for bets: the smallest bet is a dollar and pays a fee of two cents at any gas price.
    bets_max_fee_gwei: Gwei = Decimal("0.5")
    min_priority_fee_gwei: Gwei = Decimal("0.001")
    max_priority_fee_gwei: Gwei = Decimal(2)
    # Stop-loss: a lane that has spent this much on gas within an hour signs nothing new until older spending expires.
    gas_per_hour_ether: Ether = Decimal("0.5")
    max_gas_per_transaction: int = Field(
        default=30_000_000, ge=21_000, le=1_000_000_000, description="gas units, at least 21000"
    )
    # Many nodes keep only a few hundred transactions of one sender; dropped ones are sent again.
    max_in_flight: int = Field(default=1024, ge=1, le=20_000, description="unmined transactions per lane, at least 1")
    batch_size: int = Field(default=200, ge=1, le=1000, description="1 to 1000 intents per database transaction")
    # 1 sends each transaction in a separate request, for nodes that refuse JSON-RPC batches.
    rpc_batch_size: int = Field(default=100, ge=1, le=1000, description="1 to 1000 requests per JSON-RPC batch")
    bump_after_seconds: Wait = 15.0
    resend_after_seconds: Wait = 4.0
    lease_seconds: float = Field(default=15.0, ge=1, le=300, description="1 to 300 seconds")
    # Each signature of a key in AWS KMS is a paid request that takes tens of milliseconds.
    kms_at_once: int = Field(default=8, ge=1, le=100, description="1 to 100 concurrent signatures per key")
    kms_patience_seconds: float = Field(
        default=10.0, ge=1, le=25, description="1 to 25 seconds of retrying a failed signature before its lane waits"
    )


class ApiSecrets(SettingsBase):
    """The secrets of the API process. None of its keys can move money on a live chain."""

    model_config = variables_with_prefix("VPM_")

    cron_secret: Annotated[SecretStr, Field(min_length=16)] | None = Field(
        default=None, alias="CRON_SECRET", description="at least 16 random characters; unset: cron requests are refused"
    )
    attestation_key: PrivateKey | None = Field(
        default=None, description="0x and 64 hexadecimal digits; signs offers, receipts and callbacks"
    )
    demo_wallet_key: PrivateKey | None = Field(
        default=None,
        description="0x and 64 hexadecimal digits; local pages give this key to every visitor",
    )


class RelayerSecrets(SettingsBase):
    """The keys that send transactions. Plain keys are for development; in production, use keystore files or AWS KMS."""

    model_config = variables_with_prefix("VPM_RELAYER_")

    lane_keys: LaneKeys = Field(
        default=(),
        alias="VPM_RELAYER_KEYS",
        description="private keys of 0x and 64 hexadecimal digits, separated by commas, each with an optional "
        "prefix chain:group+group=",
    )
    keystore_files: LaneKeystores = Field(
        default=(),
        alias="VPM_RELAYER_KEYSTORES",
        description="paths of encrypted keystore files or aws-kms://REGION/alias/NAME#ADDRESS, separated by commas, "
        "each with an optional prefix chain:group+group=",
    )
    keystore_password_file: Path | None = Field(default=None, description="a file with the keystores' password")

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if self.lane_keys and self.keystore_files:
            raise ValueError("VPM_RELAYER_KEYS and VPM_RELAYER_KEYSTORES are both set: set only one of them")
        files = [each.place for each in self.keystore_files if isinstance(each.place, Path)]
        if files and self.keystore_password_file is None:
            raise ValueError("VPM_RELAYER_KEYSTORES names files: set VPM_RELAYER_KEYSTORE_PASSWORD_FILE too")
        return self
