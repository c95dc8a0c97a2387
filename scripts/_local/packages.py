"""Finds Foundry's programs for this machine in the pinned npm packages, or on PATH."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path

from core.errors import ProcessError
from core.paths import REPOSITORY

NODE_MODULES = REPOSITORY / "node_modules"


def foundry_binary(tool: str, node_modules: Path = NODE_MODULES) -> Path:
    """Return the path of anvil, forge or cast. npm only has builds for Linux on x86-64; other machines use the tool on
    PATH."""
    packaged = node_modules / "@foundry-rs" / f"{tool}-linux-amd64" / "bin" / tool
    return packaged if packaged.exists() else _on_path(tool)


@cache
def _on_path(tool: str) -> Path:
    """Return the path of the tool on PATH if it has exactly the pinned version. Other versions may mine or print
    differently."""
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
    """Return the output of `program --version`, or an empty string if the program cannot be run."""
    try:
        asked = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout
