"""A running `./vpm up`, as a user has it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.paths import REPOSITORY
from scripts._local.ports import free_port
from scripts._stack.parts import DAEMONS
from tests.support.genesis import Genesis
from tests.support.postgres_cleanup import forget_postgres
from tests.support.programs import family

DAEMON_NAMES = set(DAEMONS)
READY_SECONDS = 300  # seconds on an idle machine; compilers may run at the same time


class Stack:
    def __init__(
        self,
        state: Path,
        output: Path,
        *options: str,
        port: int | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self.state, self.port = state, port or free_port()
        output.mkdir()
        self.ready_file, self.output_path = output / "ready.json", output / "output.txt"
        inherited = {k: v for k, v in os.environ.items() if k != "DATABASE_URL"}
        with self.output_path.open("wb") as log:
            self.process = subprocess.Popen(
                ["./vpm", "up", "--no-demo", *options, "--port", str(self.port)]
                + ["--state", str(state), "--ready-file", str(self.ready_file)],
                cwd=REPOSITORY,
                env={**inherited, **(env or {})},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        return self.output_path.read_text(errors="replace")

    def ready(self) -> dict[str, Any]:
        deadline = time.monotonic() + READY_SECONDS
        while not self.ready_file.exists():
            assert self.process.poll() is None, f"the stack ended:\n{self.output}"
            assert time.monotonic() < deadline, f"not ready in time:\n{self.output}"
            time.sleep(0.05)
        found: dict[str, Any] = json.loads(self.ready_file.read_text())
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def end(self) -> None:
        family = tree(self.process.pid)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert gone(family, 10)
        if self.state.is_dir():
            forget_postgres(self.state / "postgres")

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Pause its daemons, for tests that need only its chains and its database."""
        daemons = [pid for pid in tree(self.process.pid) if _name(pid) in DAEMON_NAMES]
        assert len(daemons) == len(DAEMON_NAMES)
        for pid in daemons:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in daemons:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)


def tree(pid: int) -> set[int]:
    return set(family(pid)) - {pid}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has ended
        return ""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pids: set[int], within_seconds: float) -> bool:
    deadline = time.monotonic() + within_seconds
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def stack_of(genesis: Genesis, folder: Path, *flags: str, env: dict[str, str] | None = None) -> Iterator[Stack]:
    """Run a stack whose chains already carry the genesis, so that it starts within seconds. Remove it afterwards."""
    folder.chmod(0o755)  # as root, PostgreSQL runs as another user, who has to get in
    shutil.copytree(genesis.state.root, folder / "state")
    stack = Stack(folder / "state", folder / "output", *flags, env=env)
    try:
        yield stack
    finally:
        stack.end()
