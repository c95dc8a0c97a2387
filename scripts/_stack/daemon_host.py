"""Forks the daemons of a stack from one process that has imported all of them: they share what they import.

Importing a daemon takes two seconds of processor time and a hundred megabytes, and four daemons import much the same.
`python -m scripts._stack.daemon_host` reads requests from the socket that is its standard input, with the file the
daemon is to write to; the answer is the daemon's pid. What it forks ends up as a child of the supervisor, which
watches it, signals it and waits for it as for any other. It runs nothing of a daemon itself, and knows no key: a daemon
is given its environment when it is forked.

Only on Linux, where a process can be handed on like this; elsewhere each daemon is a new interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.paths import REPOSITORY
from scripts._local.process import PR_SET_PDEATHSIG, die_with_parent

PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 15, 36
IMPORTS = {
    "scripts._stack": "scripts._stack.__main__",
    "indexer": "indexer.cli",
    "relayer": "relayer.service",
    "keeper": "keeper.__main__",
    "api": "api.__main__",
    "scripts._demo": "scripts._demo.__main__",
}
"""What each program imports before it runs. The API's own are half of all, and nobody else's: whoever is forked before
them starts meanwhile, and does not carry them."""


class DaemonHost:
    """The supervisor's side: a process that is importing what daemons need, or has."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=theirs.fileno(),
                cwd=REPOSITORY,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - this process has no other threads yet
            )
        self._door = ours
        self._one_at_a_time = threading.Lock()

    def can(self, argv: Sequence[str]) -> bool:
        return list(argv[:2]) == [sys.executable, "-m"] and argv[2] in IMPORTS

    async def fork(self, argv: Sequence[str], env: Mapping[str, str], output: int, orphan_signal: int) -> ForkedProcess:
        request = {"argv": list(argv[2:]), "env": dict(env), "owner": os.getpid(), "orphan_signal": orphan_signal}
        return ForkedProcess(await asyncio.to_thread(self._ask, json.dumps(request).encode(), output))

    def _ask(self, request: bytes, output: int) -> int:
        with self._one_at_a_time, contextlib.suppress(OSError):
            socket.send_fds(self._door, [struct.pack("I", len(request))], [output])
            self._door.sendall(request)
            if pid := self._door.recv(4, socket.MSG_WAITALL):
                return int(struct.unpack("i", pid)[0])
        raise RuntimeError(f"what forks the daemons ended (exit code {self._process.poll()})")

    def close(self) -> None:
        """Nothing more is forked; what was goes on."""
        if self._process.poll() is not None:
            return
        self._door.close()
        self._process.kill()  # it may still be importing
        self._process.wait()
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class ForkedProcess:
    """A process handed to us, with what the supervisor uses of `asyncio.subprocess.Process`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ends = os.pidfd_open(pid)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._ends, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._ends)
        os.close(self._ends)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is not None:
            raise ProcessLookupError(self.pid)
        os.kill(self.pid, number)


def can_host() -> bool:
    return sys.platform.startswith("linux") and hasattr(os, "pidfd_open")


# ---------------------------------------------------------------- the host


@dataclass(frozen=True)
class ForkRequest:
    """A daemon to fork: what follows `python -m`, its whole environment, and whose child it is to be."""

    argv: list[str]
    env: dict[str, str]
    owner: int
    orphan_signal: int
    output: int


def main() -> None:
    door = socket.socket(fileno=os.dup(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor, whose end is ours
    missing = list(IMPORTS)
    while True:
        while missing and not select.select([door], [], [], 0)[0]:
            _import(missing.pop(0))
        request = _read(door)
        if request is None:
            return
        if (package := request.argv[0]) in missing:
            missing.remove(package)
            _import(package)
        reads, writes = os.pipe()
        between = os.fork()
        if between == 0:
            _become(request, door, reads, writes)
        os.close(writes)
        os.close(request.output)
        os.waitpid(between, 0)
        with os.fdopen(reads, "rb") as pipe:
            door.sendall(pipe.read(4))


def _import(package: str) -> None:
    importlib.import_module(IMPORTS[package])
    sys.modules.pop(f"{package}.__main__", None)  # it is to run as the program
    assert threading.active_count() == 1, "an import starts threads, which a fork would not have"
    gc.collect()
    gc.freeze()  # a collection in a daemon need not write to what it shares with the others


def _read(door: socket.socket) -> ForkRequest | None:
    head, files, _, _ = socket.recv_fds(door, 4, 1)
    if not head:
        return None
    (size,) = struct.unpack("I", head)
    return ForkRequest(**json.loads(door.recv(size, socket.MSG_WAITALL)), output=files[0])


def _become(request: ForkRequest, door: socket.socket, reads: int, writes: int) -> None:
    """In a fork: forks once more and ends, so that the second one is an orphan, which goes to the supervisor."""
    between = os.getpid()
    pid = os.fork()
    if pid != 0:
        os.write(writes, struct.pack("i", pid))
        os._exit(0)
    door.close()
    os.close(reads)
    os.close(writes)
    while os.getppid() == between:
        time.sleep(0.001)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, request.orphan_signal)
    if os.getppid() != request.owner:  # it ended meanwhile
        os._exit(1)
    libc.prctl(PR_SET_NAME, request.argv[0].encode())
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (request.output, 1), (request.output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(request.output)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request.env)
    sys.argv = ["", *request.argv[1:]]
    runpy.run_module(request.argv[0], run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
