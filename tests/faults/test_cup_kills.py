"""200 clients claim, trade and bet while APIs and the keeper are killed at random: the books stay exact to the cent.

Every client sends each signed request twice at once, to either of two APIs, and again after every lost connection,
until it is told something definite. Rounds go round and a market is settled meanwhile, by the keeper, on a real chain.
Short by default;
`VPM_TEST_LONG=1` plays for two minutes, `VPM_TEST_SECONDS` sets another length. The seed is printed; `VPM_TEST_SEED`
repeats it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.cup import wheel
from core.paths import REPOSITORY
from scripts._local.ports import free_port
from tests.support import questions
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.cup_rig import BASE, UNACCOUNTED, Signer, iso
from tests.support.genesis import Genesis, chain
from tests.support.played_chain import Reverted
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.thorough

LONG = os.environ.get("VPM_TEST_LONG") == "1"
SECONDS = float(os.environ.get("VPM_TEST_SECONDS", "120" if LONG else "20"))
CLIENTS = 200
MAX_PAUSE_BETWEEN_KILLS = 6.0
MAX_EXTRA_SECONDS = 60.0
ROUND_SECONDS = 8.0
"""Betting is cut short, so that rounds end while clients bet on them."""
FINAL_BLOCKS = 100  # more than Base may take back on a local chain
TARGET = 100_000_000 * 10**8
MARKETS = [f"paper-{number}" for number in range(5)]

TRY_AGAIN = {429, 503}
DEFINITE = {
    200,
    402,  # the wallet has spent it
    409,  # the round or the market closed meanwhile
    422,  # the round's total is reached
}


@dataclass
class Told:
    """What the clients were told of one request: by how many answers it was accepted, and by how many as new."""

    accepted: int = 0
    new: int = 0


@dataclass
class Crowd:
    service: AgentService
    second: AgentService
    session: aiohttp.ClientSession
    chance: random.Random
    slugs: list[str]
    statuses: Counter[int] = field(default_factory=Counter)
    claims: dict[str, Told] = field(default_factory=dict)
    trades: dict[str, Told] = field(default_factory=dict)
    bets: dict[tuple[str, int, str], Told] = field(default_factory=dict)
    lost_connections: int = 0
    live: int = 0

    def has_too_little(self, until: float) -> bool:
        """A busy machine may be killed out of every bet of a round; then they go on for a while."""
        played = all(any(told.accepted for told in each.values()) for each in (self.trades, self.bets))
        return not played and time.monotonic() < until + MAX_EXTRA_SECONDS

    async def client(self, number: int, until: float) -> None:
        signer, caller = Signer(), f"10.7.{number >> 8}.{number & 255}"
        await self.claim(signer, caller)
        while time.monotonic() < until or self.has_too_little(until):
            await self.chance.choice((self.claim, self.trade, self.trade, self.bet, self.bet))(signer, caller)

    async def claim(self, signer: Signer, caller: str) -> None:
        told = self.claims.setdefault(signer.address, Told())
        for body in await self.twice("/wallet", {"walletAddress": signer.address}, caller):
            told.accepted += 1
            told.new += body["minted"]

    async def trade(self, signer: Signer, caller: str) -> None:
        wanted = signer.trade(
            self.chance.choice(self.slugs), self.chance.choice(("yes", "no")), self.chance.randint(1, 300_000)
        )
        self.note(self.trades.setdefault(wanted["tradeId"], Told()), await self.twice("/trade", wanted, caller))

    async def bet(self, signer: Signer, caller: str) -> None:
        wanted = signer.bet(self.live, self.chance.choice(list(wheel.OUTCOMES)), self.chance.randint(1_000, 50_000))
        key = (signer.address, wanted["roundNo"], wanted["betKey"])
        self.note(self.bets.setdefault(key, Told()), await self.twice("/roulette/bet", wanted, caller))

    def note(self, told: Told, bodies: list[dict[str, Any]]) -> None:
        told.accepted += len(bodies)
        told.new += sum(not each["receipt"]["replay"] for each in bodies)

    async def twice(self, path: str, body: Any, caller: str) -> list[dict[str, Any]]:
        """The same request two times at once, as an impatient client would; the bodies of what was accepted."""
        answers = await asyncio.gather(*(self.answered(path, body, caller) for _ in range(2)))
        return [body for status, body in answers if status == 200]

    async def answered(self, path: str, body: Any, caller: str) -> tuple[int, dict[str, Any]]:
        """Asks until the answer is definite, whatever happens to connections meanwhile."""
        while True:
            door = self.chance.choice((self.service, self.second))
            try:
                async with self.session.post(
                    f"{door.url}{BASE}{path}", json=body, headers={"X-Forwarded-For": caller}
                ) as response:
                    content = json.loads(await response.read())
                    status = response.status
            except (aiohttp.ClientError, ConnectionError):
                self.lost_connections += 1
            else:
                self.statuses[status] += 1
                if status in DEFINITE:
                    return status, content
                assert status in TRY_AGAIN, (status, content)
            await asyncio.sleep(self.chance.uniform(0.05, 0.4))

    # ------------------------------------------------------------ rounds, markets, faults

    async def rounds_go_round(self) -> None:
        """Follows the live round; cuts its betting short and moves the chain's clock to where its beacon is due."""
        while True:
            rows = await self.rows("SELECT max(round_no) FROM cup_round")
            self.live = rows[0][0] or 0
            due = await self.rows(
                # Closed once no bet holds the round: those that came before are before the close.
                "WITH held AS MATERIALIZED (SELECT round_no FROM cup_round WHERE settled_at IS NULL "
                "AND opens_at < now() - make_interval(secs => %s) FOR UPDATE) "
                "UPDATE cup_round SET closes_at = clock_timestamp(), ends_at = clock_timestamp() FROM held "
                "WHERE cup_round.round_no = held.round_no RETURNING beacon_after",
                ROUND_SECONDS,
            )
            for (beacon_after,) in due:
                await asyncio.to_thread(self.reach, beacon_after)
            await asyncio.sleep(0.2)

    def reach(self, moment: int) -> None:
        if self.service.chain.now < moment:
            with contextlib.suppress(ValueError):  # a block of its own came in between
                self.service.chain.warp_to(moment)

    async def kill_at_random(self, kills: Counter[str]) -> None:
        """One API at a time, so that clients always have another to turn to; the keeper beside it or alone."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.5, MAX_PAUSE_BETWEEN_KILLS))
            api, keeper = (self.chance.choice((self.service, self.second)), "api"), (self.service, "keeper")
            # The first time both, so that even a slow machine sees either killed.
            victims = self.chance.choice(([api], [api], [keeper], [api, keeper])) if kills else [api, keeper]
            for owner, name in victims:
                assert owner.running[name].alive(), f"{name} ended by itself:\n{owner.log(name)[-3000:]}"
                await asyncio.to_thread(owner.kill, name)
                kills[name] += 1
            await asyncio.sleep(self.chance.uniform(0, 0.5))
            for owner, name in victims:
                await asyncio.to_thread(owner.start, name)

    async def resolve(self, market: str) -> None:
        """On the chain, whose clock goes far ahead of ours for it: paper markets close by ours."""
        while not await asyncio.to_thread(self.service.chain.resolved, market):
            with contextlib.suppress(ValueError, Reverted):  # a block of its own came in between, or the keeper did
                await asyncio.to_thread(self.service.chain.settle, market, TARGET)
        # What the cup pays it never takes back: it waits until the result is final.
        await asyncio.to_thread(self.service.chain.mine, FINAL_BLOCKS)

    # ------------------------------------------------------------ the database

    async def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return await asyncio.to_thread(questions.rows, self.service.env["DATABASE_URL"], query, *values)

    async def value(self, query: str) -> Any:
        return (await self.rows(query))[0][0]

    async def becomes(self, query: str, wanted: object, seconds: float = PATIENCE) -> None:
        found = None

        async def is_so() -> bool:
            nonlocal found
            found = await self.value(query)
            return bool(found == wanted)

        await until(
            is_so, lambda: f"{wanted} of {query}, not {found}\n{self.service.log('keeper')[-3000:]}", seconds, pause=0.2
        )


@pytest.fixture
def service(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[AgentService]:
    now = datetime.now(UTC)
    env = {
        "VPM_CUP_OPENS_AT": iso(now - timedelta(days=1)),
        "VPM_CUP_CLOSES_AT": iso(now + timedelta(days=1)),
        "VPM_KEEPER_CANARY": "0",
        "VPM_KEEPER_LIST_SERIES": "0",
        # Nobody but the test moves the feed: the paper markets end when it says so.
        "VPM_KEEPER_SNAPSHOT_EVERY_SECONDS": "3600",
        "VPM_DATABASE_POOL_SIZE": "8",
    }
    with chain(local_genesis, "base", tmp_path / "anvil.log", block_seconds=1) as base:
        played = AgentChain.on(base.url, base.deployment)
        for name in MARKETS:
            played.list(name)
        with agent_service(played, fresh_database_url, local_genesis.deployments, tmp_path, **env) as running:
            running.start("indexer", "keeper", "api")
            yield running


@pytest.fixture
def second(service: AgentService, tmp_path: Path) -> Iterator[AgentService]:
    """Another API on the same database, on a port of its own."""
    folder, port = tmp_path / "second", free_port()
    folder.mkdir()
    other = AgentService(service.chain, folder, {**service.env, "VPM_PORT": str(port)}, port)
    try:
        other.start("api")
        yield other
    finally:
        other.stop()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    # No time limit: a killed process closes its connections, and a slow answer must not be taken for a lost one.
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None), connector=aiohttp.TCPConnector(limit=0)
    ) as made:
        yield made


@pytest.mark.timeout(240 + 4 * SECONDS)
async def test_the_ledger_stays_exact(
    service: AgentService, second: AgentService, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    seed = int(os.environ.get("VPM_TEST_SEED", random.randrange(2**32)))
    print(f"seed {seed}")
    kills: Counter[str] = Counter()
    crowd = Crowd(service, second, session, random.Random(seed), list(service.chain.ids.values()))
    ours = ", ".join(f"'{slug}'" for slug in crowd.slugs)
    await crowd.becomes(f"SELECT count(*) FROM cup_market WHERE slug IN ({ours})", len(MARKETS))
    await crowd.becomes("SELECT count(*) > 0 FROM cup_round", True)

    going = asyncio.create_task(crowd.rounds_go_round())
    killing = asyncio.create_task(crowd.kill_at_random(kills))
    until = time.monotonic() + SECONDS
    playing = asyncio.gather(*(crowd.client(number, until) for number in range(CLIENTS)))
    try:
        await asyncio.sleep(SECONDS / 2)
        await crowd.resolve(MARKETS[0])
        await asyncio.wait((playing, going, killing), return_when=asyncio.FIRST_COMPLETED)
        for task in (going, killing):
            if task.done():
                task.result()
        await playing
    finally:
        killing.cancel()
        playing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await killing
    await asyncio.to_thread(service.start, *({"keeper", "api"} - set(service.running)))
    for market in MARKETS[1:]:
        await crowd.resolve(market)
    await crowd.becomes(f"SELECT count(*) FROM cup_market WHERE slug IN ({ours}) AND status = 'open'", 0)
    await crowd.becomes("SELECT count(*) FROM cup_bet WHERE status = 'open'", 0)
    going.cancel()

    rounds = await crowd.value("SELECT count(*) FROM cup_round WHERE settled_at IS NOT NULL")
    print(
        f"{SECONDS:g} s: {len(crowd.trades)} trades and {len(crowd.bets)} bets sent, {rounds} rounds, "
        f"kills {dict(kills)}, answers {dict(crowd.statuses)}, {crowd.lost_connections} connections lost"
    )
    assert kills["api"]
    assert kills["keeper"]
    assert rounds >= (2 if LONG else 1)
    await the_books_are_exact(crowd)
    await the_export_verifies(crowd, tmp_path / "export.ndjson")


async def the_books_are_exact(crowd: Crowd) -> None:
    """What was accepted happened, once; what was refused did not; and every cent is somewhere."""
    for told in (*crowd.claims.values(), *crowd.trades.values(), *crowd.bets.values()):
        assert told.new <= 1, "one request was new twice"
    assert len(crowd.claims) == CLIENTS
    claimed = await crowd.rows("SELECT key FROM cup_transaction WHERE kind = 'claim'")
    assert sorted(key for (key,) in claimed) == sorted(f"claim:{wallet}" for wallet in crowd.claims)
    trades = {key for (key,) in await crowd.rows("SELECT trade_id FROM cup_trade")}
    assert trades == {key for key, told in crowd.trades.items() if told.accepted}
    bets = set(await crowd.rows("SELECT wallet, round_no, bet_key FROM cup_bet"))
    assert bets == {key for key, told in crowd.bets.items() if told.accepted}
    assert trades
    assert bets
    assert await crowd.value(UNACCOUNTED) == 0
    assert await crowd.value("SELECT min(balance_cents) FROM cup_account") >= 0
    differing = (
        "SELECT count(*) FROM cup_account a WHERE balance_cents <> (SELECT coalesce(sum(amount_cents), 0) "
        "FROM cup_entry e WHERE e.account = a.account) AND account <> 'mint'"
    )
    assert await crowd.value(differing) == 0
    left = "SELECT count(*) FROM cup_account WHERE balance_cents <> 0 AND account ~ '^(market|round):'"
    assert await crowd.value(left) == 0  # every pool is paid out to the cent


async def the_export_verifies(crowd: Crowd, file: Path) -> None:
    raw = b""
    async with asyncio.timeout(120):
        while not raw:  # the last API that was killed may still be starting
            with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                async with crowd.session.get(f"{crowd.service.url}{BASE}/export") as response:
                    assert response.status == 200
                    raw = await response.read()
            await asyncio.sleep(0.2)
    await asyncio.to_thread(file.write_bytes, raw)
    command = [sys.executable, "-m", "core.cup.verify", str(file)]
    done = await asyncio.to_thread(subprocess.run, command, cwd=REPOSITORY, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
