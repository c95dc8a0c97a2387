"""The whole service for browser tests: both chains, every daemon, and markets in every state a page can show.

The keeper is given Base alone: it turns the wheel and keeps the paper markets, and leaves stock markets to the tests.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psycopg

from core.db.engine import conninfo
from core.paths import REPOSITORY
from scripts._local.ports import DIRECT, free_port
from scripts._local.process import RunningProcess, SpawnPlan, start_process, stop_together
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis, RunningChain
from tests.support.keeper_rig import relayer_keys
from tests.support.service import followed
from tests.support.stock_chain import FLAT_PRICE, USDG, StockChain
from tests.waiting import PATIENCE, wait

READY_SECONDS = 120.0
HOSTILE = '<img src=x onerror="document.title=1"> & </script><script>document.title=1</script>'


@dataclass
class Site:
    """The running service. `markets` names what was prepared: addresses of pages by what they show."""

    stock: StockChain
    base: AgentChain
    folder: Path
    database_url: str
    port: int
    running: dict[str, RunningProcess] = field(default_factory=dict)
    markets: dict[str, int] = field(default_factory=dict)
    slugs: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api(self) -> str:
        return f"{self.url}/api/agent/v1"

    def get(self, path: str) -> Any:
        with DIRECT.open(self.url + path, timeout=10) as response:
            return json.loads(response.read())

    def until(self, path: str, holds: Any, seconds: float = PATIENCE) -> Any:
        last = ""

        def read() -> Any:
            nonlocal last
            with contextlib.suppress(OSError):
                body = self.get(path)
                if holds(body):
                    return body
                last = str(body)[:2000]
            for name, process in self.running.items():
                assert process.alive(), f"{name} ended:\n{process.tail(30)}"
            return None

        return wait(read, lambda: f"another answer of {path} than {last}", seconds, pause=0.2)

    def open_market(self, **terms: Any) -> int:
        market = self.stock.open_market(**terms)
        self.until("/api/markets", lambda body: any(each["id"] == str(market) for each in body["markets"]))
        return market

    def open_agent_market(self, name: str, seconds: int = 6 * 3600) -> str:
        slug = self.base.list(name, feed="BNKR/market_cap", closes_at=self.base.now + seconds)
        self.until("/api/agent/v1/markets", lambda body: any(each["slug"] == slug for each in body["markets"]))
        return slug

    def end_paper_trades(self, slug: str) -> None:
        """End a market's paper trades now, so that a page has all the time it needs before."""
        with psycopg.connect(conninfo(self.database_url)) as connection:
            connection.execute("UPDATE cup_market SET closes_at = now() WHERE slug = %s", (slug,))

    def end_round(self, spins: int = 2) -> None:
        """End the betting of the live round now, where it has not ended yet. `spins`: seconds until its beacon."""
        with psycopg.connect(conninfo(self.database_url)) as connection:
            connection.execute(
                "UPDATE cup_round SET closes_at = now(), ends_at = now() + interval '5 seconds',"
                " beacon_after = ceil(extract(epoch FROM now()))::bigint + %s"
                " WHERE bets_hash IS NULL AND closes_at > now()",
                (spins,),
            )

    def betting(self, seconds: float, holds: Callable[[Any], bool] = lambda _: True) -> Any:
        """Wait for a round that takes bets that long and satisfies `holds(body)`; end rounds that do not."""

        def is_right(body: Any) -> bool:
            if body["phase"] != "bet" or (body["secondsToClose"] > seconds and holds(body)):
                return bool(body["phase"] == "bet")
            self.end_round()
            return False

        return self.until("/api/cup/v1/roulette", is_right)


@contextlib.contextmanager
def running_site(
    genesis: Genesis, stock: RunningChain, base: RunningChain, database_url: str, folder: Path
) -> Iterator[Site]:
    port = free_port()
    chains = StockChain.on(stock.url, stock.deployment), AgentChain.on(base.url, base.deployment)
    site = Site(*chains, folder, database_url, port)
    site.stock.mine()  # the saved genesis may be hours old; a block of now makes its time the present
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/"),
        "DATABASE_URL": database_url,
        "VPM_DEPLOYMENTS_DIR": str(genesis.deployments),
        **followed("BASE", base.url),
        **followed("STOCK", stock.url),
        "VPM_PORT": str(port),
        "VPM_PUBLIC_URL": site.url,
        "VPM_LOG_FORMAT": "console",
        "VPM_STOP_GRACE_SECONDS": "3",
        "VPM_TRUST_PROXY": "1",  # so that a page can be opened from a region
        "VPM_CUP_OPENS_AT": "2026-01-01T00:00:00Z",
        "VPM_CUP_CLOSES_AT": "2036-01-01T00:00:00Z",
        "VPM_KEEPER_CANARY": "0",
        "VPM_KEEPER_LIST_SERIES": "0",
        "VPM_ATTESTATION_KEY": wallets.ATTESTATION.private_key,
        "VPM_DEMO_WALLET_KEY": wallets.DEMO.private_key,
        "CRON_SECRET": "a-secret-only-the-scheduler-has",
    }
    only = {"relayer": {"VPM_RELAYER_KEYS": relayer_keys()}, "keeper": dict.fromkeys(followed("STOCK", ""), "")}
    try:
        for names in (("indexer", "relayer", "api"), ("keeper",)):
            for name in names:
                ready = folder / f"{name}.ready"
                own = {"VPM_READY_FILE": str(ready), f"VPM_{name.upper()}_METRICS_PORT": "0"}
                given = {**env, **only.get(name, {}), **own}
                given = {variable: value for variable, value in given.items() if value}
                plan = SpawnPlan(name, (sys.executable, "-m", name), env=given, cwd=str(REPOSITORY))
                site.running[name] = start_process(plan, folder / f"{name}.log")
            _wait_ready(site)
            if "keeper" not in names:
                _prepare(site)  # while no one else sends from the wallets that list and publish
        site.until("/api/cup/v1/roulette", lambda body: body["roundNo"] >= 1, READY_SECONDS)
        yield site
    finally:
        stop_together(site.running.values())


def _wait_ready(site: Site) -> None:
    deadline = time.monotonic() + READY_SECONDS
    for name, process in site.running.items():
        while not (site.folder / f"{name}.ready").exists():
            assert process.alive(), f"{name} ended:\n{process.tail(30)}"
            assert time.monotonic() < deadline, f"{name} did not get ready:\n{process.tail(30)}"
            time.sleep(0.1)


def _prepare(site: Site) -> None:
    """One stock market settled and paid, one that ended equal, one past its bell, one live, one open; and agent markets
    of two kinds, one with bets, and one whose lister wrote what would break a page that showed it."""
    chain, (a, b, c, *_) = site.stock, wallets.DEV
    chain.push(FLAT_PRICE)
    settled = chain.open_market(strike_in=30, lasts=60)
    chain.push(250_00000000, ticker="COIN")
    equal = chain.open_market(strike_in=30, lasts=60, ticker="COIN")
    for who, side, amount in ((a, 0, 20), (b, 1, 30), (b, 1, 40), (c, 0, 50), (b, 1, 10)):
        chain.enter(who, settled, side, amount * USDG)
    chain.enter(a, equal, 1, 3 * USDG)
    chain.warp_to(chain.now + 40)
    chain.push(FLAT_PRICE + 10**8)
    chain.warp_to(chain.now + 70)
    chain.push(FLAT_PRICE + 3 * 10**8)
    frozen = chain.open_market(strike_in=20, lasts=30)
    chain.enter(c, frozen, 0, 4 * USDG)
    # Hours are left of it, however long the tests take.
    live = chain.open_market(strike_in=600, lasts=5 * 3600, ticker="TSLA")
    chain.push(400_00000000, ticker="TSLA")
    stakes = ((a, 0, 25), (b, 1, 12), (c, 1, 30), (a, 0, 8), (b, 1, 20))
    for step in range(24):
        if step % 5 == 2:
            who, side, amount = stakes[step // 5]
            chain.enter(who, live, side, amount * USDG)
        chain.warp_to(chain.now + 300)
        if step < 3:
            chain.push(FLAT_PRICE + step * 10**7)
        chain.push(400_00000000 + (step * 37 % 11 - 3) * 30_000_000, ticker="TSLA")
    site.markets |= {"settled": settled, "equal": equal, "frozen": frozen, "live": live}
    anyone = wallets.DEV[5].address
    for market in (settled, equal):
        chain.send(chain.contracts.resolver.call("resolve", market), anyone)
    chain.send(chain.contracts.settler.call("deliver", chain.positions(settled)), anyone)
    site.markets["open"] = chain.open_market(strike_in=40_000, lasts=40_000, ticker="NVDA")
    _prepare_agent(site)
    newest = str(site.markets["open"])
    site.until("/api/markets", lambda body: any(each["id"] == newest for each in body["markets"]))
    site.until(
        f"/api/markets/{settled}", lambda body: all(p["payoutTx"] for p in body["positions"] if p["side"] == "UP")
    )
    site.until("/api/agent/v1/markets", lambda body: body["count"] >= 2)  # the hostile one is not sold


def _prepare_agent(site: Site) -> None:
    base = site.base
    for value in (80, 82, 81, 84):
        base.observe(value * 10**14)
    closes = base.now + 6 * 3600
    site.slugs["binary"] = base.list("bnkr-100m-mcap", feed="BNKR/market_cap", closes_at=closes)
    bounds = [75 * 10**14, 85 * 10**14, 95 * 10**14]
    site.slugs["range"] = base.list("bnkr-range", kind=1, bounds=bounds, closes_at=closes)
    texts = dict.fromkeys(("id", "slug", "question", "shortTitle", "summary", "series", "headline"), HOSTILE)
    written = json.dumps({**texts, "links": {"app": HOSTILE, HOSTILE: "https://example.org"}})
    site.slugs["hostile"] = base.list("hostile", closes_at=closes + 30 * 86_400, known=False, metadata=written)
    asyncio.run(_stake(site, wallets.DEV[3], wallets.DEV[4]))


async def _stake(site: Site, yes: Wallet, no: Wallet) -> None:
    async with aiohttp.ClientSession() as session:
        buyer = Buyer(session, _Selling(site))
        await buyer.shows(site.slugs["binary"])
        for who, side, size in ((yes, "yes", 5), (no, "no", 3), (yes, "yes", 9)):
            response, body = await buyer.buy(bet(site.slugs["binary"], who, side, size), who)
            assert response.status == 200, body


@dataclass(frozen=True)
class _Selling:
    """The facts about the service that a buyer needs."""

    site: Site

    @property
    def api(self) -> str:
        return self.site.api

    @property
    def chain(self) -> AgentChain:
        return self.site.base
