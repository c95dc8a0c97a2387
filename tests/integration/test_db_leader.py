"""Leadership on a real PostgreSQL: one at a time, and a standby takes over within ten seconds."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import psycopg
import pytest

from core.db.engine import connect
from core.db.leader import Leadership, lock_key
from core.errors import DatabaseUnreachable
from core.paths import REPOSITORY
from core.service.cancelling import cancel_and_wait
from tests.waiting import until


class Work:
    def __init__(self) -> None:
        self.started = 0
        self.cancelled = 0

    async def __call__(self) -> None:
        self.started += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@contextlib.asynccontextmanager
async def running(*leaders: Leadership) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(leader.run(Work())) for leader in leaders]
    try:
        yield
    finally:
        await cancel_and_wait(*tasks)


def _terminate_holder(url: str, role: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
            " AND datname = current_database() AND pid IN "
            "(SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)",
            (f"vpm-leader {role}",),
        ).fetchall()
    return len(rows)


async def test_exactly_one_leads_and_when_its_connection_is_killed_it_stops_and_one_leads_again(
    database_url: str,
) -> None:
    work = [Work(), Work(), Work()]
    leaders = [Leadership(database_url, "cut") for _ in work]
    tasks = [asyncio.create_task(leader.run(each)) for leader, each in zip(leaders, work, strict=True)]
    try:
        await until(lambda: sum(leader.is_leader for leader in leaders) == 1)
        await asyncio.sleep(2.5)  # the others are polling by now
        assert sum(each.started for each in work) == 1
        holder = next(index for index, leader in enumerate(leaders) if leader.is_leader)
        assert _terminate_holder(database_url, "cut") == 1
        await until(lambda: work[holder].cancelled == 1)
        await until(lambda: sum(each.started for each in work) == 2)
        await until(lambda: sum(leader.is_leader for leader in leaders) == 1)
    finally:
        await cancel_and_wait(*tasks)


async def test_a_killed_process_is_replaced_within_ten_seconds(database_url: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from core.db.leader import Leadership\n"
        "async def work():\n    print('leading', flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(Leadership(sys.argv[1], 'killed').run(work))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", program, database_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as holder:  # noqa: ASYNC220 - starts at once
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"leading\n"
        standby = Leadership(database_url, "killed")
        async with running(standby):
            await asyncio.sleep(1.5)
            assert not standby.is_leader
            holder.send_signal(signal.SIGKILL)
            await until(lambda: standby.is_leader, "the standby to lead", 10)


async def test_a_process_that_hangs_is_replaced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not ask whether it leads any more, and its connection is as good as ever."""
    monkeypatch.setattr("core.db.leader.HUNG_SECONDS", 1)
    monkeypatch.setattr("core.db.leader.CHECK_SECONDS", 600.0)
    hung, standby = Leadership(database_url, "hung"), Leadership(database_url, "hung")
    async with running(hung):
        await until(lambda: hung.is_leader)
        monkeypatch.undo()
        async with running(standby):
            await until(lambda: standby.is_leader)


async def test_roles_do_not_hinder_each_other(database_url: str) -> None:
    leaders = [Leadership(database_url, role) for role in ("indexer:base", "indexer:vpm")]
    async with running(*leaders):
        await until(lambda: all(leader.is_leader for leader in leaders))
    assert lock_key("indexer:base") != lock_key("indexer:vpm")


async def test_finished_work_gives_up_the_lock_and_returns(database_url: str) -> None:
    async def once() -> None:
        return

    leader = Leadership(database_url, "once")
    await leader.run(once)
    assert not leader.is_leader
    await Leadership(database_url, "once").run(once)


async def test_failing_work_gives_up_the_lock_and_raises(database_url: str) -> None:
    async def fail() -> None:
        raise ValueError("a fault in the work")

    leader = Leadership(database_url, "fails")
    with pytest.raises(ValueError, match="a fault in the work"):
        await leader.run(fail)
    assert not leader.is_leader
    successor = Leadership(database_url, "fails")
    async with running(successor):
        await until(lambda: successor.is_leader)


async def test_the_election_outlives_a_missing_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = connect, [DatabaseUnreachable(), DatabaseUnreachable()]

    async def flaky(*arguments: object, **options: object) -> object:
        if failures:
            raise failures.pop()
        return await real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("core.db.leader.connect", flaky)
    leader = Leadership(database_url, "patient")
    async with running(leader):
        await until(lambda: leader.is_leader)
        assert failures == []
