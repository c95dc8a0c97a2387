"""A shared cache before the API, configured as shipped: it keeps public reads, and nothing of a wallet's own.

The cache is a real nginx (Debian: `apt install nginx-light`).
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from core.paths import REPOSITORY
from scripts._local.ports import free_port
from scripts._local.process import SpawnPlan, start_process
from scripts._stack import wallets
from tests.support.genesis import Genesis, RunningChain
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service
from tests.waiting import PATIENCE

SHIPPED = REPOSITORY / "deployments" / "cdn" / "vpm-cache.conf"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

pytestmark = pytest.mark.skipif(NGINX is None, reason="there is no nginx on this machine: apt install nginx-light")


@dataclass(frozen=True)
class Fronted:
    service: StockService
    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str, **headers: str) -> tuple[int, str | None, aiohttp.ClientResponse, bytes]:
        given = {"Accept-Encoding": "identity", **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.session.get(self.url + path, headers=given) as response:
            return response.status, response.headers.get("X-Cache"), response, await response.read()


@pytest.fixture(scope="module")
def service(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StockService]:
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    folder = tmp_path_factory.mktemp("fronted")
    with stock_service(chain, database_url, local_genesis.deployments, folder, VPM_TRUST_PROXY="1") as service:
        chain.push(FLAT_PRICE)
        service.start("indexer", "api")
        chain.enter(wallets.DEV[2], chain.open_market(strike_in=3_600, lasts=60, seed=USDG), 0, 50 * USDG)
        yield service


@pytest.fixture
async def fronted(service: StockService, tmp_path: Path) -> AsyncIterator[Fronted]:
    port = free_port()
    shipped = SHIPPED.read_text()
    for here, there in (
        ("127.0.0.1:8400", f"127.0.0.1:{service.port}"),
        ("127.0.0.1:8080", f"127.0.0.1:{port}"),
        ("/var/cache/nginx/vpm", str(tmp_path / "cache")),
    ):
        assert shipped.count(here) == 1
        shipped = shipped.replace(here, there)
    (tmp_path / "vpm-cache.conf").write_text(shipped)
    temporary = "".join(
        f"{kind}_temp_path {tmp_path / kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""  # else its workers cannot enter a test's folder
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; {user} worker_processes 1; pid {tmp_path / 'pid'}; error_log stderr; events {{}}\n"
        f"http {{ access_log {tmp_path / 'access.log'}; {temporary} include {tmp_path / 'vpm-cache.conf'}; }}\n"
    )
    assert NGINX is not None
    argv = (NGINX, "-e", "stderr", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf"))
    running = start_process(SpawnPlan("nginx", argv, env={}, cwd=str(tmp_path)), tmp_path / "nginx.log")
    try:
        async with aiohttp.ClientSession(auto_decompress=False) as session, asyncio.timeout(PATIENCE):
            fronted = Fronted(service, f"http://127.0.0.1:{port}", session)
            while True:
                try:
                    await fronted.get("/api/health")
                    break
                except aiohttp.ClientConnectionError:
                    assert running.alive(), running.tail(20)
                    await asyncio.sleep(0.05)
            for path in ("/api/markets/1", "/api/proof"):  # the proof waits for the sums, made once history is read
                while (await fronted.get(path))[0] != 200:
                    await asyncio.sleep(0.1)
            yield fronted
    finally:
        running.stop()


@pytest.mark.parametrize("path", ["/api/prices", "/api/markets", "/api/markets/1", "/api/proof", "/openapi.json"])
@pytest.mark.thorough
async def test_a_public_read_is_given_out_of_the_cache(fronted: Fronted, path: str) -> None:
    path = f"{path}?of=this-test"
    first, second = [await fronted.get(path) for _ in range(2)]
    assert (first[0], first[1]) == (200, "MISS")
    assert (second[0], second[1]) == (200, "HIT")
    assert second[3] == first[3]
    assert second[2].headers["ETag"] == first[2].headers["ETag"]
    unchanged = await fronted.get(path, If_None_Match=first[2].headers["ETag"])
    assert (unchanged[0], unchanged[1], unchanged[3]) == (304, "HIT", b"")


@pytest.mark.thorough
async def test_callers_behind_one_tls_proxy_are_limited_separately(fronted: Fronted) -> None:
    """It runs on this machine, and says who asks; limits are counted by that."""
    path = f"/api/positions?owner={wallets.DEV[2].address}"
    asked = [(await fronted.get(path, X_Forwarded_For="198.51.100.7, 203.0.113.7"))[0] for _ in range(31)]
    assert asked == [200] * 30 + [429]
    assert (await fronted.get(path, X_Forwarded_For="198.51.100.7, 203.0.113.8"))[0] == 200


async def test_the_address_asked_about_is_in_no_log_of_the_cache(fronted: Fronted, tmp_path: Path) -> None:
    """Debian's nginx writes down every request, and with every error the request that had it."""
    path = f"/api/positions?owner={(owner := wallets.DEV[2].address)}"
    assert (await fronted.get(path))[0] == 200
    fronted.service.stop("api")
    try:
        assert (await fronted.get(path))[0] == 502
    finally:
        fronted.service.start("api")
    logs = {name: tmp_path / name for name in ("access.log", "nginx.log")}
    logged = {name: log.read_text() for name, log in logs.items() if log.exists()}
    assert [name for name, text in logged.items() if owner.lower() in text.lower()] == []


@pytest.mark.thorough
async def test_each_encoding_is_a_copy_of_its_own(fronted: Fronted) -> None:
    path = "/openapi.json?of=encodings"
    plain = await fronted.get(path)
    zipped = await fronted.get(path, Accept_Encoding="br, gzip;q=0.8")
    assert (plain[1], zipped[1]) == ("MISS", "MISS")
    assert zipped[2].headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(zipped[3]) == plain[3]
    again = await fronted.get(path, Accept_Encoding="gzip, deflate")
    assert (again[1], again[3]) == ("HIT", zipped[3])
    refused = await fronted.get(path, Accept_Encoding="gzip;q=0, identity")
    assert (refused[1], refused[3]) == ("HIT", plain[3])


@pytest.mark.parametrize(
    "path",
    [
        f"/api/positions?owner={wallets.DEV[2].address}",
        "/api/health",
        "/api/markets/999999999",
        "/api/markets?limit=no-number",
        "/nothing-here",
    ],
)
async def test_what_is_a_wallets_own_or_an_error_is_never_kept(fronted: Fronted, path: str) -> None:
    asked = [await fronted.get(path) for _ in range(3)]
    assert {each[1] for each in asked} == {"MISS"}, [each[0] for each in asked]


@pytest.mark.parametrize("header", ["Authorization", "X_PAYMENT", "PAYMENT_SIGNATURE"])
async def test_who_proves_or_pays_something_is_answered_by_the_api_and_leaves_nothing(
    fronted: Fronted, header: str
) -> None:
    path = f"/api/markets?of={header}"
    assert (await fronted.get(path, **{header: "one"}))[1] == "BYPASS"
    assert (await fronted.get(path))[1] == "MISS"
    assert (await fronted.get(path, **{header: "two"}))[1] == "BYPASS"


async def test_a_crowd_costs_the_api_one_request(fronted: Fronted) -> None:
    path = "/openapi.json?of=a-crowd"
    asked = await asyncio.gather(*(fronted.get(path) for _ in range(50)))
    assert [each[1] for each in asked].count("MISS") == 1
    assert len({each[3] for each in asked}) == 1


@pytest.mark.thorough
async def test_an_old_copy_is_given_out_while_the_api_is_away_but_not_for_long(fronted: Fronted) -> None:
    path = "/api/markets/1?of=an-old-copy"
    fresh = await fronted.get(path)
    assert fresh[1] == "MISS"
    fronted.service.stop("api")
    try:
        began, seen = time.monotonic(), set()
        while (asked := await fronted.get(path))[0] == 200:
            seen.add(asked[1])
            assert asked[3] == fresh[3]
            assert time.monotonic() - began < 30
            await asyncio.sleep(0.1)
        assert "STALE" in seen
        assert seen <= {"HIT", "UPDATING", "STALE"}
        assert asked[0] == 502
    finally:
        fronted.service.start("api")
