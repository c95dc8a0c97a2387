"""Configuration: environment variables that are checked once at start and frozen afterwards.

`load(Settings)` reads the settings that all daemons share; they contain no keys. Each process has its own class of
secrets, so that no process parses a key that it does not use: `ApiSecrets` (attestation key, cron secret) and
`RelayerSecrets` (lane keys).
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
