"""The embedded PostgreSQL: made, started, stopped, found again, and gone when its owner dies."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from core.errors import ProcessError
from core.paths import REPOSITORY
from scripts._local.ports import free_port
from scripts._local.postgres import (
    PROGRAMS,
    UNPRIVILEGED,
    UNSAFE_BUT_FAST,
    PostgresServer,
    is_ready,
    prepare_postgres,
    start_postgres,
)
from scripts._local.process import SpawnPlan, start_process
from tests.support.postgres_cleanup import forget_postgres
from tests.waiting import wait


@pytest.fixture
def state() -> Iterator[Path]:
    """Return a state folder that an unprivileged user can enter; pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(prefix="vpm-state-"))
    folder.chmod(0o755)
    yield folder
    for kept in ("pg", "closed/pg"):
        forget_postgres(folder / kept)
    shutil.rmtree(folder, ignore_errors=True)


def _prepare(state: Path) -> PostgresServer:
    return prepare_postgres(state / "pg", free_port(), settings=UNSAFE_BUT_FAST)


@pytest.mark.thorough
def test_data_survives_a_restart_on_another_port(state: Path) -> None:
    first = _prepare(state)
    running = start_postgres(first, state / "log")
    with psycopg.connect(first.url(), autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        shown = connection.execute("SHOW server_version_num").fetchone()
        assert shown is not None
        assert int(shown[0]) >= 180000
    running.stop()
    assert not running.alive()
    assert not is_ready(first)
    second = _prepare(state)
    assert second.password == first.password
    assert second.port != first.port
    running = start_postgres(second, state / "log")
    try:
        with psycopg.connect(second.url()) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    finally:
        running.stop()


@pytest.mark.thorough
def test_connecting_needs_the_password(state: Path) -> None:
    server = _prepare(state)
    running = start_postgres(server, state / "log")
    try:
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(f"postgresql://vpm@127.0.0.1:{server.port}/postgres")
        assert (server.data_dir.parent / "password").stat().st_mode & 0o077 == 0
        assert server.password not in repr(server)
    finally:
        running.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
@pytest.mark.thorough
def test_as_root_it_runs_as_an_unprivileged_user(state: Path) -> None:
    server = _prepare(state)
    assert server.plan.user == UNPRIVILEGED
    running = start_postgres(server, state / "log")
    try:
        assert server.data_dir.stat().st_uid == UNPRIVILEGED
    finally:
        running.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
@pytest.mark.thorough
def test_a_folder_closed_to_others_moves_the_data_and_says_so(state: Path) -> None:
    (state / "closed").mkdir(mode=0o700)
    server = prepare_postgres(state / "closed" / "pg", free_port(), settings=UNSAFE_BUT_FAST)
    assert str(server.data_dir).startswith(tempfile.gettempdir())
    assert str(server.data_dir.parent) in server.note
    running = start_postgres(server, state / "log")
    try:
        assert is_ready(server)
        again = prepare_postgres(state / "closed" / "pg", free_port())
        assert again.data_dir == server.data_dir, "found again at the next start"
    finally:
        running.stop()
    forget_postgres(state / "closed" / "pg")
    assert not server.data_dir.parent.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
@pytest.mark.thorough
def test_a_folder_made_anew_does_not_find_the_data_of_one_that_was_removed(state: Path) -> None:
    """Otherwise new chains would start on a database full of the old ones."""
    (state / "closed").mkdir(mode=0o700)
    server = prepare_postgres(state / "closed" / "pg", free_port(), settings=UNSAFE_BUT_FAST)
    name = "of-the-old-one"
    (server.data_dir / name).touch()
    assert (prepare_postgres(state / "closed" / "pg", free_port()).data_dir / name).exists()
    shutil.rmtree(state / "closed" / "pg")
    try:
        assert not (prepare_postgres(state / "closed" / "pg", free_port()).data_dir / name).exists()
    finally:
        forget_postgres(state / "closed" / "pg")
        shutil.rmtree(server.data_dir.parent)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes its user")
@pytest.mark.thorough
def test_binaries_closed_to_others_are_copied(state: Path) -> None:
    closed = state / "closed"
    closed.mkdir(mode=0o700)
    package = PROGRAMS.parent
    for folder in (package, *package.parent.glob(f"{package.name}.libs")):
        shutil.copytree(folder, closed / folder.name, symlinks=True)
    programs = closed / package.name / PROGRAMS.name
    server = prepare_postgres(closed / "pg", free_port(), settings=UNSAFE_BUT_FAST, programs=programs)
    assert not server.plan.argv[0].startswith(str(closed))
    running = start_postgres(server, state / "log")
    running.stop()


@pytest.mark.thorough
def test_a_second_server_on_the_same_data_is_refused_by_name(state: Path) -> None:
    server = _prepare(state)
    running = start_postgres(server, state / "log")
    try:
        with pytest.raises(ProcessError, match="already running on") as e:
            start_postgres(_prepare(state), state / "log2")
        assert "another state folder" in e.value.hint
    finally:
        running.stop()


@pytest.mark.thorough
def test_after_a_crash_it_starts_again(state: Path) -> None:
    server = _prepare(state)
    running = start_postgres(server, state / "log")
    running.kill()
    assert (server.data_dir / "postmaster.pid").exists()
    running = start_postgres(server, state / "log")
    running.stop()


def test_an_unfinished_first_start_is_begun_again(state: Path) -> None:
    half = state / "pg" / "data"
    half.mkdir(parents=True)
    (half / "leftover").write_text("")
    server = _prepare(state)
    assert (server.data_dir / "PG_VERSION").exists()
    assert not (server.data_dir / "leftover").exists()


# The guard


def _sleeper(tmp_path: Path, **options: object) -> SpawnPlan:
    """Return the plan of a program that starts a child, which writes its process id."""
    program = f"sleep 60 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/self; wait"
    return SpawnPlan("sleeper", ("/bin/sh", "-c", program), env={"PATH": os.environ["PATH"]}, **options)  # type: ignore[arg-type]


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_stopping_ends_the_program_and_its_children(tmp_path: Path) -> None:
    running = start_process(_sleeper(tmp_path), tmp_path / "log")
    wait((tmp_path / "self").exists)
    running.stop()
    for name in ("self", "child"):
        pid = int((tmp_path / name).read_text())
        wait(lambda pid=pid: _gone(pid))  # type: ignore[misc]


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    program = f"trap '' TERM; echo $$ > {tmp_path}/self; while :; do sleep 0.1; done"
    plan = SpawnPlan("deaf", ("/bin/sh", "-c", program), env={"PATH": os.environ["PATH"]})
    running = start_process(plan, tmp_path / "log")
    wait((tmp_path / "self").exists)
    running.stop(timeout_seconds=0.5)
    assert _gone(int((tmp_path / "self").read_text()))


def test_the_program_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner_code = (
        "import time, sys\nfrom pathlib import Path\n"
        "from scripts._local.process import SpawnPlan, start_process\n"
        f"start_process(SpawnPlan('s', ('/bin/sleep', '60'), env={{}}), Path({str(tmp_path / 'log')!r}))\n"
        "print('started', flush=True)\ntime.sleep(60)\n"
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen([sys.executable, "-c", owner_code], stdout=subprocess.PIPE, env=env) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"started\n"
        children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children")
        if not children.exists():
            owner.kill()
            pytest.skip("this system does not list a process's children")
        sleeper = int(children.read_text().split()[0])
        owner.send_signal(signal.SIGKILL)
    wait(lambda: _gone(sleeper))


def test_a_program_that_does_not_exist_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="none cannot be run: No such file or directory"):
        start_process(SpawnPlan("none", ("/no/such/program",), env={}), tmp_path / "log")
