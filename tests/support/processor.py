"""Where the processor's time goes: by file of tests, and by kind of process.

    pytest -p tests.support.processor PATHS...      (as root, on Linux with control groups of version 2)

Each process that a test starts is put into a control group of its file and kind as it starts, and what it starts
itself is there with it; `VPM_TEST_PROCESSOR` names a file for the whole table as JSON. PostgreSQL and the nurseries are
the whole run's. Time in a group is a fact of the kernel's, of whatever lived however short.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support import nursery

MOUNTS = (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup"))
WHOLE_RUN = "whole-run"


class Groups:
    """The control groups of one run: a folder of files of tests, each with a folder for each kind of process."""

    def __init__(self, run: str) -> None:
        self._mount = next(each for each in MOUNTS if (each / "cgroup.procs").exists())
        self.folder = self._mount / run
        self.file = WHOLE_RUN

    def of(self, kind: str, file: str | None = None) -> Path:
        group = self.folder / (file or self.file) / kind
        group.mkdir(parents=True, exist_ok=True)
        return group

    def take(self, pid: int, kind: str, file: str | None = None) -> None:
        with contextlib.suppress(OSError):  # it has ended
            (self.of(kind, file) / "cgroup.procs").write_text(str(pid))

    def seconds(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for stat in self.folder.glob("*/*/cpu.stat"):
            used = dict(line.split() for line in stat.read_text().splitlines())
            found.setdefault(stat.parts[-3], {})[stat.parts[-2]] = int(used["usage_usec"]) / 1e6
        return found

    def remove(self) -> None:
        """What is still in them, this process and nurseries that end after it, goes where it came from."""
        for group in self.folder.glob("*/*/cgroup.procs"):
            for pid in group.read_text().split():
                with contextlib.suppress(OSError):
                    (self._mount / "cgroup.procs").write_text(pid)
        for folder in (*self.folder.glob("*/*/"), *self.folder.glob("*/"), self.folder):
            with contextlib.suppress(OSError):  # a process of a test has outlived it
                folder.rmdir()


def kind_of(argv: Sequence[Any]) -> str:
    """`indexer` of `python -m indexer`, and the last part of a program's name; a guard is what it guards."""
    words = [os.fsdecode(each) for each in argv]
    if "--" in words and any(each.endswith("guard.py") for each in words):
        words = words[words.index("--") + 1 :]
    if "-m" in words[:4]:
        return words[words.index("-m") + 1]
    script = next((each for each in words[1:3] if each.endswith((".py", ".mjs", ".ts"))), words[0])
    return Path(script).name or "other"


def pytest_configure(config: pytest.Config) -> None:
    owner = os.getppid() if hasattr(config, "workerinput") else os.getpid()
    groups = Groups(f"vpm-tests-{owner}")
    config.stash[_GROUPS] = groups
    groups.take(os.getpid(), "pytest")
    # What a checker cannot follow: functions of others are put in place of methods.
    popens, nurseries = cast(Any, subprocess.Popen), cast(Any, nursery.Nurseries)
    popen, fork, started = popens.__init__, nurseries.fork, nurseries._started

    def opened(self: Any, args: Any, *rest: Any, **named: Any) -> None:
        popen(self, args, *rest, **named)
        kind = kind_of([args] if isinstance(args, str | os.PathLike) else args)
        groups.take(self.pid, kind, WHOLE_RUN if kind == "postgres" else None)

    def forked(self: Any, argv: Any, env: Any, *rest: Any, **named: Any) -> Any:
        group = groups.of(argv[0])
        return fork(self, argv, {**env, nursery.GROUP: str(group)}, *rest, **named)

    def nursed(self: Any, *given: Any) -> int:
        pid: int = started(self, *given)
        groups.take(pid, f"nursery-{given[0]}", WHOLE_RUN)
        return pid

    popens.__init__, nurseries.fork, nurseries._started = opened, forked, nursed


_GROUPS = pytest.StashKey[Groups]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    groups = item.config.stash[_GROUPS]
    file = item.path.stem
    if groups.file != file:
        groups.file = file
        groups.take(os.getpid(), "pytest")
    return (yield)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    seconds = config.stash[_GROUPS].seconds()
    if target := os.environ.get("VPM_TEST_PROCESSOR"):
        Path(target).write_text(json.dumps(seconds, indent=1, sort_keys=True) + "\n")
    whole: dict[str, float] = {}
    for each in seconds.values():
        for kind, spent in each.items():
            whole[kind] = whole.get(kind, 0.0) + spent
    terminalreporter.section("seconds of a core")
    for file, each in sorted(seconds.items(), key=lambda one: -sum(one[1].values())):
        terminalreporter.write_line(f"{sum(each.values()):8.1f} {file:<32} {_kinds(each)}")
    terminalreporter.write_line(f"{sum(whole.values()):8.1f} {'all':<32} {_kinds(whole)}")


def _kinds(spent: dict[str, float]) -> str:
    """The most first, and none that is nothing."""
    most = sorted(spent.items(), key=lambda one: -one[1])
    return ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in most if seconds >= 0.5)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.stash[_GROUPS].remove()
