"""The parts of a stack leave nothing behind, whether they are stopped or nobody was left to stop them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._stack.daemon_host import DaemonHost, can_host
from scripts._stack.supervisor import Child, ChildFailed, Supervisor


async def test_a_folder_of_a_part_goes_with_it_and_is_empty_when_it_starts(tmp_path: Path) -> None:
    scratch, seen = tmp_path / "scratch", tmp_path / "seen"
    scratch.mkdir()
    (scratch / "of-one-that-was-killed").touch()
    program = f"mkdir -p {scratch}; ls {scratch} > {seen}; touch {scratch}/own; exec sleep 60"

    async def ready() -> None:
        while not (scratch / "own").exists():
            assert supervisor.names == ["part"]
            await asyncio.sleep(0.02)

    supervisor = Supervisor(tmp_path / "logs")
    await supervisor.start(Child("part", ("/bin/sh", "-c", program), scratch=scratch, ready=ready))
    assert seen.read_text() == ""
    await supervisor.stop()
    assert not scratch.exists()


@pytest.fixture
def host() -> Iterator[DaemonHost]:
    if not can_host():
        pytest.skip("only Linux hands a process on")
    made = DaemonHost()
    yield made
    made.close()


async def test_what_is_not_imported_is_a_new_interpreter(host: DaemonHost, tmp_path: Path) -> None:
    assert not host.can([sys.executable, "-m", "http.server"])
    supervisor = Supervisor(tmp_path / "logs", host)
    with pytest.raises(ChildFailed, match="exit code 3"):
        await supervisor.start(Child("part", (sys.executable, "-c", "raise SystemExit(3)"), ready=_never))
    await supervisor.stop()


async def _never() -> None:
    await asyncio.Event().wait()
