"""A follower in a process of its own, to be killed. Imported once by the fork server the victims come from."""

from __future__ import annotations

import asyncio

import psycopg

from core.chain.errors import RpcError
from core.chain.provider import ChainProvider
from core.db.engine import make_pool
from core.errors import DatabaseError
from indexer import backfill
from indexer.chain import ChainFollower
from indexer.errors import CursorMoved
from indexer.node import RpcNode
from tests.support.index_load import CHAIN_ID, STOCK

LOGS_PER_PAGE = 150
POLL_SECONDS = 0.01


def follow(rpc_url: str, database_url: str) -> None:
    """Catches up for ever, in pages so small that a kill finds many commits to fall between."""
    backfill.LOGS_PER_PAGE = LOGS_PER_PAGE
    asyncio.run(_follow(rpc_url, database_url))


async def _follow(rpc_url: str, database_url: str) -> None:
    async with ChainProvider((rpc_url,), chain_id=CHAIN_ID) as rpc, make_pool(database_url, size=2) as pool:
        follower = ChainFollower(RpcNode(rpc), STOCK, pool, finality_blocks=64)
        reopen = True
        while True:
            try:
                if reopen:
                    await follower.open()
                    reopen = False
                await follower.catch_up()
            except (CursorMoved, RpcError, DatabaseError, psycopg.Error):
                reopen = True
            await asyncio.sleep(POLL_SECONDS)
