"""Foundry's programs are the npm package's, or else the pinned version on PATH, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import ProcessError
from scripts._local import packages
from scripts._local.packages import foundry_binary, foundry_version


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty folder that is the only one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    packages._on_path.cache_clear()
    yield folder
    packages._on_path.cache_clear()


def program(folder: Path, name: str, version: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{name} Version: {version}-v{version}'\n")
    path.chmod(0o755)
    return path


def test_the_package_goes_before_path(on_path: Path, tmp_path: Path) -> None:
    packaged = program(tmp_path / "@foundry-rs" / "anvil-linux-amd64" / "bin", "anvil", foundry_version())
    program(on_path, "anvil", foundry_version())
    assert foundry_binary("anvil", tmp_path) == packaged


def test_without_a_package_the_pinned_version_on_path_serves(on_path: Path, tmp_path: Path) -> None:
    own = program(on_path, "anvil", foundry_version())
    assert foundry_binary("anvil", tmp_path) == own


@pytest.mark.parametrize("version", [None, "1.0.0"])
def test_another_version_does_not(on_path: Path, tmp_path: Path, version: str | None) -> None:
    if version is not None:
        program(on_path, "anvil", version)
    with pytest.raises(ProcessError, match=f"anvil {foundry_version()} is missing") as error:
        foundry_binary("anvil", tmp_path)
    assert "on PATH" in (error.value.hint or "")
