"""PostgreSQL hangs: all its processes are stopped, the kernel still takes connections, and no response comes. Four
daemons run without chains; the requests go to the cup, whose record is the database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from core.db.engine import conninfo, make_engine, make_pool
from core.db.migrate import migrate
from core.paths import REPOSITORY
from scripts._local.ports import free_port
from scripts._local.postgres import UNSAFE_BUT_FAST, PostgresServer, prepare_postgres, start_postgres
from scripts._stack.parts import CUP_WINDOW
from tests.support.cup_rig import UNACCOUNTED
from tests.support.hung_servers import hung, pid_of_postgres
from tests.support.service import Service, serving
from tests.waiting import until

DAEMONS = ("api", "indexer", "keeper", "relayer")
CUP = "/api/cup/v1"
# A caller that waits for longer has gone: what is asked while PostgreSQL hangs is answered before.
ANSWERED_SECONDS = 25.0


@pytest.fixture
def postgres_alone(tmp_path: Path) -> Iterator[PostgresServer]:
    """Run a server that no other test uses."""
    server = prepare_postgres(tmp_path / "postgres", free_port(), settings=UNSAFE_BUT_FAST)
    running = start_postgres(server, tmp_path / "postgres.log")
    yield server
    running.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWERED_SECONDS)) as opened:
        yield opened


@pytest.fixture
def service(postgres_alone: PostgresServer, tmp_path: Path) -> Iterator[Service[None]]:
    migrate(postgres_alone.url())
    env = {"VPM_CUP_OPENS_AT": CUP_WINDOW[0], "VPM_CUP_CLOSES_AT": CUP_WINDOW[1]}
    no_node = {"VPM_BASE_RPC_URLS": f"http://127.0.0.1:{free_port()}", "VPM_RELAYER_KEYS": f"relay=0x{1:064x}"}
    with serving(Service[None], None, postgres_alone.url(), REPOSITORY / "deployments", tmp_path, env) as made:
        made.start("api", "indexer", "keeper")
        made.start("relayer", **no_node)
        yield made


async def _asked(session: aiohttp.ClientSession, url: str, body: object = None) -> tuple[int, Any]:
    async with session.request("GET" if body is None else "POST", url, json=body) as response:
        is_json = "json" in response.content_type
        return response.status, await response.json() if is_json else await response.text()


async def _health(session: aiohttp.ClientSession, service: Service[None]) -> dict[str, bool]:
    """Return by daemon whether it reports that the database responds."""
    said = {}
    for name in DAEMONS:
        status, body = await _asked(session, service.metrics_url(name).replace("/metrics", "/health"))
        (holds,) = [check["ok"] for check in body["checks"] if check["name"] == "database"]
        assert holds or status == 503, "a daemon whose check fails is not healthy"
        said[name] = holds
    return said


async def test_what_is_asked_while_postgresql_hangs_is_answered_and_all_recovers(
    service: Service[None], postgres_alone: PostgresServer, session: aiohttp.ClientSession
) -> None:
    wallets = [f"0x{number:040x}" for number in range(1, 21)]
    board, wheel = f"{service.url}{CUP}/leaderboard", f"{service.url}/roulette"
    claims = f"{service.url}{CUP}/wallet"
    assert (await _asked(session, claims, {"walletAddress": wallets[0]}))[0] == 200
    assert (await _asked(session, board))[0] == 200
    assert await _health(session, service) == dict.fromkeys(DAEMONS, True)

    with hung(pid_of_postgres(postgres_alone)):
        asked = [_asked(session, claims, {"walletAddress": wallet}) for wallet in wallets]
        asked += [_asked(session, f"{service.url}{CUP}/wallet/{wallet}") for wallet in wallets]
        answers = await asyncio.gather(*asked, _asked(session, wheel))
        assert {status for status, _ in answers[:-1]} == {503}, answers
        assert {body["error"] for _, body in answers[:-1]} == {"unavailable"}
        assert answers[-1][0] in (200, 503), "the page says that the cup cannot be shown"
        assert await _health(session, service) == dict.fromkeys(DAEMONS, False)
        for name in DAEMONS:
            await until(lambda name=name: "vpm_database_silent 1.0" in service.metrics(name), f"{name} to count itself")

    async def healthy() -> bool:
        return all((await _health(session, service)).values())

    async def claimed() -> bool:
        return all([(await _asked(session, claims, {"walletAddress": wallet}))[0] == 200 for wallet in wallets])

    await until(healthy, "healthy daemons")
    await until(claimed, "every claim")
    for name in DAEMONS:
        await until(lambda name=name: "vpm_database_silent 0.0" in service.metrics(name), f"{name} to write again")
        assert service.running[name].alive(), service.running[name].tail()
    assert {(await _asked(session, url))[0] for url in (board, wheel)} == {200}
    with psycopg.connect(conninfo(postgres_alone.url())) as connection:
        minted = connection.execute("SELECT count(*) FROM cup_entry WHERE account = 'mint'").fetchone()
        assert minted == (len(wallets),), "each wallet's claim is minted once"
        assert connection.execute(UNACCOUNTED).fetchone() == (0,)


async def test_a_wait_for_a_hung_server_ends_and_its_connection_is_not_used_again(
    postgres_alone: PostgresServer,
) -> None:
    url = postgres_alone.url()
    engine = make_engine(url, pool_size=2, connect_timeout_seconds=2, answer_seconds=3)
    try:
        async with make_pool(url, size=2, autocommit=True, connect_timeout_seconds=2, answer_seconds=3) as pool:
            async with pool.connection() as one, pool.connection() as other, engine.connect() as third:
                raw = await third.get_raw_connection()
                before = {one.info.backend_pid, other.info.backend_pid, raw.driver_connection.info.backend_pid}
                with hung(pid_of_postgres(postgres_alone)):
                    async with asyncio.timeout(ANSWERED_SECONDS):
                        with pytest.raises(psycopg.OperationalError):
                            await one.execute("SELECT 1")
                        with pytest.raises(TimeoutError):  # the caller's own deadline is kept, too
                            async with asyncio.timeout(0.5):
                                await other.execute("SELECT 1")
                        with pytest.raises(DBAPIError, match="server closed the connection"):
                            await third.exec_driver_sql("SELECT 1")
                    assert one.closed
                    assert other.closed
            async with pool.connection() as one, pool.connection() as other, engine.connect() as third:
                raw = await third.get_raw_connection()
                after = {one.info.backend_pid, other.info.backend_pid, raw.driver_connection.info.backend_pid}
                assert not before & after
                for each in (one, other):
                    cursor = await each.execute("SELECT 2")
                    assert await cursor.fetchone() == (2,)
    finally:
        await engine.dispose()
