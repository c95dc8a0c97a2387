"""Every test ends, and the run tells which did not: tests/support/limits.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from core.paths import REPOSITORY

pytestmark = pytest.mark.thorough

LIMIT = 1

FAILS_AND_KEEPS_ITS_FIXTURE = """
import threading, pytest
@pytest.fixture
def waits():
    yield
    threading.Event().wait()
def test_it(waits):
    assert False, "the reason"
"""
WAITS_AGAIN = """
import threading
def test_it():
    try:
        threading.Event().wait()
    finally:
        try:
            threading.Event().wait()
        finally:
            threading.Event().wait()
"""
LOST_IN_A_TASK = """
import asyncio
def test_it():
    async def busy():
        while True:
            for _ in range(10**6):
                pass
            await asyncio.sleep(0)
    async def waits():
        task = asyncio.create_task(busy())
        await asyncio.Event().wait()
    asyncio.run(waits())
"""
ASKS_WHAT_IS_GONE = """
import asyncio, pytest
@pytest.mark.asyncio(loop_scope="module")
async def test_it():
    try:
        await asyncio.Event().wait()
    finally:
        while True:
            await asyncio.sleep(0.01)
"""
WAITS_BEFORE = """
import threading, pytest
@pytest.fixture
def waits():
    threading.Event().wait()
def test_it(waits):
    pass
"""
REACHED_BY_NOTHING = """
import signal, threading
def test_it():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    threading.Event().wait()
"""
FAILS_AND_IS_REACHED_BY_NOTHING = """
import signal, threading, pytest
@pytest.fixture
def waits():
    yield
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    threading.Event().wait()
def test_it(waits):
    assert False, "the reason"
"""
FINE = "def test_fine():\n    pass\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text(f"[pytest]\ntimeout = {LIMIT}\n")
    (tmp_path / "quick.py").write_text(
        "from tests.support import limits\n"
        "limits.AGAIN_SECONDS, limits.LAST_SECONDS = 0.2, 5.0\n"
        "from tests.support.limits import *\n"
    )
    for name in ("a_fine", "fine", "most_fine"):
        (tmp_path / f"test_{name}.py").write_text(FINE)
    return tmp_path


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "test_hangs.py").write_text(text)
    plugins = ("-p", "pytest_timeout", "-p", "quick", "-p", "no:cacheprovider")
    env = os.environ | {"PYTHONPATH": f"{folder}:{REPOSITORY}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, str(folder)],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_a_failed_test_whose_fixture_waits_for_ever_ends(folder: Path) -> None:
    code, said = run(folder, FAILS_AND_KEEPS_ITS_FIXTURE)
    assert code == 1, said
    assert "AssertionError: the reason" in said
    assert "ERROR test_hangs.py::test_it - Failed: Timeout" in said
    assert "1 failed, 3 passed, 1 error" in said


@pytest.mark.parametrize("text", [WAITS_AGAIN, LOST_IN_A_TASK], ids=["waits again", "lost in a task"])
def test_what_waits_again_is_told_again(folder: Path, text: str) -> None:
    code, said = run(folder, text)
    assert code == 1, said
    assert "FAILED test_hangs.py::test_it - Failed: Timeout" in said
    assert "1 failed, 3 passed" in said


def test_a_coroutine_that_waits_once_more_when_it_is_cancelled_ends(folder: Path) -> None:
    code, said = run(folder, ASKS_WHAT_IS_GONE, "-p", "pytest_asyncio.plugin")
    assert code == 1, said
    assert "FAILED test_hangs.py::test_it - Failed: Timeout" in said
    assert "ERROR test_hangs.py::test_it - Failed: Timeout" in said
    assert "1 failed, 3 passed, 1 error" in said


def test_a_fixture_that_never_gets_ready_is_an_error(folder: Path) -> None:
    code, said = run(folder, WAITS_BEFORE)
    assert code == 1, said
    assert "ERROR test_hangs.py::test_it - Failed: Timeout" in said
    assert "3 passed, 1 error" in said


@pytest.mark.parametrize("text", [REACHED_BY_NOTHING, FAILS_AND_IS_REACHED_BY_NOTHING], ids=["call", "teardown"])
def test_a_worker_that_nothing_reaches_is_ended_and_the_run_says_where_it_was(folder: Path, text: str) -> None:
    """Having done whole files before, of which xdist would wait for word for ever."""
    one_after_another = ("-p", "xdist.plugin", "-n", "1", "--dist", "loadfile", "--max-worker-restart", "0")
    code, said = run(folder, text, *one_after_another)
    assert code == pytest.ExitCode.INTERNAL_ERROR, said  # no verdict: what came after it was left out
    assert re.search(r"Timeout \(0:00:0\d\.?\d*\)!", said)
    assert f'File "{folder}/test_hangs.py", line' in said
    assert "crashed while running 'test_hangs.py::test_it'" in said
