"""A daemon that is forked from a nursery does what one that is started anew does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._local.process import RunningProcess, SpawnPlan, start_process
from tests.support import nursery
from tests.support.nursery import Forked, cold, forkable
from tests.waiting import PATIENCE, wait

PLAIN = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


def daemon(package: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", package, *arguments)


@pytest.mark.parametrize(
    "command",
    [daemon("indexer", "nonsense"), daemon("keeper", "run-once", "nothing"), daemon("relayer")],
    ids=lambda command: " ".join(command[2:]),
)
@pytest.mark.thorough
def test_a_program_says_and_returns_the_same(command: tuple[str, ...]) -> None:
    assert forkable(command, PLAIN, str(REPOSITORY))
    forked = nursery.run(command, PLAIN)
    with cold():
        assert not forkable(command, PLAIN, str(REPOSITORY))
        anew = nursery.run(command, PLAIN)
    assert (forked.returncode, _timeless(forked.stdout), _timeless(forked.stderr)) == (
        anew.returncode,
        _timeless(anew.stdout),
        _timeless(anew.stderr),
    )
    assert forked.stdout or forked.stderr


def _timeless(said: str) -> list[str]:
    """Without the moments that log lines begin with."""
    return [line.partition("Z")[2] or line for line in said.splitlines()]


@pytest.fixture
def running(database_url: str, tmp_path: Path) -> tuple[RunningProcess, int]:
    """An API under its guard, and the pid of the API itself."""
    env = {
        **PLAIN,
        "DATABASE_URL": database_url,
        "VPM_PORT": "0",
        "VPM_API_METRICS_PORT": "0",
        "VPM_READY_FILE": str(tmp_path / "ready"),
    }
    process = start_process(SpawnPlan("api", daemon("api"), env=env, cwd=str(REPOSITORY)), tmp_path / "log")
    assert isinstance(process.guard, Forked)

    def ready() -> bool:
        assert process.alive(), process.tail()
        return (tmp_path / "ready").exists()

    wait(ready, process.tail)
    return process, int(json.loads((tmp_path / "ready").read_text())["pid"])


def test_it_is_a_process_of_its_own_that_ends_in_order(running: tuple[RunningProcess, int]) -> None:
    process, pid = running
    assert len({pid, process.pid, os.getpid()}) == 3
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""
    process.stop()
    assert process.guard.poll() == 0
    assert not Path(f"/proc/{pid}").exists()


def test_it_dies_when_it_is_killed(running: tuple[RunningProcess, int]) -> None:
    process, pid = running
    process.kill_program()
    assert not Path(f"/proc/{pid}").exists()
    assert process.guard.poll() == 128 + signal.SIGKILL


def test_the_guard_says_how_it_died(running: tuple[RunningProcess, int]) -> None:
    process, pid = running
    os.kill(pid, signal.SIGKILL)
    assert process.guard.wait(PATIENCE) == 128 + signal.SIGKILL


def test_it_does_not_outlive_the_process_it_runs_for(database_url: str, tmp_path: Path) -> None:
    owner = subprocess.Popen(["/bin/sleep", "60"])
    env = {**PLAIN, "DATABASE_URL": database_url, "VPM_PORT": "0", "VPM_API_METRICS_PORT": "0"}
    plan = SpawnPlan("api", daemon("api"), env=env, cwd=str(REPOSITORY))
    process = start_process(plan, tmp_path / "log", parent_pid=owner.pid)
    assert process.alive()
    owner.kill()
    owner.wait()
    process.guard.wait(PATIENCE)


@pytest.mark.parametrize(
    ("argv", "env", "cwd"),
    [
        (daemon("api", "--workers", "2"), PLAIN, str(REPOSITORY)),
        (daemon("scripts._status"), PLAIN, str(REPOSITORY)),
        (("/bin/sleep", "1"), PLAIN, str(REPOSITORY)),
        (daemon("api"), PLAIN | {"PYTHONPATH": "/elsewhere"}, str(REPOSITORY)),
        (daemon("api"), PLAIN | {"PROMETHEUS_MULTIPROC_DIR": "/tmp"}, str(REPOSITORY)),
        (daemon("api"), PLAIN, "/"),
    ],
)
def test_what_depends_on_its_own_start_is_started_anew(argv: tuple[str, ...], env: Mapping[str, str], cwd: str) -> None:
    assert not forkable(argv, env, cwd)
