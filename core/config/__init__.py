"""Configuration: environment variables, checked once at start, frozen afterwards.

`load(Settings)` reads what all daemons share, without keys. Secrets are split by process, so that no process parses a
key it does not use: `ApiSecrets` (attestation key, cron secret) and `RelayerSecrets` (lane keys).
"""

from core.config.loading import environment, exposed_files, load, setting, unknown_variables
from core.config.settings import (
    ApiSecrets,
    ChainName,
    ChainSettings,
    KeeperSettings,
    RelayerSecrets,
    RelayerSettings,
    Settings,
)

__all__ = [
    "ApiSecrets",
    "ChainName",
    "ChainSettings",
    "KeeperSettings",
    "RelayerSecrets",
    "RelayerSettings",
    "Settings",
    "environment",
    "exposed_files",
    "load",
    "setting",
    "unknown_variables",
]
