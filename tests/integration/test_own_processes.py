"""What small programs of ours do as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.paths import REPOSITORY


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
