"""The locks can be installed where we say they can. What asks the package registry runs with the long tests only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._vpm.bootstrap import NEWEST_PYTHON, OLDEST_PYTHON, VENV, registry_settings

DOCKER = REPOSITORY / "deployments" / "docker"
PURE = ("lazyasd", "python-baseconv", "varint")
"""Packages of which no wheel is published. They are Python alone, so no compiler is needed to make one."""

asks_the_registry = pytest.mark.skipif(not os.environ.get("VPM_TEST_LONG"), reason="VPM_TEST_LONG=1: asks the registry")


@pytest.mark.thorough
def test_a_mirror_is_heeded_by_what_runs_in_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`./vpm prove`, and everything in a shell where the environment is activated: it has no pip of its own to ask."""
    assert Path(sys.prefix) == VENV
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example.org/simple")
    assert registry_settings(sys.executable)["UV_DEFAULT_INDEX"] == "https://mirror.example.org/simple"


@asks_the_registry
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("minor", range(OLDEST_PYTHON[1], NEWEST_PYTHON[1] + 1))
def test_every_python_that_we_name_installs_the_lock_without_a_compiler(
    minor: int, machine: str, tmp_path: Path
) -> None:
    built = [word for name in PURE for word in ("--no-binary", name)]
    _can_be_installed(REPOSITORY / "requirements.lock", f"3.{minor}", machine, tmp_path, *built)


@asks_the_registry
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("lock", sorted(path.name for path in DOCKER.glob("requirements*.txt")))
def test_the_images_python_installs_its_packages(lock: str, machine: str, tmp_path: Path) -> None:
    found = re.search(r"^ARG PYTHON=(\d+\.\d+)-", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    _can_be_installed(DOCKER / lock, found[1], machine, tmp_path)


def _can_be_installed(lock: Path, python: str, machine: str, empty: Path, *more: str) -> None:
    """A wheel of every package of the lock fits. Asked from an empty folder, or uv would heed our pyproject.toml."""
    ended = subprocess.run(
        [VENV / "bin" / "uv", "pip", "install", "--dry-run", "--no-deps", "--require-hashes"]
        + ["--only-binary", ":all:", *more, "--python", sys.executable, "--target", empty / "there"]
        + ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_28", "-r", lock],
        cwd=empty,
        env=os.environ | registry_settings(sys.executable),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
