"""The settings that all daemons share, and those of single daemons.

To add a setting, add a field. Its variable is the class's prefix followed by the field's name in capitals. Its
description says what to write, and ends the error message. The name of a duration ends with its unit. Each process has
its own class of secrets; load such a class only in its process.
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


@dataclass(frozen=True, slots=True)
class ChainSettings:
    """The settings of one chain. Its contracts are in `deployment_file`."""

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
        description="a URL like postgresql://user:password@host:5432/vpm; several hosts as one:5432,two:5432",
    )
    database_read_url: DatabaseUrl | None = Field(
        default=None, alias="DATABASE_READ_URL", description="the URL of a read replica, or leave it unset"
    )
    database_pool_size: int = Field(default=6, ge=1, le=64, description="connections per pool, 4 to 8 being best")
    database_connect_timeout_seconds: float = Field(
        default=5.0, gt=0, le=120, description="a number of seconds above 0"
    )

    # Chains. Node URLs often contain an API key, so they stay out of repr.
    base_rpc_urls: HttpUrls = Field(
        default=(), repr=False, description="http(s) URLs of Base nodes, separated by commas"
    )
    base_ws_urls: WsUrls = Field(default=(), repr=False, description="ws(s) URLs of Base nodes, separated by commas")
    stock_rpc_urls: HttpUrls = Field(
        default=(), repr=False, description="http(s) URLs of stock-chain nodes, separated by commas"
    )
    stock_ws_urls: WsUrls = Field(
        default=(), repr=False, description="ws(s) URLs of stock-chain nodes, separated by commas"
    )
    deployments_dir: Path = Field(default=REPOSITORY / "deployments", description="a folder with deployment files")
    base_network: NetworkName = Field(
        default="base", description="the name of a file in VPM_DEPLOYMENTS_DIR without .json"
    )
    stock_network: NetworkName = Field(
        default="stock", description="the name of a file in VPM_DEPLOYMENTS_DIR without .json"
    )
    # Blocks this deep are final: 64 Base blocks are 128 s, 512 stock-chain blocks about as long.
    base_finality_blocks: int = Field(default=64, ge=1, le=100_000, description="a number of blocks of at least 1")
    stock_finality_blocks: int = Field(default=512, ge=1, le=100_000, description="a number of blocks of at least 1")
    base_poll_interval_ms: int = Field(default=1000, ge=50, le=60_000, description="milliseconds between 50 and 60000")
    stock_poll_interval_ms: int = Field(default=1000, ge=50, le=60_000, description="milliseconds between 50 and 60000")
    rpc_timeout_seconds: float = Field(default=10.0, gt=0, le=120, description="a number of seconds above 0")
    # Reads while a request waits get less time: a page must not wait for a slow node.
    rpc_request_path_timeout_seconds: float = Field(default=2.0, gt=0, le=30, description="a number of seconds above 0")

    # HTTP
    host: str = Field(default="127.0.0.1", description="an address to listen on, like 0.0.0.0")
    port: Port = 8400
    public_url: HttpUrlText = Field(
        default="http://127.0.0.1:8400",
        description="the address people and agents reach the service at, like https://example.org",
    )
    metrics_host: str = Field(default="127.0.0.1", description="an address for /metrics, /health and /ready")
    api_metrics_port: Port = 8401
    indexer_metrics_port: Port = 8402
    keeper_metrics_port: Port = 8403
    relayer_metrics_port: Port = 8404

    # Access in and out
    trust_proxy: bool = Field(default=False, description="1 behind a trusted proxy, else 0")
    proxy_hops: int = Field(
        default=1, ge=1, le=8, description="how many of your proxies a request passes; each adds to X-Forwarded-For"
    )
    region_header: str = Field(
        default="CF-IPCountry", pattern=r"^[A-Za-z0-9-]{1,64}$", description="a header name the proxy sets"
    )
    blocked_regions: Regions = Field(
        default=("US", "CA", "GB", "CH"), description="two-letter country codes, separated by commas"
    )
    allow_private_webhooks: bool = Field(default=False, description="1 for local work, else 0")
    agent_stream_seconds: float = Field(
        default=300.0, gt=0, le=3_600, description="how long an event stream stays open, a number of seconds above 0"
    )
    limits_storage_url: SecretStr = Field(
        default=SecretStr("memory://"), description="memory:// or a Redis URL the limits library understands"
    )

    # Trades and relayed bets that one process checks at once; others get an answer to retry. Those that wait for their
    # block do not count.
    payments_in_hand: int = Field(default=64, ge=3, le=10_000, description="a number of payments of at least 3")
    # With more bets than this queued or in flight, the relay answers `busy`.
    relay_busy_above: int = Field(default=200, ge=0, le=100_000, description="a number of bets that may wait at once")

    # Switches
    trading_paused: bool = Field(default=False, description="1 to refuse every real trade of the agent API, else 0")
    agent_enabled: bool = Field(default=True, description="1 to serve the agent API, 0 to answer 404")
    cup_opens_at: UtcTime | None = Field(default=None, description="a time like 2026-11-21T00:00:00Z")
    cup_closes_at: UtcTime | None = Field(default=None, description="a time like 2026-12-21T00:00:00Z")

    # Logs and stopping
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="DEBUG, INFO, WARNING or ERROR"
    )
    log_format: Literal["json", "console"] = Field(default="json", description="json or console")
    stop_grace_seconds: float = Field(
        default=10.0, ge=0, le=300, description="seconds tasks get to finish after SIGTERM"
    )

    @model_validator(mode="after")
    def _check_cup_window(self) -> Self:
        if (self.cup_opens_at is None) != (self.cup_closes_at is None):
            raise ValueError("VPM_CUP_OPENS_AT and VPM_CUP_CLOSES_AT belong together: set both or neither")
        if self.cup_opens_at and self.cup_closes_at and self.cup_opens_at >= self.cup_closes_at:
            raise ValueError("VPM_CUP_CLOSES_AT must be later than VPM_CUP_OPENS_AT")
        return self

    def chain(self, name: ChainName) -> ChainSettings:
        """Return the settings of one chain. RPC URLs may be missing: only code that needs a URL should refuse to run
        without one."""
        base = name == "base"
        network = self.base_network if base else self.stock_network
        return ChainSettings(
            name=name,
            rpc_urls=self.base_rpc_urls if base else self.stock_rpc_urls,
            ws_urls=self.base_ws_urls if base else self.stock_ws_urls,
            deployment_file=self.deployments_dir / f"{network}.json",
            finality_blocks=self.base_finality_blocks if base else self.stock_finality_blocks,
            poll_interval_ms=self.base_poll_interval_ms if base else self.stock_poll_interval_ms,
        )

    @property
    def read_url(self) -> SecretStr:
        """Return the database URL for reads: the replica's URL if it is set, otherwise the primary's."""
        return self.database_read_url or self.database_url


# ---------------------------------------------------------------- The keeper


Interval = Annotated[float, Field(gt=0, le=86_400, description="a number of seconds above 0")]


class KeeperSettings(SettingsBase):
    model_config = variables_with_prefix("VPM_KEEPER_")

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
    keep_days: int = Field(default=90, ge=8, le=36_500, description="a number of days of at least 8")

    # Agent markets
    sources_file: Path | None = Field(
        default=None, description="the path of a TOML file like deployments/sources.example.toml"
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
        description="the longest outage that the pools' history must cover, 0 to 64800 seconds; 0 leaves the pools "
        "unchanged; unset: 43200, on local deployments 3600",
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


# ---------------------------------------------------------------- The relayer


Gwei = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=9, description="a number of gwei above 0")]
Ether = Annotated[Decimal, Field(gt=0, le=1_000_000, decimal_places=18, description="an amount of ether above 0")]


class RelayerSettings(SettingsBase):
    """The relayer's fees, limits and waits."""

    model_config = variables_with_prefix("VPM_RELAYER_")

    # The highest fee per gas; a lane waits while the chain asks for more. Separate for each chain.
    base_max_fee_gwei: Gwei = Decimal(5)
    stock_max_fee_gwei: Gwei = Decimal(5)
    # The same for lanes that carry bets: the smallest bet is a dollar and pays a fee of two cents at any gas price.
    bets_max_fee_gwei: Gwei = Decimal("0.5")
    min_priority_fee_gwei: Gwei = Decimal("0.001")
    max_priority_fee_gwei: Gwei = Decimal(2)
    # Stop-loss: a lane that has spent this much on gas within an hour signs nothing new until older spending expires.
    gas_per_hour_ether: Ether = Decimal("0.5")
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
        description="how long a failed signature is retried before its lane waits, 1 to 25 seconds",
    )


# ---------------------------------------------------------------- Secrets


class ApiSecrets(SettingsBase):
    """The secrets of the API process. No key among them can move money on a live chain."""

    model_config = variables_with_prefix("VPM_")

    cron_secret: Annotated[SecretStr, Field(min_length=16)] | None = Field(
        default=None, alias="CRON_SECRET", description="at least 16 random characters, or leave it unset to refuse cron"
    )
    attestation_key: PrivateKey | None = Field(
        default=None,
        description="a private key of 0x and 64 hexadecimal digits that signs offers, receipts and callbacks",
    )
    demo_wallet_key: PrivateKey | None = Field(
        default=None,
        description="a private key that pages give to every visitor to bet with; only allowed if both chains are local",
    )


class RelayerSecrets(SettingsBase):
    """The keys that send transactions. Plain keys are for development; in production use keystore files or AWS KMS."""

    model_config = variables_with_prefix("VPM_RELAYER_")

    lane_keys: LaneKeys = Field(
        default=(),
        alias="VPM_RELAYER_KEYS",
        description="private keys of 0x and 64 hexadecimal digits, separated by commas, each optionally preceded by "
        "chain:group+group=",
    )
    keystore_files: LaneKeystores = Field(
        default=(),
        alias="VPM_RELAYER_KEYSTORES",
        description="paths of encrypted keystore files, or keys as aws-kms://REGION/alias/NAME#ADDRESS, separated by "
        "commas, each optionally preceded by chain:group+group=",
    )
    keystore_password_file: Path | None = Field(
        default=None, description="the path of a file holding the keystores' password"
    )

    @model_validator(mode="after")
    def _check_one_kind(self) -> Self:
        if self.lane_keys and self.keystore_files:
            raise ValueError("VPM_RELAYER_KEYS and VPM_RELAYER_KEYSTORES exclude each other: set only one of them")
        files = [each.place for each in self.keystore_files if isinstance(each.place, Path)]
        if files and self.keystore_password_file is None:
            raise ValueError("VPM_RELAYER_KEYSTORES needs VPM_RELAYER_KEYSTORE_PASSWORD_FILE for its files")
        return self
