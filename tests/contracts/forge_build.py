"""forge, with an output folder of its own: the tests here compile little and never disturb other builds."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from core.local.packages import REPOSITORY, foundry_binary

OUT = REPOSITORY / ".vpm" / "build" / "forge-history"
REPLAY = "tests/contracts/forge/history/Histories.t.sol"
SOURCES = (REPLAY, "contracts/stock/VestedMarkets.sol", "contracts/local/LocalUSDG.sol")
UNLIMITED_GAS = str(2**63 - 1)


def _forge(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(foundry_binary("forge")), *arguments],
        cwd=REPOSITORY,
        env={
            **os.environ,
            "FOUNDRY_OUT": str(OUT / "out"),
            "FOUNDRY_CACHE_PATH": str(OUT / "cache"),
            "FOUNDRY_SPARSE_MODE": "true",
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def _build() -> None:
    """Compile what changed. One at a time: parallel test workers share the output."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = _forge("build", *SOURCES)
    assert built.returncode == 0, built.stdout + built.stderr


def artifact(contract: str) -> tuple[list[dict[str, Any]], str]:
    """ABI and creation code of `VestedMarkets` or `LocalUSDG`, as the sources are now."""
    _build()
    content = json.loads((OUT / "out" / f"{contract}.sol" / f"{contract}.json").read_text())
    return content["abi"], content["bytecode"]["object"]


def replay(folder: Path) -> subprocess.CompletedProcess[str]:
    """Replay the histories written to `folder`, which is in `.vpm/build`, the only place forge may read."""
    _build()
    where = f"{folder.relative_to(REPOSITORY)}/"
    return _forge("test", "--match-path", REPLAY, "--gas-limit", UNLIMITED_GAS, "-vv", VPM_HISTORIES=where)
