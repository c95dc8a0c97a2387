"""The parts of a stack leave nothing behind, whether they are stopped or nobody was left to stop them."""

from __future__ import annotations

import asyncio
import os
import signal
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


@pytest.mark.thorough
async def test_a_forked_daemon_is_a_child_of_the_supervisor_with_its_own_environment_and_log(
    host: DaemonHost, tmp_path: Path
) -> None:
    supervisor = Supervisor(tmp_path / "logs", host)
    env = {"DATABASE_URL": "not-a-url"}
    assert host.can([sys.executable, "-m", "relayer"])
    await supervisor.start(Child("relayer", (sys.executable, "-m", "relayer"), env=env))
    assert "relayer ended with exit code" in await asyncio.wait_for(supervisor.first_end(), 60)
    assert "DATABASE_URL" in (tmp_path / "logs" / "relayer.log").read_text()
    assert "DATABASE_URL" not in os.environ or os.environ["DATABASE_URL"] != "not-a-url"
    await supervisor.stop()


@pytest.mark.thorough
async def test_forked_daemons_are_ours_share_one_interpreter_and_are_named_when_killed(
    host: DaemonHost, tmp_path: Path
) -> None:
    supervisor = Supervisor(tmp_path / "logs", host)
    for name in ("one", "two"):  # they wait for a site that is not there
        await supervisor.start(Child(name, (sys.executable, "-m", "scripts._demo", "http://127.0.0.1:1")))
    pids = supervisor.pids()
    for pid in pids.values():
        assert _parent(pid) == os.getpid()
        assert "scripts._stack.daemon_host" in _command(pid)
    os.kill(pids["two"], signal.SIGKILL)
    assert "two was killed by SIGKILL" in await asyncio.wait_for(supervisor.first_end(), 30)
    await supervisor.stop()
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_what_is_not_imported_is_a_new_interpreter(host: DaemonHost, tmp_path: Path) -> None:
    assert not host.can([sys.executable, "-m", "http.server"])
    supervisor = Supervisor(tmp_path / "logs", host)
    with pytest.raises(ChildFailed, match="exit code 3"):
        await supervisor.start(Child("part", (sys.executable, "-c", "raise SystemExit(3)"), ready=_never))
    await supervisor.stop()


async def _never() -> None:
    await asyncio.Event().wait()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
