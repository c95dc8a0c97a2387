"""PgBouncer between us and PostgreSQL: in session mode everything works at its defaults, in transaction mode a daemon
says at its start why it cannot."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy import make_url

from core.config.settings import CHAIN_NAMES
from core.db.channels import CHAIN_INDEXED, RESYNC, IndexStep, listen, notify
from core.db.engine import check_database, connect, make_engine, make_pool
from core.db.leader import lock_key
from core.errors import EXIT_CONFIG, DatabaseRefused
from scripts._local.ports import free_port
from tests.support import programs
from tests.waiting import wait

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
UNPRIVILEGED_ID = 65534

pytestmark = pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed")


@contextlib.contextmanager
def pooled(url: str, mode: str) -> Iterator[str]:
    # Other than a test's own folder, this one may be looked into by others.
    with tempfile.TemporaryDirectory() as folder, _pooled(url, mode, Path(folder)) as through:
        yield through


@contextlib.contextmanager
def _pooled(url: str, mode: str, folder: Path) -> Iterator[str]:
    target, port = make_url(url), free_port()
    (folder / "users").write_text(f'"{target.username}" "{target.password}"\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={target.host} port={target.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\n"
        f"auth_file = {folder / 'users'}\npool_mode = {mode}\n"
    )
    unprivileged = (
        {"user": UNPRIVILEGED_ID, "group": UNPRIVILEGED_ID} if os.getuid() == 0 else {}
    )  # it refuses to run as root
    for each in (folder, *folder.iterdir()):
        each.chmod(0o755)
    assert PGBOUNCER is not None
    with (folder / "log").open("w") as log:
        running = subprocess.Popen(
            [PGBOUNCER, folder / "pgbouncer.ini"],
            stdout=log,
            stderr=log,
            **unprivileged,  # type: ignore[call-overload]
        )
    try:
        wait(lambda: _listens(port), (folder / "log").read_text, 20)
        yield target.set(drivername="postgresql", host="127.0.0.1", port=port).render_as_string(False)
    finally:
        running.terminate()
        running.wait()


def _listens(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


async def test_in_session_mode_everything_works_at_its_defaults(database_url: str) -> None:
    with pooled(database_url, "session") as url:
        await check_database(url)
        async with make_pool(url, size=2) as pool, pool.connection() as connection:
            for name, value in (("timezone", "UTC"), ("statement_timeout", "30s")):
                shown = await (await connection.execute(f"SHOW {name}".encode())).fetchone()
                assert shown == (value,)
        engine = make_engine(url)
        async with engine.connect() as reading:
            assert (await reading.execute(sa.text("SHOW timezone"))).scalar_one() == "UTC"
        await engine.dispose()
        async with contextlib.aclosing(listen(url, CHAIN_INDEXED)) as steps:
            assert await anext(steps) is RESYNC
            async with await connect(url) as telling:
                await telling.execute("SELECT pg_try_advisory_lock(%s)", (lock_key("a test of the pooler"),))
                await notify(telling, CHAIN_INDEXED, IndexStep(1, 2))
                assert await anext(steps) == IndexStep(1, 2)


@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_a_mode_without_sessions_is_refused_at_the_start(mode: str, database_url: str) -> None:
    with pooled(database_url, mode) as url:
        with pytest.raises(DatabaseRefused, match="shares one session among clients") as refused:
            await check_database(url)
        assert "pool_mode = session" in refused.value.sentence()
        assert refused.value.exit_code == EXIT_CONFIG
        password = make_url(url).password
        assert password
        assert password not in refused.value.sentence()


@pytest.mark.parametrize("daemon", ["api", "indexer", "keeper", "relayer"])
def test_no_daemon_starts_on_a_mode_without_sessions(daemon: str, database_url: str) -> None:
    with pooled(database_url, "transaction") as url:
        env = {"DATABASE_URL": url, "VPM_RELAYER_KEYS": "0x" + "11" * 32, "VPM_PORT": "0"}
        env |= {f"VPM_{name.upper()}_RPC_URLS": "http://127.0.0.1:9" for name in CHAIN_NAMES}
        env |= {f"VPM_{name}_METRICS_PORT": "0" for name in ("API", "INDEXER", "KEEPER", "RELAYER")}
        ended = programs.run([sys.executable, "-m", daemon], {"PATH": os.environ["PATH"], **env}, timeout=60)
    assert ended.returncode == EXIT_CONFIG, ended.stdout + ended.stderr
    assert "pool_mode = session" in ended.stdout + ended.stderr
