"""Runs forge on the Solidity tests; all runs share one build."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from core.paths import REPOSITORY
from scripts._local.forking import die_with_parent
from scripts._local.packages import foundry_binary

BUILDS = REPOSITORY / ".vpm" / "build"  # the only place where Solidity tests may read
LOCK = BUILDS / "forge-quick.lock"
NICE = ("nice", "-n", "5")
"""Prefix for programs that run alongside tests: tests depend on real time, so these programs yield to them."""
PROFILE = {"FOUNDRY_PROFILE": "long" if os.environ.get("VPM_TEST_LONG") else "quick"}


def forge(
    *arguments: str, output: int | IO[str] | None = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the pinned forge, with standard error merged into standard output. If an `output` file is given, forge runs
    at low priority, because tests run at the same time."""
    with_tests = output not in (None, subprocess.PIPE)
    program = [*(NICE if with_tests else ()), str(foundry_binary("forge")), *arguments]
    return run(program, {**os.environ, **PROFILE, **environment}, output)


def run(argv: Sequence[str], env: dict[str, str], output: int | IO[str] | None) -> subprocess.CompletedProcess[str]:
    """Run a program in the checkout. The program ends when this process ends. If `output` is given, both of the
    program's output streams go there."""
    error = None if output is None else subprocess.STDOUT
    return subprocess.run(
        argv,
        cwd=REPOSITORY,
        env=env,
        stdout=output,
        stderr=error,
        text=True,
        check=False,
        preexec_fn=die_with_parent(),
    )


@contextmanager
def compiling() -> Iterator[None]:
    """Hold the compiler's lock, so that a second process reuses what the first has compiled."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
