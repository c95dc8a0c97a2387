"""What was asked of the keeper from outside is done and answered, also when the database refused at first."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import psycopg
import pytest

from core.config import KeeperSettings, load
from core.db.engine import make_engine, make_pool
from core.service import jobs
from keeper.desk import Keeper
from keeper.service import Keeping
from tests.cup_rig import settings_for
from tests.waiting import running


@pytest.mark.parametrize("step", ["claim", "finish"])
async def test_a_request_is_answered_although_the_database_refused_for_a_while(
    fresh_database_url: str, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Nobody tells the keeper of it a second time, and who made it waits for its report."""
    settings = settings_for(fresh_database_url)
    engine = make_engine(fresh_database_url)
    taking, refused = getattr(jobs, step), 0

    async def refusing_twice(*given: Any, **named: Any) -> Any:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise psycopg.OperationalError("the database is busy")
        return await taking(*given, **named)

    monkeypatch.setattr(jobs, step, refusing_twice)
    async with make_pool(fresh_database_url, size=2, autocommit=True) as pool, aiohttp.ClientSession() as http:
        keeping = Keeping(Keeper(settings, load(KeeperSettings, {}), pool, engine, http, {}), fresh_database_url)
        async with pool.connection() as connection:
            asked = await jobs.request(connection, "nothing")
        async with running(keeping._serve_requests()), asyncio.timeout(30), pool.connection() as connection:
            while not (found := await jobs.read(connection, asked)) or found.report is None:
                await asyncio.sleep(0.1)
    assert refused == 2
    assert "There is no job nothing" in str(found.report)
    await engine.dispose()
