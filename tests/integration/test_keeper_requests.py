"""Requested jobs are run and answered, also if the database fails at first."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import psycopg
import pytest

from core import outbox
from core.config import KeeperSettings, load
from core.db.engine import ConnectionPool, make_engine, make_pool
from core.outbox import IntentRequest, enqueue
from core.service import jobs
from keeper import service
from keeper.jobs import Runner
from keeper.run import Action, Keeper
from keeper.service import KeeperService
from tests.support.cup_rig import settings_for
from tests.waiting import PATIENCE, running


@pytest.fixture
async def keeper(fresh_database_url: str) -> AsyncIterator[Keeper]:
    engine = make_engine(fresh_database_url)
    async with make_pool(fresh_database_url, size=3, autocommit=True) as pool, aiohttp.ClientSession() as http:
        yield Keeper(settings_for(fresh_database_url), load(KeeperSettings, {}), pool, engine, http, {})
    await engine.dispose()


async def report_of(pool: ConnectionPool, service: KeeperService, asked: int) -> str:
    async with running(service._serve_requests()), asyncio.timeout(PATIENCE), pool.connection() as connection:
        while (found := await jobs.read(connection, asked)) is None or found.report is None:
            await asyncio.sleep(0.1)
        return str(found.report)


@pytest.mark.parametrize("step", ["claim", "finish"])
async def test_a_request_is_answered_despite_database_failures(
    keeper: Keeper, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    taking, refused = getattr(jobs, step), 0

    async def refusing_twice(*given: Any, **named: Any) -> Any:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise psycopg.OperationalError("the database is busy")
        return await taking(*given, **named)

    monkeypatch.setattr(jobs, step, refusing_twice)
    async with keeper.pool.connection() as connection:
        asked = await jobs.request(connection, "nothing")
    assert "There is no job nothing" in await report_of(keeper.pool, KeeperService(keeper, fresh_database_url), asked)
    assert refused == 2


async def test_a_request_whose_claim_got_no_answer_is_claimed_again(
    keeper: Keeper, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was committed, and the connection lost before the answer: as if its keeper had died with it."""
    monkeypatch.setattr(jobs, "ABANDONED_AFTER_SECONDS", 1)
    monkeypatch.setattr(service, "POLL_SECONDS", 0.5)
    claim, lost = jobs.claim, False

    async def lose_the_first(*given: Any) -> Any:
        nonlocal lost
        claimed = await claim(*given)
        if claimed is not None and not lost:
            lost = True
            raise psycopg.OperationalError("the connection was lost")
        return claimed

    monkeypatch.setattr(jobs, "claim", lose_the_first)
    async with keeper.pool.connection() as connection:
        asked = await jobs.request(connection, "nothing")
    assert "There is no job nothing" in await report_of(keeper.pool, KeeperService(keeper, fresh_database_url), asked)
    assert lost


async def test_a_report_omits_hashes_that_cannot_be_read(
    keeper: Keeper, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = IntentRequest(key=secrets.token_hex(8), chain_id=1, group="keeper", kind="resolve", to="0x" + "11" * 20)
    async with keeper.pool.connection() as connection:
        intent = await enqueue(connection, request)
        asked = await jobs.request(connection, "resolve")
    run = Runner.run

    async def asks_for_it(self: Runner, *given: Any) -> Any:
        report = await run(self, *given)
        report.actions.append(Action("resolve", "a market", "queued", "", None, intent.id))
        return report

    async def is_away(*_: object) -> None:
        raise psycopg.OperationalError("the database restarts")

    monkeypatch.setattr(Runner, "run", asks_for_it)
    monkeypatch.setattr(outbox, "read", is_away)
    assert "a market" in await report_of(keeper.pool, KeeperService(keeper, fresh_database_url), asked)
