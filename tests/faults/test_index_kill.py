"""kill -9 at random instants, while history is read and at the head: nothing is lost and nothing doubled.

24 kills by default, 200 with VPM_TEST_LONG=1. The victims are forked from a process that has everything imported, so a
kill costs milliseconds and falls anywhere between two statements. Afterwards every row is compared with an index that
was never disturbed.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psycopg
import pytest

from core.chain.provider import ChainProvider
from core.db.engine import conninfo
from indexer import backfill
from indexer.node import RpcNode
from scripts._local.anvil import AnvilOptions
from tests.conftest import StartAnvil, TestPostgres
from tests.faults import index_victim
from tests.support import questions
from tests.support.index_load import CHAIN_ID, STOCK, LoadVenue, emit, place_emitter
from tests.support.index_tables import contents, differences, fresh_index
from tests.waiting import wait

LONG = os.environ.get("VPM_TEST_LONG") == "1"
KILLS = 200 if LONG else 24
SEED = os.environ.get("VPM_TEST_SEED", "kill")
HISTORY_BLOCKS = 400
HEAD_BLOCKS = 15

forked = multiprocessing.get_context("forkserver")
forked.set_forkserver_preload(["tests.faults.index_victim"])


def cursor(url: str) -> int:
    found = questions.rows(url, "SELECT number FROM chain_cursor")
    return int(found[0][0]) if found else -1


def wipe(url: str) -> None:
    tables = "chain_log, chain_block, chain_cursor, chain_log_removed, chain_reorg"
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute(f"TRUNCATE {tables}, stock_market, stock_vintage, stock_position, stock_venue".encode())


class Victims:
    """Followers that are killed one after the other."""

    def __init__(self, rpc_url: str, url: str, rng: random.Random) -> None:
        self.rpc_url, self.url, self.rng = rpc_url, url, rng
        self.kills = 0

    def start(self) -> ForkServerProcess:
        process = forked.Process(target=index_victim.follow, args=(self.rpc_url, self.url), daemon=True)
        process.start()
        return process

    def kill_one(self, longest_seconds: float) -> None:
        process = self.start()
        time.sleep(self.rng.random() * longest_seconds)
        assert process.is_alive(), "it ended by itself"
        process.kill()
        process.join(10)
        self.kills += 1

    @contextmanager
    def survivor(self) -> Iterator[None]:
        process = self.start()
        try:
            yield
            assert process.is_alive()
        finally:
            process.kill()
            process.join(10)


@pytest.mark.timeout(1_800 if LONG else 600)
@pytest.mark.thorough
def test_killed_at_random_instants_nothing_is_lost_or_doubled(
    anvil: StartAnvil, postgres: TestPostgres, database_url: str, tmp_path: Path
) -> None:
    rng = random.Random(SEED)
    chain = anvil(CHAIN_ID, mine_on_demand=True, gas_limit=2**50, extra=("--hardfork", "cancun", "--quiet")).options
    victims = Victims(chain.url, database_url, rng)
    venue = LoadVenue(seed=7)
    asyncio.run(_mine(chain, venue, range(1, HISTORY_BLOCKS + 1), prepare=True))
    head, in_history, at_head = HISTORY_BLOCKS, 0, 0
    while victims.kills < KILLS:
        wipe(database_url)
        while victims.kills < KILLS and cursor(database_url) < head - 64 and in_history <= KILLS * 2 // 3:
            victims.kill_one(0.35)
            in_history += 1
        with victims.survivor():
            _wait_for(database_url, head)
        until = head + HEAD_BLOCKS
        while head < until and (victims.kills < KILLS or at_head == 0):
            asyncio.run(_mine(chain, venue, range(head + 1, head + 4)))
            head += 3
            victims.kill_one(0.25)
            at_head += 1
        with victims.survivor():
            _wait_for(database_url, head)
        asyncio.run(_compare(chain, postgres, database_url))
    print(f"{victims.kills} kills, {in_history} of them in history and {at_head} at the head; {head} blocks")
    assert in_history > 0
    assert at_head > 0


def _wait_for(url: str, number: int) -> None:
    wait(lambda: cursor(url) >= number, lambda: f"block {number}, at {cursor(url)}", pause=0.02)


async def _mine(chain: AnvilOptions, venue: LoadVenue, numbers: range, *, prepare: bool = False) -> None:
    async with ChainProvider((chain.url,), chain_id=CHAIN_ID) as rpc:
        if prepare:
            await place_emitter(rpc)
        for number in numbers:
            await emit(rpc, venue.block(number, entries=12))


async def _compare(chain: AnvilOptions, postgres: TestPostgres, url: str) -> None:
    other = postgres.create()
    try:
        async with ChainProvider((chain.url,), chain_id=CHAIN_ID) as rpc:
            theirs = await fresh_index(other, RpcNode(rpc), STOCK)
    finally:
        postgres.drop(other)
    async with await psycopg.AsyncConnection.connect(conninfo(url)) as connection:
        different = differences(await contents(connection), theirs)
    assert not different


def test_the_victims_read_history_in_many_small_pages() -> None:
    """Else most kills would fall before or after the one page there is."""
    assert index_victim.LOGS_PER_PAGE * 10 < HISTORY_BLOCKS * 12
    assert backfill.LOGS_PER_PAGE > index_victim.LOGS_PER_PAGE
