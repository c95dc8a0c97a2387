"""Configuration: environment variables, checked once at start, frozen afterwards.

`load(Settings)` reads what every daemon shares and holds no key. Secrets are split by who may hold them, so a process
never even parses a key it has no use for: `ApiSecrets` (attestation key, cron secret) and `RelayerSecrets` (lane keys).
"""

from core.config.keeping import KeeperSettings
from core.config.loading import environment, exposed_files, load, setting, unknown_variables
from core.config.relaying import RelayerSettings
from core.config.secrets import ApiSecrets, RelayerSecrets
from core.config.settings import ChainName, ChainSettings, Settings

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
