"""Groups of trades are cut off by kill -9: what was acknowledged is there, once, and what is there is exact.

Two processes serve one port over one database, and sixty clients trade through them. Both are killed at the instant an
answer arrives, when an acknowledgement that came before its commit would be one too many, and later one at any moment,
in the middle of groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from core.cup.export import lines
from core.cup.verify import verify
from core.db.engine import connect
from scripts._local.ports import free_port
from tests.support import nursery
from tests.support.cup_rig import BASE, Cup, Signer, cup_door

CLIENTS = 60
KILLS = 2
SERVERS = 2
ANSWERS = 40
"""Between one kill and the next."""


class Victims:
    """The serving processes."""

    def __init__(self, database_url: str, log: Path) -> None:
        self.port = free_port()
        self._argv = (sys.executable, "-m", "tests.faults.cup_victim", database_url, str(self.port))
        self._log = log
        self.running: list[nursery.Process] = []
        self.answered = asyncio.Event()
        self._armed = False

    def start(self) -> None:
        with self._log.open("ab") as log:
            env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"]}
            self.running.append(nursery.popen(self._argv, env, log, log))

    def kill(self) -> None:
        one = self.running.pop(0)
        one.kill()
        one.wait()

    def on_answer(self) -> None:
        """Not one step of the loop later."""
        if self._armed:
            self._armed = False
            for one in self.running:
                one.kill()
            self.answered.set()

    async def kill_on_answer(self) -> None:
        self.answered.clear()
        self._armed = True
        await self.answered.wait()
        for _ in range(SERVERS):
            self.kill()


@contextlib.asynccontextmanager
async def victims(database_url: str, log: Path) -> AsyncIterator[Victims]:
    made = Victims(database_url, log)
    try:
        for _ in range(SERVERS):
            made.start()
        yield made
    finally:
        while made.running:
            made.kill()


@pytest.mark.thorough
async def test_kills_in_the_middle_of_groups_lose_and_double_nothing(fresh_database_url: str, tmp_path: Path) -> None:
    chance = random.Random(11)
    acknowledged: dict[str, Counter[str]] = {}
    sent: dict[str, Any] = {}
    over = asyncio.Event()
    async with cup_door(fresh_database_url) as cup, victims(fresh_database_url, tmp_path / "victims.log") as doors:
        slugs = [await cup.market() for _ in range(3)]
        signers = [await cup.claimed() for _ in range(CLIENTS)]

        async def client(session: aiohttp.ClientSession, signer: Signer) -> None:
            while not over.is_set():
                body = signer.trade(chance.choice(slugs), chance.choice(("yes", "no")), chance.randint(1, 500))
                sent[body["tradeId"]] = body
                for _ in range(chance.randint(1, 2)):
                    with contextlib.suppress(aiohttp.ClientError, ConnectionError):
                        url = f"http://127.0.0.1:{doors.port}{BASE}/trade"
                        async with session.post(url, json=body) as response:
                            answer = await response.json()
                            assert response.status in (200, 429, 503), answer
                            if response.status == 200:
                                doors.on_answer()
                                told = acknowledged.setdefault(body["tradeId"], Counter())
                                told["replay" if answer["receipt"]["replay"] else "new"] += 1
                await asyncio.sleep(chance.uniform(0, 0.3))

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:
            playing = asyncio.gather(*(client(session, signer) for signer in signers))
            for _ in range(KILLS):
                await _acknowledge(acknowledged, playing)
                await asyncio.sleep(chance.uniform(0, 0.5))
                await doors.kill_on_answer()
                doors.start()
                doors.start()
                await _acknowledge(acknowledged, playing)
                doors.kill()
                doors.start()
            await _acknowledge(acknowledged, playing)
            over.set()
            await playing
            await the_books_hold(cup, acknowledged, sent)


async def _acknowledge(acknowledged: dict[str, Counter[str]], playing: asyncio.Future[Any]) -> None:
    """So many more trades were answered, however long a process takes to start on a busy machine."""
    wanted, until = len(acknowledged) + ANSWERS, time.monotonic() + 240
    while len(acknowledged) < wanted:
        if playing.done():
            await playing
        assert time.monotonic() < until, f"the servers answer no trades: {len(acknowledged)} of {wanted}"
        await asyncio.sleep(0.05)


async def the_books_hold(cup: Cup, acknowledged: dict[str, Counter[str]], sent: dict[str, Any]) -> None:
    async with await connect(cup.database_url) as connection:
        cursor = await connection.execute("SELECT trade_id FROM cup_trade")
        there = [trade_id for (trade_id,) in await cursor.fetchall()]
        raw = b"".join([piece async for piece in lines(connection)])
    assert acknowledged.keys() - set(there) == set(), "acknowledged, and lost"
    assert max(told["new"] for told in acknowledged.values()) == 1
    assert set(there) <= sent.keys()
    assert len(set(there)) == len(there)
    assert verify(raw.splitlines()).faults == []
