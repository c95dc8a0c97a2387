"""A fork server: starts our programs by forking a process that has already imported their modules. Importing a daemon
takes two seconds of processor time and a hundred megabytes, most of it for modules that all daemons share. Importing
ape takes four seconds.

`python -m scripts._local.forking ARGUMENTS` reads requests from the socket on its standard input. Each request carries
the three standard files of a program, and the response is the program's pid. The requesting process adopts the forked
program and signals it like any other child. The server itself runs no program. Forking requires Linux. On other
systems, each program starts in a new interpreter.
"""

from __future__ import annotations

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO

from core.paths import REPOSITORY

PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
READ_AT_STARTUP = ("PYTHON", "LD_", "TZ", "LC_", "LANG")
"""Prefixes of variables that Python or a library reads at startup: a fork has its server's values."""


class ForkServer:
    """A process that imports programs' modules and forks the programs. If `eager`, it imports all modules in advance.
    Otherwise it imports a program's modules when that program is first requested.

    imports: the modules to import, by program.
    env: the server's environment, by default this process's environment.
    """

    def __init__(
        self,
        imports: Mapping[str, Sequence[str]],
        python: str = sys.executable,
        env: Mapping[str, str] | None = None,
        *,
        eager: bool = False,
    ) -> None:
        self._imports, self._python = imports, python
        self._socket, server_side = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._lock = threading.Lock()
        with server_side:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            argv = [python, "-m", __name__, json.dumps({"imports": imports, "eager": eager})]
            self._server = subprocess.Popen(
                argv,
                stdin=server_side.fileno(),
                cwd=REPOSITORY,
                env=env,
                start_new_session=True,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it only makes two system calls
            )

    def can_fork(self, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> bool:
        """Return whether forking would have the same effect as running the command."""
        if cwd != str(REPOSITORY) or argv[0] != self._python or argv[1] != "-m" or argv[2] not in self._imports:
            return False
        return all(os.environ.get(name) == value for name, value in env.items() if name.startswith(READ_AT_STARTUP))

    def fork(
        self, argv: Sequence[str], env: Mapping[str, str], files: Sequence[IO[bytes]], orphan_signal: int
    ) -> ForkedProcess:
        parameters = {"argv": list(argv[2:]), "env": dict(env), "owner": os.getpid(), "orphan_signal": orphan_signal}
        request = json.dumps(parameters).encode()
        with self._lock, contextlib.suppress(OSError):
            socket.send_fds(self._socket, [struct.pack("I", len(request))], [each.fileno() for each in files])
            self._socket.sendall(request)
            if pid := self._socket.recv(4, socket.MSG_WAITALL):
                return ForkedProcess(struct.unpack("i", pid)[0])
        raise RuntimeError(f"the fork server of {argv[2]} has ended (exit code {self._server.poll()})")

    def close(self) -> None:
        """Stop the server. The programs that it has forked keep running."""
        self._socket.close()
        self._server.kill()  # it may still be importing
        self._server.wait()


class ForkedProcess:
    """A forked child process. It has the part of `subprocess.Popen`'s interface that we use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)
        self._reap_lock = threading.Lock()

    def __del__(self) -> None:
        os.close(self._pidfd)

    def poll(self) -> int | None:
        return self._exit_code(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._exit_code(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, sig: int, /) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _exit_code(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._pidfd], [], [], timeout)[0]:
            with self._reap_lock:
                if self.returncode is None:
                    self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


servers: list[ForkServer] = []
"""The fork servers of this process; `scripts._local.process` tries them before it starts a new interpreter."""


def can_serve() -> bool:
    return sys.platform.startswith("linux") and hasattr(os, "pidfd_open")


@contextlib.contextmanager
def serving(start: Callable[[], ForkServer]) -> Iterator[None]:
    """Run a fork server in this context, if the platform allows it. `close_servers` can stop the server earlier."""
    if not can_serve():
        yield
        return
    server = start()
    servers.insert(0, server)
    try:
        yield
    finally:
        if server in servers:
            servers.remove(server)
            server.close()


def close_servers() -> None:
    """Stop all fork servers, because each takes as much memory as a program."""
    while servers:
        servers.pop().close()
    if can_serve():
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def die_with_parent(number: int = signal.SIGKILL) -> Callable[[], None] | None:
    """Return a preexec function that makes the kernel signal the child when this process dies, for whatever reason.
    Return None on systems other than Linux. Start the child from the main thread: the signal is sent when the thread
    that started the child ends."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def in_child() -> None:
        libc.prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(1)

    return in_child


# ---------------------------------------------------------------- the server


def main() -> None:
    requests = socket.socket(fileno=os.dup(0))
    arguments = json.loads(sys.argv[1])
    missing: dict[str, list[str]] = arguments["imports"]
    while True:
        while arguments["eager"] and missing and not select.select([requests], [], [], 0)[0]:
            _import(missing, next(iter(missing)))
        head, files, _, _ = socket.recv_fds(requests, 4, 3)
        if not head:
            return  # the requesting process has ended
        (size,) = struct.unpack("I", head)
        request = json.loads(requests.recv(size, socket.MSG_WAITALL))
        _import(missing, request["argv"][0])
        reads, writes = os.pipe()
        intermediate = os.fork()
        if intermediate == 0:
            os.close(reads)
            requests.close()
            _run_program(files, writes, **request)
        os.close(writes)
        for each in files:
            os.close(each)
        os.waitpid(intermediate, 0)
        with os.fdopen(reads, "rb") as pipe:
            requests.sendall(pipe.read(4))


def _import(missing: dict[str, list[str]], program: str) -> None:
    for module in missing.pop(program, ()):
        importlib.import_module(module)
    for name in (program, f"{program}.__main__"):  # it will run again as __main__
        if not hasattr(sys.modules.get(name), "__path__"):
            sys.modules.pop(name, None)
    assert threading.active_count() == 1, "an import started threads, which a fork would not have"
    gc.collect()
    gc.freeze()  # so that garbage collection in a program does not copy shared pages


def _run_program(
    files: Sequence[int], writes: int, argv: list[str], env: dict[str, str], owner: int, orphan_signal: int
) -> None:
    """Fork again, run the program in the new process, and exit this process, so that the owner adopts the new one."""
    intermediate = os.getpid()
    pid = os.fork()
    if pid != 0:
        os.write(writes, struct.pack("i", pid))
        os._exit(0)
    os.close(writes)
    while os.getppid() == intermediate:
        time.sleep(0.001)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, orphan_signal)
    if os.getppid() != owner:  # the parent has already ended
        os._exit(1)
    libc.prctl(PR_SET_NAME, argv[0].encode())
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["", *argv[1:]]
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
