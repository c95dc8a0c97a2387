"""Fixtures every test may use: one PostgreSQL per run, a fresh migrated database per module, local chains on demand.

- `postgres`: the server, started when first asked for and shared by all workers of a parallel run.
  `VPM_TEST_DATABASE_URL` names another one to use instead; its user must be allowed to create databases.
- `database_url`: the URL of a database of this module's own, migrated, dropped afterwards.
- `fresh_database_url`: the same for a single test.
- `anvil`: a function that starts a local chain; all of them end with the test (`module_anvil`: with the module).
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql
from sqlalchemy import make_url

from core.db.engine import conninfo
from core.db.migrate import migrate
from core.errors import ProcessError
from scripts._local.anvil import AnvilOptions, start_anvil
from scripts._local.ports import free_port
from scripts._local.process import RunningProcess
from tests.support import programs, questions

# How long an example takes says nothing about what is right: two cores may be busy with something else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

pytest_plugins = ("tests.support.fixtures",)

TEMPLATE = "vpm_template"
_STATE = "postgres.json"
_SERVER = pytest.StashKey[subprocess.Popen[bytes]]()
_SCREEN = pytest.StashKey[int]()
# Tests that real clocks can fail where nothing is wrong, by folder or file. One of these that fails is run again, and
# the summary names it; any other test fails at once.
FLAKY = {
    "browser": "a browser and a whole service share two cores",
    "faults": "processes are killed at random instants, and leases and timeouts are real",
    "integration/test_agent_crowd.py": "three hundred trades at once have real deadlines",
    "integration/test_client_gateways.py": "libraries wait for a keeper's blocks and finality by real seconds",
    "integration/test_alert_path.py": "Prometheus and Alertmanager wait by their own clocks",
    "contracts/test_deploying_live.py": "a deployment is killed at random instants",
    "integration/test_db_local_postgres.py": "processes are killed, and watched by real seconds",
    "integration/test_index_daemon.py": "leadership passes between real processes by real seconds",
    "integration/test_keeper_agent.py": "the keeper's jobs run by the wall clock and a chain's",
    "integration/test_keeper_life.py": "the keeper's jobs run by the wall clock and a chain's",
    "integration/test_kms_keys.py": "patience with a key service is real seconds",
    "integration/test_kms_relayer.py": "leases and the patience with a key service are real seconds",
    "integration/test_pool_feed_service.py": "the keeper's jobs run by the wall clock and a chain's",
    "integration/test_relayer_daemon.py": "leases are real seconds",
    "integration/test_relayer_lanes.py": "leases are real seconds",
    "integration/test_relayer_life.py": "leases are real seconds",
    "integration/test_relayer_repair.py": "a stuck transaction's patience is real seconds",
    "integration/test_rpc_hostile.py": "timeouts of requests are real",
    "integration/test_stack.py": "a whole stack starts, and its rounds go by the wall clock",
    "integration/test_stock_cron.py": "a keeper settles by the wall clock what the calls ask for",
    "integration/test_stock_relay.py": "answers are waited for by real seconds while a relayer works",
}
# After a test's own limit, which pytest-timeout keeps and gives up when the test has failed.
LAST_SECONDS = 120.0


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SCREEN] = os.dup(2)  # before the output of tests is caught


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        path = item.path.relative_to(Path(__file__).parent)
        if reason := FLAKY.get(path.parts[0]) or FLAKY.get(str(path)):
            item.add_marker(pytest.mark.flaky(reruns=1, reason=reason))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a process whose test hangs beyond its limit, for one in a teardown, and print where each thread was."""
    if item.config.getoption("usepdb"):
        return (yield)
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker else item.config.getini("timeout"))
    faulthandler.dump_traceback_later(2 * limit + LAST_SECONDS, exit=True, file=item.config.stash[_SCREEN])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@dataclass(frozen=True)
class TestPostgres:
    """A running server and the URL of its maintenance database."""

    __test__ = False
    url: str

    def database(self, name: str) -> str:
        return make_url(self.url).set(drivername="postgresql", database=name).render_as_string(False)

    def create(self, *, migrated: bool = True) -> str:
        """A new database, a copy of the migrated template by default; returns its URL."""
        name = f"vpm_{secrets.token_hex(6)}"
        with psycopg.connect(conninfo(self.url), autocommit=True) as connection:
            template = sql.Identifier(TEMPLATE if migrated else "template0")
            # Its files are copied: to write them to the log as well takes twice the time.
            create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
            connection.execute(create.format(sql.Identifier(name), template))
        return self.database(name)

    def drop(self, url: str) -> None:
        name = make_url(url).database or ""
        with psycopg.connect(conninfo(self.url), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def drop_beside(self, url: str) -> None:
        """Without waiting: PostgreSQL drops a database when every backend of the server, of whichever worker's test,
        has let go of its files, and one that writes to a client that does not read does so late."""
        questions.let_go(url)

        def drop() -> None:
            with contextlib.suppress(psycopg.Error):  # the server ends with the run, and this database with it
                self.drop(url)

        threading.Thread(target=drop, daemon=True).start()


def _owner_pid(config: pytest.Config) -> int:
    """The process whose end must end the server: of a parallel run, the controller, whose child every worker is."""
    return os.getppid() if hasattr(config, "workerinput") else os.getpid()


def _run_dir(config: pytest.Config) -> Path:
    """A folder that only the workers of this run share."""
    return Path(tempfile.gettempdir()) / f"vpm-tests-{_owner_pid(config)}"


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> TestPostgres:
    given = os.environ.get("VPM_TEST_DATABASE_URL")
    run_dir = _run_dir(pytestconfig)
    run_dir.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (run_dir / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = run_dir / _STATE
        if not state.exists():
            url, pid = given, None
            if url is None:
                url, holder = _start_server(run_dir, _owner_pid(pytestconfig))
                pid, pytestconfig.stash[_SERVER] = holder.pid, holder
            server = TestPostgres(url)
            if given is None:
                _make_passwords_quick(server)
            _make_template(server)
            state.write_text(json.dumps({"url": url, "pid": pid}))
        return TestPostgres(json.loads(state.read_text())["url"])


def _start_server(run_dir: Path, owner_pid: int) -> tuple[str, subprocess.Popen[bytes]]:
    """Start PostgreSQL for all workers of this run; its URL, and the process that stops it on SIGTERM."""
    argv = [sys.executable, "-m", "tests.support.shared_postgres", str(run_dir), str(owner_pid)]
    with (run_dir / "shared.log").open("wb") as log:
        holder = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    assert holder.stdout is not None
    with holder.stdout as output:
        url = output.readline().decode().strip()
    assert url, (run_dir / "shared.log").read_text()
    return url, holder


def _make_passwords_quick(server: TestPostgres) -> None:
    """Checked in a single round: thousands of connections are made, and this password needs no protection."""
    url = make_url(server.url)
    with psycopg.connect(conninfo(server.url), autocommit=True) as connection:
        connection.execute("SET scram_iterations = 1")
        same = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
            sql.Identifier(url.username or ""), sql.Literal(url.password)
        )
        connection.execute(same)


def _make_template(server: TestPostgres) -> None:
    """The migrated database that every module's is copied from."""
    server.drop(server.database(TEMPLATE))
    with psycopg.connect(conninfo(server.url), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(TEMPLATE)))
    migrate(server.database(TEMPLATE))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The controller stops what any worker started."""
    if hasattr(session.config, "workerinput"):
        return
    folder = _run_dir(session.config)
    if _SERVER in session.config.stash:
        session.config.stash[_SERVER].terminate()
        session.config.stash[_SERVER].wait()
    with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
        pid = json.loads((folder / _STATE).read_text())["pid"]
        if pid is not None:
            _stop_server(pid)
    shutil.rmtree(folder, ignore_errors=True)


def _stop_server(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
        for _ in range(200):
            os.kill(pid, 0)
            time.sleep(0.05)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no later collection of garbage needs to look through it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def forked_programs() -> Iterator[None]:
    """Fork every daemon that a test starts from a process that has imported it: tests/support/programs.py."""
    with programs.forked():
        yield


@pytest.fixture(scope="module")
def database_url(postgres: TestPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop_beside(url)


@pytest.fixture
def fresh_database_url(postgres: TestPostgres) -> Iterator[str]:
    url = postgres.create()
    yield url
    postgres.drop_beside(url)


@dataclass(frozen=True)
class Anvil:
    """A running local chain."""

    options: AnvilOptions
    process: RunningProcess

    @property
    def url(self) -> str:
        return self.options.url

    @property
    def ws_url(self) -> str:
        return self.options.ws_url

    @property
    def chain_id(self) -> int:
        return self.options.chain_id

    def stop(self) -> None:
        self.process.stop()


StartAnvil = Callable[..., Anvil]


@contextlib.contextmanager
def _chains(folder: Path) -> Iterator[StartAnvil]:
    started: list[Anvil] = []

    def start(chain_id: int = 31337, **options: Any) -> Anvil:
        """Options as in scripts._local.anvil.AnvilOptions; the port is a free one unless given."""
        wanted = AnvilOptions(chain_id=chain_id, port=options.pop("port", 0), **options)
        for attempt in range(3):
            chosen = wanted if wanted.port else replace(wanted, port=free_port())
            try:
                process = start_anvil(chosen, folder / f"anvil-{len(started)}.log")
            except ProcessError:
                if attempt == 2 or wanted.port:
                    raise
                continue
            started.append(Anvil(chosen, process))
            return started[-1]
        raise AssertionError("unreachable")

    try:
        yield start
    finally:
        for chain in started:
            chain.stop()


@pytest.fixture
def anvil(tmp_path: Path) -> Iterator[StartAnvil]:
    with _chains(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def module_anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartAnvil]:
    with _chains(tmp_path_factory.mktemp("anvil")) as start:
        yield start
