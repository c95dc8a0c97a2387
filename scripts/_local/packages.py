"""Finds Foundry's programs for this machine in the pinned npm packages, or on PATH."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from core.errors import ProcessError
from core.paths import REPOSITORY

NODE_MODULES = REPOSITORY / "node_modules"


def machine() -> tuple[str, str]:
    """Return (system, processor) as ("linux" | "darwin", "x64" | "arm64")."""
    system = {"linux": "linux", "darwin": "darwin"}.get(sys.platform)
    processor = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}.get(platform.machine().lower())
    if system is None or processor is None:
        raise ProcessError(
            f"There is no packaged build for {sys.platform} on {platform.machine()}.",
            hint="Use Linux or macOS on x86-64 or arm64, or set DATABASE_URL and run your own nodes.",
        )
    return system, processor


def foundry_binary(tool: str, node_modules: Path = NODE_MODULES) -> Path:
    """Return anvil, forge or cast for this machine. It comes from the npm package, or from PATH if npm has none."""
    system, processor = machine()
    package = f"{tool}-{system}-{'amd64' if processor == 'x64' else 'arm64'}"
    packaged = node_modules / "@foundry-rs" / package / "bin" / tool
    return packaged if packaged.exists() else _on_path(tool)


@cache
def _on_path(tool: str) -> Path:
    """Return the tool on PATH if it has exactly the pinned version. Other versions may mine or print differently."""
    pinned = foundry_version()
    program = shutil.which(tool)
    if program is None or pinned not in version_of(program):
        raise ProcessError(
            f"Foundry's {tool} {pinned} is missing.",
            hint=f"./vpm up installs it from npm; where npm has no build, put Foundry {pinned} on PATH.",
        )
    return Path(program)


def foundry_version() -> str:
    packages = json.loads((REPOSITORY / "package.json").read_text())["optionalDependencies"]
    return str(packages["@foundry-rs/anvil-linux-amd64"])


def version_of(program: str) -> str:
    """Return the output of `program --version`, or an empty string if it cannot be run."""
    try:
        asked = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout
