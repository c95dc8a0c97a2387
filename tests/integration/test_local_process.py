"""What a program leaves behind, and daemons that are forked."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from core.paths import REPOSITORY
from scripts._local.forking import ForkedProcess
from scripts._local.process import SpawnPlan, start_process


def test_a_folder_of_a_program_goes_with_it_and_is_empty_when_it_starts(tmp_path: Path) -> None:
    scratch, seen = tmp_path / "scratch", tmp_path / "seen"
    scratch.mkdir()
    (scratch / "of-one-that-was-killed").touch()
    program = f"mkdir -p {scratch}; ls {scratch} > {seen}; touch {scratch}/own; exec sleep 60"
    plan = SpawnPlan("part", ("/bin/sh", "-c", program), env=dict(os.environ), scratch=scratch)
    process = start_process(plan, tmp_path / "log")
    while not (scratch / "own").exists():
        assert process.alive()
        time.sleep(0.02)
    assert seen.read_text() == ""
    process.stop()
    assert not scratch.exists()


def test_a_daemon_is_forked_as_a_child_of_ours_with_an_environment_and_a_log_of_its_own(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "DATABASE_URL": "not-a-url"}
    plan = SpawnPlan("relayer", (sys.executable, "-m", "relayer"), env=env, cwd=str(REPOSITORY))
    process = start_process(plan, tmp_path / "log")
    assert isinstance(process.program, ForkedProcess)
    assert int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid()
    assert process.program.wait(60) == 78
    assert "DATABASE_URL" in process.tail()
    assert os.environ.get("DATABASE_URL") != "not-a-url"


def test_a_forked_program_that_is_killed_is_named_with_the_signal(tmp_path: Path) -> None:
    argv = (sys.executable, "-m", "relayer", "--help")
    process = start_process(SpawnPlan("relayer", argv, env=dict(os.environ), cwd=str(REPOSITORY)), tmp_path / "log")
    os.kill(process.pid, signal.SIGSTOP)
    process.program.send_signal(signal.SIGKILL)
    process.program.wait(10)
    assert "relayer was killed by SIGKILL" in process.describe_exit()
