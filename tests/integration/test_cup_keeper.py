"""The keeper's tournament jobs on a real chain and database: markets mirrored and settled, rounds gone round."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import psycopg
import pytest
from eth_utils.crypto import keccak

from core.chain import ChainClient, RpcClient
from core.config import KeeperSettings, load
from core.cup import books, rounds, wheel
from core.db.engine import conninfo, make_engine, make_pool
from core.deployments import load_deployment
from keeper.cup.markets_job import follow_markets
from keeper.cup.roulette_job import spin
from keeper.desk import ChainDesk, Keeper, Run
from keeper.report import Report
from tests.conftest import StartAnvil
from tests.cup_rig import CHAIN_ID, settings_for


@dataclass
class Desk:
    """A keeper without its schedule: each call is one run, as if its process had just started."""

    keeper: Keeper
    desk: ChainDesk
    rpc: RpcClient

    async def run(self, job: Any) -> Report:
        head = await self.desk.client.head()
        report = Report("test", datetime.now(UTC))
        await job(Run(self.keeper, self.desk, report, head.timestamp, head.number, None))
        return report

    async def mine(self, blocks: int, apart_seconds: int) -> None:
        for _ in range(blocks):
            await self.rpc.call("evm_increaseTime", [apart_seconds], Any)
            await self.rpc.call("evm_mine", [], Any)

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        url = conninfo(self.keeper.settings.database_url.get_secret_value())
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def desk_at(database_url: str, node_url: str, **changes: Any) -> AsyncIterator[Desk]:
    settings = settings_for(database_url, **changes)
    engine = make_engine(database_url, autocommit=True)
    async with (
        make_pool(database_url, size=2, autocommit=True) as pool,
        aiohttp.ClientSession() as http,
        RpcClient((node_url,), chain_id=CHAIN_ID) as rpc,
    ):
        chain = ChainDesk("base", load_deployment(settings.chain("base").deployment_file), ChainClient(rpc))
        yield Desk(Keeper(settings, load(KeeperSettings, {}), pool, engine, http, {"base": chain}), chain, rpc)
    await engine.dispose()


_LISTED = (
    "INSERT INTO agent_market (market_id, kind, feed, target, bounds, early_resolvable, opens_at, closes_at, start_at,"
    " max_age, void_delay, fee_bps, outcomes, virtual_liquidity, metadata, document, slug, staked, net_pool, stakes,"
    " late_payments, paid_out, paid_shares, given_back, status, listed_block, listed_log_index, listed_at, listed_tx,"
    " updated_block) VALUES (%s, 0, %s, 0, '{}', false, 0, 4000000000, 0, 1, 1, 0, 2, 1, '', %s::jsonb, %s, 0, 0, 0,"
    " 0, 0, 0, 0, 1, 1, %s, 1, %s, 1)"
)


@pytest.mark.proves("cup.markets.decision.mirror", "cup.markets.decision.real_resolution")
async def test_paper_markets_follow_the_listed_ones(anvil: StartAnvil, fresh_database_url: str) -> None:
    async with desk_at(fresh_database_url, anvil(chain_id=CHAIN_ID).url) as desk:
        for position, slug in enumerate(("first", "second")):
            document = f'{{"slug": "{slug}", "question": "Q?", "tokenSymbol": "BNKR"}}'
            desk.sql(_LISTED, keccak(text=slug), b"\x01" * 20, document, slug, position, b"\x02" * 32)
        report = await desk.run(follow_markets)
        assert [(action.kind, action.target) for action in report.actions] == [
            ("cup-open", "first"),
            ("cup-open", "second"),
        ]
        assert (await desk.run(follow_markets)).actions == []
        async with desk.keeper.pool.connection() as connection:
            market = await books.find(connection, "first")
        assert (market.market_id, [side.key for side in market.sides]) == ("first", ["yes", "no"])
        ended = "status = %s, winner = %s, closed_tx = %s, closed_block = 1, closed_at = 1 WHERE slug = %s"
        desk.sql(f"UPDATE agent_market SET {ended}", 2, 1, b"\x03" * 32, "first")
        desk.sql(f"UPDATE agent_market SET {ended}", 3, None, b"\x03" * 32, "second")
        assert [action.kind for action in (await desk.run(follow_markets)).actions] == ["cup-settle"] * 2
        found = desk.sql("SELECT slug, status, winner FROM cup_market ORDER BY slug")
        assert found == [("first", "resolved", 1), ("second", "void", None)]
        assert (await desk.run(follow_markets)).actions == []


@pytest.mark.proves("cup.roulette.decision.round_times", "cup.roulette.decision.beacon")
async def test_a_restarted_keeper_finishes_the_round_it_finds(anvil: StartAnvil, fresh_database_url: str) -> None:
    node = anvil(chain_id=CHAIN_ID)
    async with desk_at(fresh_database_url, node.url) as desk:
        assert [action.status for action in (await desk.run(spin)).actions] == ["open"]
        assert (await desk.run(spin)).actions == []  # betting
        ((seed, commitment, betting, spinning, after),) = desk.sql(
            "SELECT seed, commitment, closes_at - opens_at, ends_at - closes_at, beacon_after FROM cup_round"
        )
        assert wheel.commitment_of(bytes(seed)) == bytes(commitment)
        assert (betting, spinning) == (rounds.BETTING, rounds.SPIN)
        desk.sql(
            "UPDATE cup_round SET opens_at = now() - interval '105 s', closes_at = now() - interval '60 s', "
            "ends_at = now() - interval '55 s'"
        )
    async with desk_at(fresh_database_url, node.url) as desk:  # another process
        waiting = await desk.run(spin)
        assert (waiting.actions, [skipped.target for skipped in waiting.skipped]) == ([], ["round 1"])
        await desk.mine(8, apart_seconds=13)
        report = await desk.run(spin)
        assert [(action.kind, action.status) for action in report.actions] == [
            ("cup-spin", "settled"),
            ("cup-round", "open"),
        ]
        ((number, hashed, pocket),) = desk.sql("SELECT beacon_number, beacon_hash, pocket FROM cup_round LIMIT 1")
        block, before = await desk.desk.client.block(number), await desk.desk.client.block(number - 1)
        assert block is not None
        assert before is not None
        assert before.timestamp < after <= block.timestamp
        assert block.hash == "0x" + bytes(hashed).hex()
        assert wheel.pocket_of(bytes(seed), 1, bytes(hashed)) == pocket
        assert (await desk.run(spin)).actions == []


async def test_no_round_opens_outside_the_window(anvil: StartAnvil, fresh_database_url: str) -> None:
    closed = {"VPM_CUP_OPENS_AT": None, "VPM_CUP_CLOSES_AT": None}
    async with desk_at(fresh_database_url, anvil(chain_id=CHAIN_ID).url, **closed) as desk:
        assert [skipped.target for skipped in (await desk.run(spin)).skipped] == ["the next round"]
        assert [skipped.target for skipped in (await desk.run(follow_markets)).skipped] == ["paper markets"]
        assert desk.sql("SELECT 1 FROM cup_round") == []
