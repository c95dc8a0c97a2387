"""What small programs of ours do as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from tests.waiting import wait


@pytest.mark.thorough
def test_workers_are_added_up(tmp_path: Path) -> None:
    """Two processes of one daemon, a third rendering what both counted."""
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path), "PYTHONPATH": str(REPOSITORY)}
    count = "from core import metrics; metrics.counter('vpm_test_work', 'Work').inc(2)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", count], env=env, check=True)
    show = "from core import metrics; print(metrics.render().decode())"
    shown = subprocess.run([sys.executable, "-c", show], env=env, check=True, capture_output=True, text=True).stdout
    assert "vpm_test_work_total 4.0" in shown


def test_the_images_probe_says_what_is_not_ready() -> None:
    probe = subprocess.run(
        [sys.executable, "-m", "scripts._status.probe"],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env={"PATH": "/usr/bin", "VPM_READY_FILE": "/nonexistent"},
    )
    assert (probe.returncode, probe.stdout.strip()) == (1, "not ready yet")


TESTS_THAT_GO_ON = """
import sys
from pathlib import Path
from scripts._vpm import checks, cli, programs

SLEEPS = '''
import pathlib, signal, sys, time
for number in sys.argv[2:]:
    signal.signal(int(number), signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
'''
IGNORED = {"one": ["2"], "tests": ["2", "15"]}
programs.TERM_SECONDS = 0.5

def goes_on(name):
    place, ignored = f"{sys.argv[1]}/{name}", IGNORED.get(name, ())
    return lambda *_: checks._call(checks.SCREEN, sys.executable, "-c", SLEEPS, place, *ignored)

ours = [checks.Stage(name, "", goes_on(name)) for name in ("one", "two")]
checks.STAGES = [checks.Stage("unit", "", folders=("none",)), *ours]
checks.run_tests = goes_on("tests")
sys.exit(cli.test(["--thorough"]))
"""


def test_tests_that_are_told_to_end_leave_nothing_behind(tmp_path: Path) -> None:
    """CI signals the command alone. A program may ignore SIGINT, as one started with & in a shell does, and SIGTERM."""
    with subprocess.Popen([sys.executable, "-c", TESTS_THAT_GO_ON, tmp_path], cwd=REPOSITORY) as tests:
        wait(lambda: {each.name for each in tmp_path.iterdir()} == {"one", "tests"})
        tests.send_signal(signal.SIGTERM)
        wait(lambda: tests.poll() is not None)
        assert tests.returncode == 128 + signal.SIGTERM
    left = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, text=True, check=False).stdout
    assert not left
    assert not (tmp_path / "two").exists()
