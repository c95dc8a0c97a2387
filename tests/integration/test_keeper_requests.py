"""What was asked of the keeper from outside is done, also when it could not be read at first."""

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


async def test_a_request_that_could_not_be_read_is_read_again(
    fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody tells the keeper of it a second time: who asks again joins the request that waits."""
    settings = settings_for(fresh_database_url)
    engine = make_engine(fresh_database_url)
    claim, refused = jobs.claim, 0

    async def refusing_twice(*given: Any) -> jobs.JobRequest | None:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise psycopg.OperationalError("the database is busy")
        return await claim(*given)

    monkeypatch.setattr(jobs, "claim", refusing_twice)
    async with make_pool(fresh_database_url, size=2, autocommit=True) as pool, aiohttp.ClientSession() as http:
        keeping = Keeping(Keeper(settings, load(KeeperSettings, {}), pool, engine, http, {}), fresh_database_url)
        async with pool.connection() as connection:
            asked = await jobs.request(connection, "nothing")
        async with running(keeping._serve_requests()), asyncio.timeout(60), pool.connection() as connection:
            while not (found := await jobs.read(connection, asked)) or found.report is None:
                await asyncio.sleep(0.1)
    assert refused == 2
    assert "There is no job nothing" in str(found.report)
    await engine.dispose()
