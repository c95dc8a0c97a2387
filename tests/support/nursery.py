"""Daemons for tests, forked from a process that has imported them already.

A daemon spends seconds of processor time on its imports, and the tests start hundreds. So the first test that starts
one of a package starts a nursery of that package: `python -m tests.support.nursery PACKAGE FOLDER OWNER`, a process
that imports what the daemon imports, runs nothing of it, and waits at a socket in FOLDER until the process OWNER ends.
For each request it forks, and the child does what `python -m PACKAGE ARGUMENTS` does: the environment, arguments,
folder, session and output it was given, the package's own `__main__`, the interpreter's own end. From there on it is
a process like any other: it has its own pid, and it is signalled, killed and waited for as one. What it is not is a
new interpreter: variables that Python or a library reads while it starts cannot be given to it, and /proc shows the
nursery's command line and environment as its own. `forkable` refuses what depends on these.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from core.paths import REPOSITORY
from scripts._local import guard, process
from scripts._local.process import Program, SpawnPlan
from scripts._vpm.bootstrap import APE_VENV

START_SECONDS = 90.0
IMPORTS = {
    "api": ("api.app", "api.context", "api.workers", "api.__main__"),
    "indexer": ("indexer.cli",),
    "keeper": ("keeper.__main__", "exchange_calendars"),  # which it imports when it first asks for sessions
    "relayer": ("relayer.service",),
    # Not ape itself, which looks for its folders while it is imported: what takes it two seconds, and its provider of
    # test chains, which any provider's first use imports, another.
    "tests.support.ape": (
        "eip712",
        "eth.chains.base",
        "eth_account",
        "eth_tester",
        "ethpm_types",
        "evm_trace",
        "pandas",
        "pydantic_settings",
        "rich.console",
        "solcx",
        "tqdm",
        "web3",
    ),
}
"""What each program imports; a `__main__` that runs only when it is the program may stand here itself."""
APE_PYTHON = str(APE_VENV / "bin" / "python")
READ_AT_START = ("PYTHON", "PROMETHEUS_MULTIPROC_DIR", "LD_", "TZ", "LC_", "LANG")


# ---------------------------------------------------------------- the tests' side


class Forked:
    """A process of a nursery's, which tells its pid once it has forked and its exit code once that has ended."""

    def __init__(self, nursery: socket.socket, log: Path) -> None:
        self._nursery = nursery.detach()
        self._log = log
        self._pid: int | None = None
        self.returncode: int | None = None

    def __del__(self) -> None:
        os.close(self._nursery)

    @property
    def pid(self) -> int:
        if self._pid is None:
            told = os.read(self._nursery, 4)
            assert told, f"the nursery ended:\n{self._log.read_text()}"
            self._pid = struct.unpack("i", told)[0]
        return self._pid

    def poll(self) -> int | None:
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None and self.pid and select.select([self._nursery], [], [], timeout)[0]:
            told = os.read(self._nursery, 4)
            # Told nothing: the nursery is gone, as it is when what it runs for is gone.
            self.returncode = struct.unpack("i", told)[0] if told else -int(signal.SIGKILL)
        return self.returncode


Process = Forked | subprocess.Popen[bytes]


class Nurseries:
    """The nurseries of one test run, shared by its workers: one of each package, started when first asked for."""

    def __init__(self, folder: Path, owner_pid: int) -> None:
        self._folder = folder
        self._owner_pid = owner_pid

    def spawn(self, plan: SpawnPlan, output: IO[bytes], parent_pid: int) -> Program:
        """Spawn as `process.spawn_guard` does, with a guard and a program that are forked where that is the same."""
        if plan.user is not None or not forkable(plan.argv, plan.env, plan.cwd):
            return process.spawn_guard(plan, output, parent_pid)
        with _nothing() as stdin:
            guarded = (parent_pid, int(plan.stop_signal))
            return self.fork(plan.argv[2:], plan.env, stdin, output, output, guarded)

    def fork(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
        guarded: tuple[int, int] | None = None,
    ) -> Forked:
        """`guarded`: the process it must not outlive, and the signal that stops it."""
        request = json.dumps({"argv": list(argv), "env": dict(env), "guarded": guarded}).encode()
        nursery = self._nursery(argv[0])
        files = [each.fileno() for each in (stdin, stdout, stderr)]
        socket.send_fds(nursery, [struct.pack("I", len(request))], files)
        nursery.sendall(request)
        return Forked(nursery, self._folder / f"{argv[0]}.log")

    def _nursery(self, package: str) -> socket.socket:
        """A connection to the package's nursery."""
        path = self._folder / f"{package}.nursery"
        with contextlib.suppress(OSError):
            return _connected(path)
        with (self._folder / f"{package}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with contextlib.suppress(OSError):
                return _connected(path)
            path.unlink(missing_ok=True)
            log = path.with_suffix(".log")
            pid = self._started(package, path, log)
            deadline = time.monotonic() + START_SECONDS
            while True:
                with contextlib.suppress(OSError):
                    return _connected(path)
                assert os.waitpid(pid, os.WNOHANG) == (0, 0), f"the nursery of {package} ended:\n{log.read_text()}"
                assert time.monotonic() < deadline, f"the nursery of {package} did not start:\n{log.read_text()}"
                time.sleep(0.02)

    def _started(self, package: str, path: Path, log: Path) -> int:
        """The pid of a new nursery, which ends by itself when its owner has."""
        with log.open("ab") as output, Path(os.devnull).open("rb") as nothing:
            python = _python(package)
            return os.posix_spawn(
                python,
                [python, "-m", __name__, package, str(path), str(self._owner_pid)],
                {**os.environ, "PYTHONPATH": str(REPOSITORY)},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, nothing.fileno(), 0),
                    (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                    (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
                ],
                setsid=True,
            )


def _python(package: str) -> str:
    """Return the interpreter of a program: ape has one of its own."""
    return APE_PYTHON if package == "tests.support.ape" else sys.executable


nurseries: list[Nurseries] = []  # of this run, once a fixture has made them


def popen(
    argv: Sequence[str], env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes], stdin: IO[bytes] | None = None
) -> Process:
    """As `subprocess.Popen`, in the checkout and in a session of its own, and forked where that is the same."""
    with contextlib.nullcontext(stdin) if stdin else _nothing() as given:
        if nurseries and forkable(argv, env, str(REPOSITORY)):
            return nurseries[0].fork(argv[2:], env, given, stdout, stderr)
        return subprocess.Popen(
            argv, cwd=REPOSITORY, env=env, stdin=given, stdout=stdout, stderr=stderr, start_new_session=True
        )


def run(argv: Sequence[str], env: Mapping[str, str], timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with the output as text and no input, likewise. It is killed when its time is over."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = popen(argv, env, stdout, stderr)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        told = [_read_whole(each) for each in (stdout, stderr)]
    return subprocess.CompletedProcess(argv, code, *told)


def _read_whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _nothing() -> IO[bytes]:
    return Path(os.devnull).open("rb")


def forkable(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> bool:
    """Whether a fork of a nursery does the same as the command; never where a process has no descriptors."""
    if not hasattr(os, "pidfd_open") or cwd != str(REPOSITORY):
        return False
    if argv[1] != "-m" or argv[2] not in IMPORTS or argv[0] != _python(argv[2]) or "--workers" in argv:
        return False
    return all(os.environ.get(name) == value for name, value in env.items() if name.startswith(READ_AT_START))


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


# ---------------------------------------------------------------- the nursery


@dataclass(frozen=True)
class Request:
    """A program to run, with files for its input and output.

    guarded: the process it must not outlive and the signal that stops it, or None to run without a guard.
    """

    argv: list[str]
    env: dict[str, str]
    guarded: tuple[int, int] | None
    stdin: int
    stdout: int
    stderr: int


class Child:
    """A forked child, as `scripts._local.guard.watch` waits for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ends = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._code(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        signal.pidfd_send_signal(self._ends, sig)

    def _code(self, timeout: float | None) -> int | None:
        if not select.select([self._ends], [], [], timeout)[0]:
            return None
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def opened(path: Path) -> socket.socket:
    """The nursery's socket, where requests may wait from now on."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    unready = path.with_suffix(".unready")
    unready.unlink(missing_ok=True)
    door.bind(str(unready))
    door.listen(64)
    unready.rename(path)
    return door


def attend(door: socket.socket, owner_pid: int) -> Request | None:
    """Forks for each request at the door. Returns the request in the child, and None when the owner is gone."""
    with door, selectors.DefaultSelector() as waiting:
        waiting.register(door, selectors.EVENT_READ)
        asking: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of the child
        while _exists(owner_pid):
            for key, _ in waiting.select(1.0):
                if key.fileobj is not door:
                    pid, caller = asking.pop(key.fd)
                    waiting.unregister(key.fd)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with caller, contextlib.suppress(OSError):
                        caller.sendall(struct.pack("i", code))
                    continue
                caller, _ = door.accept()
                request = _read(caller)
                if request is None:
                    caller.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    caller.close()
                    for descriptor, (_, other) in asking.items():
                        other.close()
                        os.close(descriptor)
                    return request
                for each in (request.stdin, request.stdout, request.stderr):
                    os.close(each)
                with contextlib.suppress(OSError):
                    caller.sendall(struct.pack("i", pid))
                ends = os.pidfd_open(pid)
                asking[ends] = (pid, caller)
                waiting.register(ends, selectors.EVENT_READ)
    return None


def _read(caller: socket.socket) -> Request | None:
    head, files, _, _ = socket.recv_fds(caller, 4, 3)
    if not head:
        return None
    (size,) = struct.unpack("I", head)
    return Request(
        **json.loads(caller.recv(size, socket.MSG_WAITALL)), stdin=files[0], stdout=files[1], stderr=files[2]
    )


def _exists(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def become(request: Request) -> None:
    """Makes this child the program of the request, under a guard if it asks for one; the guard does not return."""
    os.setsid()
    for number, file in enumerate((request.stdin, request.stdout, request.stderr)):
        os.dup2(file, number)
        os.close(file)
    if request.guarded is not None:
        parent_pid, stop_signal = request.guarded
        told = guard.listen()
        pid = os.fork()
        if pid != 0:
            os._exit(guard.watch(Child(pid), told, parent_pid, stop_signal))
        for each in guard.SIGNALS:
            signal.signal(each, signal.default_int_handler if each is signal.SIGINT else signal.SIG_DFL)
        os.setsid()
    for name in list(os.environ):
        del os.environ[name]
    os.environ.update(request.env)
    sys.argv = ["", *request.argv[1:]]


def warm(package: str) -> None:
    """Imports what the package's daemon does, and leaves the rest as in a new interpreter."""
    for module in IMPORTS[package]:
        importlib.import_module(module)
    sys.modules.pop(f"{package}.__main__", None)  # it is to run as the program
    assert threading.active_count() == 1, f"importing {package} starts threads, which a fork would not have"
    gc.collect()
    gc.freeze()  # a collection in the child need not write to what it shares with us


if __name__ == "__main__":
    _package, _path, _owner = sys.argv[1:]
    os.chdir(REPOSITORY)
    _door = opened(Path(_path))
    warm(_package)
    _request = attend(_door, int(_owner))
    if _request is not None:
        become(_request)
        runpy.run_module(_request.argv[0], run_name="__main__", alter_sys=True)
