"""Running the forge side of the settlement tests, in an output folder of its own."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

from core.local.packages import REPOSITORY, foundry_binary

OUT = REPOSITORY / ".vpm" / "build" / "forge-settlement"
REPLAY = "tests/contracts/forge/agent/Vectors.t.sol"
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


def replay(test: str, folder: Path) -> str:
    """Run one test of Vectors.t.sol on the files in `folder`, which is in `.vpm/build`; its output, or an assertion."""
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:  # parallel test workers share the build
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = _forge("build", REPLAY)
    assert built.returncode == 0, built.stdout + built.stderr
    where = f"{folder.relative_to(REPOSITORY)}/"
    select = ("--match-path", REPLAY, "--match-test", test, "--gas-limit", UNLIMITED_GAS, "-vv")
    run = _forge("test", *select, VPM_SETTLEMENT_VECTORS=where)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
    return run.stdout
