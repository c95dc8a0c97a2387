"""Events through kills (-9) of every daemon, two reorganizations and a restart of the database: each channel ends with
the same complete sequence.

Wallets bet through the API while the indexer, the relayer and the API die at random instants and are started again. A
recorded stream, a webhook's receiver (which refuses now and then) and a client that replays in pages watch each wallet.
6 kills by default, 50 with VPM_TEST_LONG=1; VPM_TEST_SEED chooses others.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.db.migrate import migrate
from scripts._local.ports import free_port
from scripts._local.postgres import UNSAFE_BUT_FAST, PostgresServer, prepare_postgres, start_postgres
from scripts._local.process import RunningProcess
from scripts._stack import wallets
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet, header, sign
from tests.support.event_reader import Following
from tests.support.genesis import Genesis, RunningChain
from tests.support.webhook_receiver import Receiver, active, receiver, registered

LONG = os.environ.get("VPM_TEST_LONG") == "1"
KILLS = 50 if LONG else 6
SEED = os.environ.get("VPM_TEST_SEED", "events")
DAEMONS = ("indexer", "relayer", "api")
WATCHED = wallets.DEV[:4]
SETTLED_SECONDS = 180.0
MAX_BETTING = 6


@dataclass
class Database:
    """A database server of this test, which can restart it."""

    server: PostgresServer
    log: Path
    running: RunningProcess

    def restart(self) -> None:
        self.running.stop()
        self.running = start_postgres(self.server, self.log)


@pytest.fixture
def database() -> Iterator[Database]:
    with tempfile.TemporaryDirectory(prefix="vpm-event-faults-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server runs as another user
        server = prepare_postgres(folder / "postgres", free_port(), settings=UNSAFE_BUT_FAST)
        made = Database(server, folder / "postgres.log", start_postgres(server, folder / "postgres.log"))
        try:
            migrate(server.url())
            yield made
        finally:
            made.running.stop()


@pytest.fixture
def service(
    base_chain: RunningChain, local_genesis: Genesis, database: Database, tmp_path: Path
) -> Iterator[AgentService]:
    chain = AgentChain.on(base_chain.url, base_chain.deployment)
    chain.list("shaken")
    env = {"VPM_RELAYER_LEASE_SECONDS": "2", "VPM_ALLOW_PRIVATE_WEBHOOKS": "1"}
    with agent_service(chain, database.server.url(), local_genesis.deployments, tmp_path, **env) as running:
        running.start(*DAEMONS)
        yield running


@dataclass
class Watched:
    """A wallet, with a stream, a webhook and a paging client that watch it."""

    who: Wallet
    stream: Following
    hook: Receiver
    paged: list[Any] = field(default_factory=list)

    async def page(self, buyer: Buyer) -> None:
        """Page through the replay, continuing from the last cursor after any answer."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                response, body = await buyer.get(
                    "/events/replay", wallet=self.who.address, fromSeq=len(self.paged), limit=3
                )
                if response.status == 200:
                    assert not body["events"] or body["events"][0]["seq"] == len(self.paged)
                    self.paged += body["events"]
            await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def watching(service: AgentService, buyer: Buyer, rng: random.Random) -> AsyncIterator[list[Watched]]:
    async with contextlib.AsyncExitStack() as stack:
        watched = []
        for who in WATCHED:
            there = await stack.enter_async_context(receiver())
            hook = await registered(buyer, who, there.url)
            await active(buyer, hook["id"])
            # Now and then it refuses; the next attempt is ten seconds later.
            there.answers = [503 if rng.random() < 0.05 else 200 for _ in range(1_000)]
            watched.append(Watched(who, Following(f"{service.api}/events", who.address), there))
        tasks = [asyncio.create_task(work) for each in watched for work in (each.stream.run(), each.page(buyer))]
        try:
            yield watched
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(ended, asyncio.CancelledError), ended


async def _bet(buyer: Buyer, service: AgentService, who: Wallet, rng: random.Random) -> None:
    """Place a bet like a client that calls again until it knows the outcome."""
    body = bet("shaken", who, rng.choice(("yes", "no")), rng.randint(1, 5))
    headers: dict[str, str] = {}
    async with asyncio.timeout(SETTLED_SECONDS):
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, ValueError):
                response, content = await buyer.post(body, headers=headers)
                if response.status == 200:
                    return
                if response.status == 402:
                    headers = header(sign(content["accepts"][0], who, now=service.chain.now))
                    continue
                assert response.status in (429, 500, 503), content
            await asyncio.sleep(0.3)


def _reorganize(chain: AgentChain, snapshot: str) -> str:
    """Go back to the snapshot and mine other blocks past the old height; the relayer resends what was undone."""
    with chain.held():
        height = chain.block
        assert chain.ask("evm_revert", snapshot)
        back = chain.block
        assert back < height
        chain.mine(height - back + 2)
        return str(chain.ask("evm_snapshot"))


def _deduplicated(events: list[Any]) -> list[Any]:
    """Return each event once, at its first place, and check that repetitions are identical."""
    found: dict[str, Any] = {}
    for each in events:
        assert found.setdefault(each["eventId"], each) == each
    return list(found.values())


@pytest.mark.timeout(1_800 if LONG else 600)
@pytest.mark.thorough
async def test_every_channel_ends_with_the_same_sequence(service: AgentService, database: Database) -> None:
    rng = random.Random(SEED)
    print(f"{KILLS} kills of seed {SEED!r}")
    reorgs, restart = {KILLS // 3, 2 * KILLS // 3}, KILLS // 2
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        buyer = Buyer(session, service)
        await buyer.shows("shaken")
        async with watching(service, buyer, rng) as watched:
            snapshot = str(service.chain.ask("evm_snapshot"))
            bets, betting = 0, set[asyncio.Task[None]]()
            for number in range(KILLS):
                for each in rng.sample(watched, 2):
                    betting.add(asyncio.create_task(_bet(buyer, service, each.who, rng)))
                    bets += 1
                await asyncio.sleep(rng.random() * 1.5)
                if number == restart:
                    await asyncio.to_thread(database.restart)
                victim = rng.choice(DAEMONS)
                await asyncio.to_thread(service.kill, victim)
                await asyncio.to_thread(service.start, victim)
                if number in reorgs:
                    snapshot = await asyncio.to_thread(_reorganize, service.chain, snapshot)
                # Bets go on through several kills; only so many at once.
                while len(betting) > MAX_BETTING:
                    done, betting = await asyncio.wait(betting, return_when=asyncio.FIRST_COMPLETED)
                    for bet_made in done:
                        bet_made.result()
                print(f"kill {number + 1} ({victim}), {bets} bets, {len(betting)} on their way", flush=True)
            await asyncio.gather(*betting)
            await _quiet(buyer, service, watched, bets)
            for each in watched:
                kept = each.paged
                assert [event["seq"] for event in kept] == list(range(len(kept)))
                assert len({event["eventId"] for event in kept}) == len(kept)
                assert _deduplicated(each.stream.events) == kept
                assert _deduplicated(each.hook.events()) == kept
            undone = sum(event["payload"].get("undone", False) for each in watched for event in each.paged)
            assert undone > 0


async def _quiet(buyer: Buyer, service: AgentService, watched: list[Watched], bets: int) -> None:
    """Wait until all bets are on the surviving chain and every channel has what replay has."""
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        service.chain.ask("evm_mine")
        standing = 0
        complete = True
        for each in watched:
            corrected = {event["payload"].get("corrects") for event in each.paged}
            standing += sum(
                event["type"] == "bet.placed"
                and not event["payload"].get("undone")
                and event["eventId"] not in corrected
                for event in each.paged
            )
            complete &= len(each.stream.events) >= len(each.paged)
            complete &= len(_deduplicated(each.hook.events())) >= len(each.paged)
        if complete and standing == bets:
            await asyncio.sleep(1.5)  # nothing more comes
            if all(len(each.paged) == len(_deduplicated(each.hook.events())) for each in watched):
                return
        seen = [(len(e.paged), len(e.stream.events), len(e.hook.events())) for e in watched]
        assert time.monotonic() < deadline, (standing, bets, seen)
        await asyncio.sleep(0.5)
