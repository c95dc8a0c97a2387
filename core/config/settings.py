"""The settings that all daemons share. The only secrets in them are the passwords in URLs.

To add a setting, add a field: its variable is `VPM_` and its name in capitals, its description says what to write (it
ends the error message), and a duration's name ends with its unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator

from core.config.loading import SettingsBase, named_after
from core.config.values import (
    DatabaseUrl,
    HttpUrls,
    HttpUrlText,
    NetworkName,
    Port,
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
    """The settings every process reads."""

    model_config = named_after("VPM_")

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
        default=1, ge=1, le=8, description="how many proxies of yours a request passes, each adding to X-Forwarded-For"
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
        """Return the settings of one chain. RPC URLs may be missing; only code that needs one should refuse that."""
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
        """Return the URL for reads: the replica's if there is one."""
        return self.database_read_url or self.database_url
