"""The file with a running stack's addresses is whole or absent, and readable only by its owner."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._stack.state import StackError
from scripts._stack.up import _write_ready


@pytest.fixture
def _open_umask() -> Iterator[None]:
    """Set the most open umask."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_open_umask")
def test_only_the_owner_can_read_the_ready_file(tmp_path: Path) -> None:
    """It holds keys and the database's password, so neither the umask nor an older file may open it up."""
    path = tmp_path / "state" / "ready.json"
    for number in range(2):
        _write_ready(path, {"number": number})
        assert json.loads(path.read_text()) == {"number": number}
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        path.chmod(0o666)
        path.with_name("ready.json.new").write_text("left by a start that was killed")
        path.with_name("ready.json.new").chmod(0o666)


def test_where_it_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="cannot write the ready file"):
        _write_ready(tmp_path / "file" / "ready.json", {})
