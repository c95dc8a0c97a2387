"""Many clients at once on one tournament: claims, trades, bets and repeats of all of them, with rounds and a market
settled meanwhile. Afterwards the books are exact and the export verifies.

Each client has so much to do, and not so much time: a slow machine takes longer for the same work.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from typing import Any

import pytest

from core.cup import rounds, settling, wheel
from core.cup.export import lines
from core.cup.verify import verify
from core.db.engine import connect
from tests.support.cup_rig import UNACCOUNTED, Cup, Signer, cup_door, now

CLIENTS = 200
PLAYS = 60 if os.environ.get("VPM_TEST_LONG") == "1" else 4
"""Of each client, once it has claimed."""
BETS_OF_A_ROUND = 40

ALLOWED = {
    200,
    402,  # the wallet has spent it
    409,  # the round or the market closed meanwhile
    422,  # the round's total is reached
    429,  # the wallet is faster than its cap
}


class Crowd:
    """What the clients did, and what they were told."""

    def __init__(self, door: Cup, slugs: list[str], seed: int) -> None:
        self.door = door
        self.slugs = slugs
        self.random = random.Random(seed)
        self.statuses: Counter[int] = Counter()
        self.minted: Counter[str] = Counter()
        self.traded: Counter[str] = Counter()
        self.betted: Counter[tuple[Any, ...]] = Counter()
        self.live = 0
        self.plays_left = CLIENTS * PLAYS

    async def client(self, signer: Signer) -> None:
        await self.claim(signer)
        for _ in range(PLAYS):
            await self.random.choice((self.claim, self.trade, self.trade, self.bet))(signer)
            self.plays_left -= 1

    async def claim(self, signer: Signer) -> None:
        for answer in await self.twice("/wallet", {"walletAddress": signer.address}):
            self.minted[signer.address] += answer.body["minted"]

    async def trade(self, signer: Signer) -> None:
        body = signer.trade(
            self.random.choice(self.slugs), self.random.choice(("yes", "no")), self.random.randint(1, 300_000)
        )
        for answer in await self.twice("/trade", body):
            if answer.status == 200:
                self.traded[body["tradeId"]] += not answer.body["receipt"]["replay"]

    async def bet(self, signer: Signer) -> None:
        body = signer.bet(self.live, self.random.choice(list(wheel.OUTCOMES)), self.random.randint(1000, 50_000))
        for answer in await self.twice("/roulette/bet", body):
            if answer.status == 200 and not answer.body["receipt"]["replay"]:
                self.betted[signer.address, body["roundNo"], body["betKey"]] += 1

    async def told(self, path: str, body: Any) -> Any:
        """On a slow machine there is no connection for everybody in time; whoever is told so comes again."""
        while (answer := await self.door.post(path, body)).status == 503:
            await asyncio.sleep(0.1)
        return answer

    async def twice(self, path: str, body: Any) -> list[Any]:
        """The same request two times at once, as an impatient client would."""
        answers = await asyncio.gather(self.told(path, body), self.told(path, body))
        self.statuses.update(answer.status for answer in answers)
        return list(answers)


async def _rounds_go_round(crowd: Crowd) -> None:
    """A round ends when enough have bet on it, so that bets come early, in time and too late, on a slow machine as on a
    quick one; at the latest when its betting does."""
    while crowd.plays_left:
        enough, over = len(crowd.betted) + BETS_OF_A_ROUND, time.monotonic() + rounds.BETTING.total_seconds()
        while crowd.plays_left and len(crowd.betted) < enough and time.monotonic() < over:
            await asyncio.sleep(0.05)
        await crowd.door.finish_round(crowd.live, os.urandom(32))
        crowd.live = (await crowd.door.open_round()).round_no


@pytest.mark.timeout(300 + 15 * PLAYS)
@pytest.mark.thorough
async def test_200_clients_leave_the_ledger_exact(fresh_database_url: str) -> None:
    async with cup_door(fresh_database_url) as door:
        crowd = Crowd(door, [await door.market() for _ in range(5)], seed=7)
        crowd.live = (await door.open_round()).round_no
        signers = [Signer() for _ in range(CLIENTS)]

        async def settle_one() -> None:
            while crowd.plays_left > CLIENTS * PLAYS // 2:
                await asyncio.sleep(0.05)
            async with await connect(door.database_url) as connection:
                assert await settling.settle(connection, crowd.slugs[0], 1, now) is not None

        await asyncio.gather(*(crowd.client(signer) for signer in signers), _rounds_go_round(crowd), settle_one())
        assert set(crowd.statuses) <= ALLOWED, crowd.statuses
        assert crowd.statuses[200] > CLIENTS
        assert set(crowd.minted.values()) == {1}
        assert max(crowd.traded.values()) == 1
        assert max(crowd.betted.values()) == 1
        assert len({number for _, number, _ in crowd.betted}) > 1
        await door.close_round(crowd.live)
        async with await connect(door.database_url) as connection:
            assert await rounds.finish(connection, crowd.live, 1, b"\x05" * 32, now) is not None
            for slug in crowd.slugs[1:]:
                await settling.settle(connection, slug, 0, now)
            raw = b"".join([piece async for piece in lines(connection)])
        assert await door.value("SELECT count(*) FROM cup_trade") == sum(crowd.traded.values())
        assert await door.value("SELECT count(*) FROM cup_bet") == sum(crowd.betted.values())
        assert await door.value("SELECT min(balance_cents) FROM cup_account") >= 0
        assert await door.value(UNACCOUNTED) == 0
        left = "SELECT count(*) FROM cup_account WHERE balance_cents <> 0 AND account !~ '^wallet:'"
        assert await door.value(left) == 0  # every pool is paid out to the cent
        assert verify(raw.splitlines()).faults == []
