"""The parts of a stack leave nothing behind, whether they are stopped or nobody was left to stop them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from scripts._stack.supervisor import Child, Supervisor


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
