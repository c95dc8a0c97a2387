"""With the database or the node taken away the reads go on, say so, and recover by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from sqlalchemy import make_url

from api.stock.bodies import MarketDetailBody, MarketsBody, OwnerBody, PricesBody
from api.stock.proof_facts import ProofBody
from scripts._stack import wallets
from tests.support.bodies import hold
from tests.support.genesis import Genesis, RunningChain
from tests.support.service import Door
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.support.stock_service import StockService, stock_service
from tests.waiting import PATIENCE

_CHUNK = 64 * 1024


@dataclass
class Cut:
    """A line to the target that listens on `port`. `cut` breaks it and `mend` lets new connections through again."""

    target: tuple[str, int]
    port: int = 0
    _listener: socket.socket | None = None
    _open: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def mend(self) -> None:
        listener = socket.create_server(("127.0.0.1", self.port), backlog=64, reuse_port=False)
        self.port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        with self._lock:
            broken, self._open = self._open, set()
        for each in broken:
            _close(each)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            try:
                outer = socket.create_connection(self.target, timeout=5)
            except OSError:
                inner.close()
                continue
            outer.settimeout(None)
            with self._lock:
                if self._listener is not listener:
                    _close(inner)
                    _close(outer)
                    return
                self._open |= {inner, outer}
            for source, sink in ((inner, outer), (outer, inner)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                sink.sendall(chunk)
        for each in (source, sink):
            _close(each)
            with self._lock:
                self._open.discard(each)


@contextlib.contextmanager
def cuttable(host: str, port: int) -> Iterator[Cut]:
    proxy = Cut((host, port))
    proxy.mend()
    try:
        yield proxy
    finally:
        proxy.cut()


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


OWNER = wallets.DEV[1].address
MODELS = {
    "/api/prices": PricesBody,
    "/api/markets": MarketsBody,
    "/api/markets/1": MarketDetailBody,
    f"/api/positions?owner={OWNER}": OwnerBody,
    "/api/proof": ProofBody,
}


@dataclass(frozen=True)
class Wired:
    service: StockService
    database: Cut
    node: Cut


@pytest.fixture(scope="module")
def wired(
    local_genesis: Genesis, stock_chain: RunningChain, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wired]:
    url = make_url(database_url)
    chain = StockChain.on(stock_chain.url, stock_chain.deployment)
    node_port = int(stock_chain.url.rpartition(":")[2])
    assert url.host is not None
    assert url.port is not None
    with cuttable(url.host, url.port) as database, cuttable("127.0.0.1", node_port) as node:
        through = url.set(drivername="postgresql", host="127.0.0.1", port=database.port).render_as_string(False)
        env = {"VPM_STOCK_RPC_URLS": f"http://127.0.0.1:{node.port}"}
        folder = tmp_path_factory.mktemp("stock-outage")
        with stock_service(chain, through, local_genesis.deployments, folder, **env) as service:
            chain.push(FLAT_PRICE)
            chain.open_market(strike_in=86_400, lasts=86_400)
            chain.enter(wallets.DEV[1], 1, 0, 5 * USDG)
            chain.mine()
            service.start("indexer", "api")
            yield Wired(service, database, node)


@pytest.fixture
async def door(wired: Wired) -> AsyncIterator[Door]:
    async with aiohttp.ClientSession() as session:
        door = Door(session, wired.service.url)
        await door.until("/api/markets/1", lambda _: True)  # just started
        await every_read(door, stale=False)
        yield door


async def signable(door: Door) -> None:
    response, body = await door.get(f"/api/relay/typed-data?marketId=1&outcome=0&amount={5 * USDG}")
    assert (response.status, body["primaryType"]) == (200, "ReceiveWithAuthorization")


async def every_read(door: Door, *, stale: bool, but: tuple[str, ...] = (), seconds: float = PATIENCE) -> None:
    """Every read answers 200 with a whole body, all the time; in the end each (`but` some) says whether it is stale."""
    left = {path: model for path, model in MODELS.items() if path not in but}
    deadline = time.monotonic() + seconds
    while left:
        for path, model in MODELS.items():
            response, body = await door.get(path)
            if not stale and time.monotonic() < deadline and response.status == 503:
                continue  # just started
            assert response.status == 200, (path, body)
            hold(model, body)
            said = body["status"] == "stale-cache" if model is PricesBody else body["stale"]
            if said == stale:
                left.pop(path, None)
        assert time.monotonic() < deadline, f"never {'stale' if stale else 'fresh'}: {', '.join(left)}"
        await asyncio.sleep(0.2)


async def test_without_a_node_the_reads_go_on_stale_and_recover(wired: Wired, door: Door) -> None:
    _, before = await door.get("/api/markets/1")
    wired.node.cut()
    try:
        await every_read(door, stale=True)
        await signable(door)
        _, during = await door.get("/api/markets/1")
        assert during["positions"] == before["positions"]
        assert during["readAt"] < time.time() - 5  # honest about when it was read
        _, prices = await door.get("/api/prices")
        assert len(prices["readings"]) == len(wired.service.chain.deployment.price_feeds)
        response, health = await door.get("/api/health")
        assert response.status == 503
        assert {"rpc-head", "market-reads"} <= {check["name"] for check in health["checks"] if not check["ok"]}
        chain, wallet = wired.service.chain, wallets.DEV[2]
        response, answer = await door.post("/api/relay/enter", chain.signed(wallet, chain.bet(wallet, 1)))
        assert (response.status, answer["error"]) == (503, "relay_unavailable")
        assert answer["escapeKit"]
    finally:
        wired.node.mend()
    await every_read(door, stale=False)


@pytest.mark.thorough
async def test_without_a_database_the_reads_go_on_stale_and_recover(wired: Wired, door: Door) -> None:
    chain = wired.service.chain
    wired.database.cut()
    try:
        await every_read(door, stale=True, but=("/api/prices",))
        await signable(door)
        _, prices = await door.get("/api/prices")
        assert prices["status"] == "live"  # they come from the node, which is there
        wallet = wallets.DEV[2]
        response, answer = await door.post("/api/relay/enter", chain.signed(wallet, chain.bet(wallet, 1)))
        assert (response.status, answer["error"]) == (503, "relay_unavailable")
        chain.enter(wallets.DEV[3], 1, 1, 6 * USDG)
        chain.mine()
    finally:
        wired.database.mend()
    # What happened in between is there, without any help.
    await door.until("/api/markets/1", lambda b: len(b["positions"]) == 4 and not b["stale"])
    await every_read(door, stale=False)


async def test_started_without_anything_it_says_so_and_gets_ready(wired: Wired, door: Door) -> None:
    wired.database.cut()
    wired.node.cut()
    wired.service.stop("api")
    try:
        await asyncio.to_thread(wired.service.start, "api")
        for path in MODELS:
            response, body = await door.get(path)
            if path == "/api/prices":
                assert (response.status, body["status"], body["readings"]) == (200, "unavailable", [])
            else:
                assert (response.status, body["error"]) == (503, "unavailable"), path
                assert response.headers["Retry-After"]
    finally:
        wired.database.mend()
        wired.node.mend()
    await door.until("/api/markets", lambda b: not b["stale"])
    await every_read(door, stale=False)
