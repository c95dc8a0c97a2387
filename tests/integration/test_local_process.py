"""Programs under their guard end when they are told to, whenever that is."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts._local.process import SpawnPlan, start_process


@pytest.fixture
def quitting_is_ignored() -> Iterator[None]:
    """As in everything a shell script starts in the background."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGQUIT, before)


@pytest.mark.usefixtures("quitting_is_ignored")
def test_a_program_is_killed_at_once_even_while_its_guard_starts(tmp_path: Path) -> None:
    for _ in range(5):
        plan = SpawnPlan("sleeper", (sys.executable, "-c", "import time; time.sleep(60)"), env=dict(os.environ))
        process = start_process(plan, tmp_path / "log")
        process.kill_program()
        assert not process.alive()


def test_stopping_ends_a_program_that_will_not_listen(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
    )
    plan = SpawnPlan("deaf", (sys.executable, "-u", "-c", deaf), env=dict(os.environ))
    process = start_process(plan, tmp_path / "log")
    while "deaf" not in process.tail():
        assert process.alive()
    process.stop(timeout_seconds=0.5)
    assert not process.alive()
