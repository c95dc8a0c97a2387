"""Submitting once: the compare-and-swap of attempts under real concurrency, and the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.chain import Call
from core.contracts.abi import abi
from core.db.engine import ConnectionPool, make_pool
from keeper import attempts
from keeper.attempts import TransactionRequest
from keeper.run import JobRun, RunReport
from tests.support import programs
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, rigged

CHAIN = 4663
TO = "0x" + "11" * 20


@pytest.fixture
async def pool(fresh_database_url: str) -> AsyncIterator[ConnectionPool]:
    async with make_pool(fresh_database_url, size=8, autocommit=True) as opened:
        yield opened


def want(*subjects: str, data: bytes = b"\x01") -> TransactionRequest:
    return TransactionRequest("deliver", subjects, "t", "d", Call(TO, data, abi("VestedMarkets").function("deliver")))


async def rows(pool: ConnectionPool, query: str) -> list[tuple[Any, ...]]:
    async with pool.connection() as connection:
        return await (await connection.execute(query.encode())).fetchall()


async def attempt(pool: ConnectionPool, asked: TransactionRequest, barrier: asyncio.Barrier | None = None) -> bool:
    """One keeper's read and request; with a barrier, all have read before any requests."""
    async with pool.connection() as connection:
        known = await attempts.latest_attempts(connection, CHAIN, asked.subjects)
        if barrier is not None:
            await barrier.wait()
        return await attempts.submit(connection, CHAIN, asked, known) is not None


async def test_one_of_many_concurrent_keepers_submits(pool: ConnectionPool) -> None:
    """Even with different data: a price read a moment later differs, and must not be sent as well."""
    barrier = asyncio.Barrier(6)
    asking = (attempt(pool, want("price:X", data=bytes([n])), barrier) for n in range(6))
    assert sum(await asyncio.gather(*asking)) == 1
    assert await rows(pool, "SELECT count(*) FROM outbox_intent") == [(1,)]
    assert await rows(pool, "SELECT subject, attempts, failures FROM keeper_attempt") == [("price:X", 1, 0)]


async def test_overlapping_batches_are_not_both_submitted(pool: ConnectionPool) -> None:
    barrier = asyncio.Barrier(6)
    cuts = [want(*(f"p:{n}" for n in range(start, start + 5))) for start in (0, 2, 4, 0, 2, 4)]
    results = await asyncio.gather(*(attempt(pool, cut, barrier) for cut in cuts))
    assert 1 <= sum(results) <= 2  # 0..4 and 5..8 cannot both hold 4
    asked = await rows(pool, "SELECT subject, count(*) FROM keeper_attempt GROUP BY subject HAVING count(*) > 1")
    assert asked == []
    served = await rows(pool, "SELECT count(DISTINCT intent_id), max(attempts) FROM keeper_attempt")
    assert served == [(sum(results), 1)]
    assert await rows(pool, "SELECT count(*) FROM outbox_intent") == [(sum(results),)]


async def test_consecutive_failures_are_counted(pool: ConnectionPool) -> None:
    async def ends(state: str, extra: str = "") -> None:
        async with pool.connection() as connection:
            await connection.execute(f"UPDATE outbox_intent SET state = '{state}'{extra}".encode())

    failed = ", reason = 'no' WHERE state = 'queued'"
    for expected in (0, 1, 2):
        assert await attempt(pool, want("s"))
        assert await rows(pool, "SELECT failures FROM keeper_attempt") == [(expected,)]
        await ends("failed", failed)
    assert await rows(pool, "SELECT attempts FROM keeper_attempt") == [(3,)]


def reading(pool: ConnectionPool, now: int, *, dry_run: bool = False) -> JobRun:
    keeper, chain = SimpleNamespace(pool=pool), SimpleNamespace(chain_id=CHAIN)
    report = RunReport("a job", datetime.now(UTC))
    return JobRun(cast(Any, keeper), cast(Any, chain), report, now, now, None, dry_run=dry_run)


@pytest.mark.parametrize(
    ("what", "now", "agreed"),
    [
        ("STALE 1 2", 1060, True),
        ("STALE 1 2", 1059, False),  # too soon to be another read
        ("STALE 1 3", 1060, False),  # it says something else
        ("STALE 1 2", 900, False),  # time went back
    ],
)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_two_reads_agree(pool: ConnectionPool, what: str, now: int, agreed: bool, dry_run: bool) -> None:
    assert not await reading(pool, 1000).is_confirmed("s", "STALE 1 2")
    assert await reading(pool, now, dry_run=dry_run).is_confirmed("s", what) is agreed


async def test_a_confirmation_keeps_its_start_until_the_result_changes_for_all_keepers(pool: ConnectionPool) -> None:
    async def since(what: str, now: int, *, dry_run: bool = False) -> int:
        return await reading(pool, now, dry_run=dry_run).claimed_since("s", what)

    assert await since("lost", 100, dry_run=True) == 100
    assert await since("lost", 110) == 110, "a rehearsal leaves nothing behind"
    assert await since("lost", 900) == 110
    assert await since("lost", 950, dry_run=True) == 110
    assert await since("whole", 990, dry_run=True) == 990
    assert await since("whole", 1_000) == 1_000
    assert await since("lost", 1_100) == 1_100
    assert await since("lost", 50) == 50, "the chain was set back, so the wait begins anew"


# ---------------------------------------------------------------- whole


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "stock") as running:
        yield running


@pytest.mark.thorough
async def test_run_once_explains_and_submits(rig: Rig) -> None:
    rig.start("indexer", "relayer")
    await rig.works()

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "keeper", "run-once", *arguments]
        return programs.run(command, rig.environment)

    dry = await asyncio.to_thread(run, "drill", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "would submit open" in dry.stdout
    assert "skipped      TSLA drill" in dry.stdout
    assert rig.rows("SELECT 1 FROM outbox_intent") == []
    assert rig.rows("SELECT 1 FROM keeper_run") == []

    real = await asyncio.to_thread(run, "drill", "--json")
    assert real.returncode == 0, real.stderr
    report = json.loads(real.stdout)
    assert [each["kind"] for each in report["actions"]] == ["approve", "open"]
    assert all(each["txHash"] for each in report["actions"])
    assert rig.rows("SELECT ok FROM keeper_run WHERE job = 'drill'") == [(True,)]

    wrong = await asyncio.to_thread(run, "dig")
    assert wrong.returncode == 2
    assert "invalid choice" in wrong.stderr
    other = await asyncio.to_thread(run, "agent-pay")
    assert "no RPC URL is configured for the base chain" in other.stdout
