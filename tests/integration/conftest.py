"""Fixtures of several integration tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.cup_rig import Cup, cup_door


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cup(database_url: str) -> AsyncIterator[Cup]:
    async with cup_door(database_url) as door:
        yield door
