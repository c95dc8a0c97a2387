"""Runs Solidity tests on files that a Python test wrote or chose."""

from __future__ import annotations

import subprocess

from scripts._vpm.forge import compiling, forge

UNLIMITED_GAS = str(2**63 - 1)
SPARSE = {"FOUNDRY_SPARSE_MODE": "true"}


def forge_test(path: str, *select: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a file, or those that `select` chooses. They can read only files in `.vpm/build`."""
    with compiling():
        built = forge("build", path, **SPARSE)
    assert built.returncode == 0, built.stdout
    options = ("--match-path", path, *select, "--gas-limit", UNLIMITED_GAS, "-vv")
    return forge("test", *options, **SPARSE, **environment)
