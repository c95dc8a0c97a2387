"""Every test ends, also one that waits for ever while it tidies up.

pytest-timeout, which this goes into, raises an exception once. An event loop may put it down to a task that nobody
awaits; the next `finally` may wait for ever in its turn; and after a test has failed, for the sake of a debugger, no
time is kept at all, so that a teardown that waits for what the test should have said keeps its worker and the whole
run. Here time is kept to the end of the teardown, and the exception is raised again and again. What no exception
reaches is in a call that does not come back: that process is ended, having printed where each of its threads was, and
with it a run that has several (xdist may wait for ever for the files of a worker that is gone).
"""

from __future__ import annotations

import faulthandler
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from pytest_timeout import is_debugging, timeout_sigalrm

AGAIN_SECONDS = 30.0
LAST_SECONDS = 120.0  # after the limit

_screen = pytest.StashKey[int]()
_until = pytest.StashKey[float]()
_is_cut_short = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_screen] = os.dup(2)  # before the output of tests is caught


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    def too_long(_signal: int, _frame: FrameType | None) -> None:
        __tracebackhide__ = True
        timeout_sigalrm(item, settings)

    signal.signal(signal.SIGALRM, too_long)
    item.stash[_until] = time.monotonic() + settings.timeout
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_cancel_timer() -> bool:
    """Of its own accord pytest-timeout stops when a test fails."""
    return True


@contextmanager
def _kept(item: pytest.Item) -> Iterator[None]:
    """Only while code of tests runs: pytest's own, between, is not made for exceptions that come from nowhere, and when
    a test fails it calls off whatever would end the process."""
    if _until not in item.stash:  # it may take as long as it will
        yield
        return
    left = max(item.stash[_until] - time.monotonic(), AGAIN_SECONDS)
    signal.setitimer(signal.ITIMER_REAL, left, AGAIN_SECONDS)
    if not is_debugging():
        faulthandler.dump_traceback_later(left + LAST_SECONDS, exit=True, file=item.config.stash[_screen])
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with _kept(item):
        return (yield)


pytest_runtest_call = pytest_runtest_teardown = pytest_runtest_setup


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(sched: Any) -> None:
    """A worker is gone. xdist asks this in the controller."""
    sched.config.stash[_is_cut_short] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tests were left out, so that nobody takes the failure of one for the verdict on all."""
    if session.config.stash.get(_is_cut_short, False):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_enter_pdb() -> None:
    """Somebody looks at it: pytest-timeout stays silent then, and so does this."""
    faulthandler.cancel_dump_traceback_later()
