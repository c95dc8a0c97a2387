"""The keeper's tournament jobs on a real chain and database: markets mirrored and settled, rounds gone round."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import psycopg
import pytest

from core.agent.bet import market_key
from core.agent.document import draft_document
from core.chain import ChainClient, ChainProvider
from core.config import KeeperSettings, load
from core.contracts.deployments import load_deployment
from core.contracts.feeds import PublishedFeed
from core.contracts.statuses import MarketKind
from core.cup import books, ledger, rounds, settling, trading, wheel
from core.cup.ledger import wallet_account
from core.db.engine import conninfo, make_engine, make_pool
from keeper.cup import follow_markets, spin
from keeper.run import JobRun, Keeper, KeeperChain, RunReport
from tests.conftest import StartAnvil
from tests.support.cup_rig import (
    CHAIN_ID,
    WEIGHT,
    Signer,
    listed_market,
    now,
    settings_for,
    specification,
)

SOURCE = PublishedFeed(
    kind="published",
    key="BNKR/market_cap",
    address="0x" + "01" * 20,
    max_lag_seconds=10,
    memory_seconds=10,
    max_age_seconds=3_600,
    pot_cap_units=10**9,
    feed_cap_units=64 * 10**9,
)


@dataclass
class ManualKeeper:
    """A keeper without its schedule: each call is one run, as if its process had just started."""

    keeper: Keeper
    chain: KeeperChain
    rpc: ChainProvider

    async def run(self, job: Any) -> RunReport:
        head = await self.chain.client.head()
        report = RunReport("test", datetime.now(UTC))
        await job(JobRun(self.keeper, self.chain, report, head.timestamp, head.number, None))
        return report

    async def mine(self, blocks: int, apart_seconds: int) -> None:
        for _ in range(blocks):
            await self.rpc.call("evm_increaseTime", [apart_seconds], Any)
            await self.rpc.call("evm_mine", [], Any)

    def listed(self, target_musd: int, kind: MarketKind = MarketKind.THRESHOLD) -> str:
        target = target_musd * 10**14 if kind is MarketKind.THRESHOLD else 0
        spec = specification(kind, target=target)
        words = draft_document(spec, SOURCE.key)
        query, values = listed_market(market_key(words.id), spec, slug=words.id)
        self.sql(query, *values)
        return words.id

    def indexed_to(self, number: int, *, finalized: int) -> None:
        self.sql(
            "INSERT INTO chain_cursor (chain_id, name, start_block, number, hash, finalized_number, state, sources) "
            "VALUES (%s, 'base', 1, %s, %s, %s, 'tail', '{}')",
            CHAIN_ID,
            number,
            b"\x01" * 32,
            finalized,
        )

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        url = conninfo(self.keeper.settings.database_url.get_secret_value())
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), values)
            return cursor.fetchall() if cursor.description else []


@asynccontextmanager
async def manual_keeper(database_url: str, node_url: str, **changes: Any) -> AsyncIterator[ManualKeeper]:
    settings = settings_for(database_url, **changes)
    engine = make_engine(database_url)
    async with (
        make_pool(database_url, size=2, autocommit=True) as pool,
        aiohttp.ClientSession() as http,
        ChainProvider((node_url,), chain_id=CHAIN_ID) as rpc,
    ):
        deployment = load_deployment(settings.chain("base").deployment_file)
        deployment = deployment.model_copy(update={"feeds": (SOURCE,)})
        chain = KeeperChain("base", deployment, ChainClient(rpc))
        yield ManualKeeper(Keeper(settings, load(KeeperSettings, {}), pool, engine, http, {"base": chain}), chain, rpc)
    await engine.dispose()


async def test_paper_markets_follow_the_listed_ones(
    anvil: StartAnvil, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with manual_keeper(fresh_database_url, anvil(chain_id=CHAIN_ID).url) as manual:
        first, second = manual.listed(100), manual.listed(0, MarketKind.DIRECTION)
        report = await manual.run(follow_markets)
        assert {(action.kind, action.target) for action in report.actions} == {
            ("cup-open", first),
            ("cup-open", second),
        }
        assert (await manual.run(follow_markets)).actions == []
        async with manual.keeper.pool.connection() as connection:
            market, rounds_ = await books.find(connection, first), await books.find(connection, second)
        assert (market.market_id, [side.key for side in market.sides]) == (first, ["yes", "no"])
        assert market.token_symbol == "BNKR"
        assert market.start_at is None
        assert rounds_.direction
        assert rounds_.start_at is not None
        for each in (market, rounds_):
            # What a listed outcome weighs, times ten, in cents; stakes end when the listed market's do.
            assert each.book.weights == (WEIGHT * 10 // 10**4,) * 2
            assert int(each.closes_at.timestamp()) == 4_000_000_000
            assert each.closes_at < (each.start_at or each.ends_at) <= each.ends_at
        ended = (
            "status = %s, winner = %s, void_reason = %s, closed_tx = listed_tx, closed_block = 1, closed_at = 1 "
            "WHERE slug = %s"
        )
        manual.sql(f"UPDATE agent_market SET {ended}", 2, 1, None, first)
        manual.sql(f"UPDATE agent_market SET {ended}", 3, None, 5, second)
        manual.indexed_to(100, finalized=90)
        asked: list[datetime] = []

        async def due(*given: Any) -> list[tuple[str, int | None]]:
            found = await find_due(*given)
            await asyncio.sleep(0.01)
            asked.append(now())
            return found

        find_due = settling.due
        monkeypatch.setattr(settling, "due", due)
        assert [action.kind for action in (await manual.run(follow_markets)).actions] == ["cup-settle"] * 2
        # What the run waited for may have been the end of a week: the board is that of the moment it paid in.
        assert all(at > asked[0] for (at,) in manual.sql("SELECT settled_at FROM cup_market"))
        found = manual.sql("SELECT slug, status, winner FROM cup_market")
        assert set(found) == {(first, "resolved", 1), (second, "void", None)}
        assert (await manual.run(follow_markets)).actions == []


async def test_a_result_that_a_fork_may_still_change_pays_nothing(anvil: StartAnvil, fresh_database_url: str) -> None:
    async with manual_keeper(fresh_database_url, anvil(chain_id=CHAIN_ID).url) as manual:
        slug = manual.listed(100)
        await manual.run(follow_markets)
        ended = "status = 2, winner = %s, closed_tx = listed_tx, closed_block = %s, closed_at = 1"
        manual.sql(f"UPDATE agent_market SET {ended}", 1, 95)
        manual.indexed_to(100, finalized=90)
        assert (await manual.run(follow_markets)).actions == []
        manual.sql(f"UPDATE agent_market SET {ended}", 0, 97)  # in the blocks that came in the place of the first
        assert (await manual.run(follow_markets)).actions == []
        manual.sql("UPDATE chain_cursor SET finalized_number = 97")
        assert [action.kind for action in (await manual.run(follow_markets)).actions] == ["cup-settle"]
        assert manual.sql("SELECT status, winner FROM cup_market WHERE slug = %s", slug) == [("resolved", 0)]


async def test_a_listing_that_is_gone_for_good_gives_its_stakes_back(
    anvil: StartAnvil, fresh_database_url: str
) -> None:
    async with manual_keeper(fresh_database_url, anvil(chain_id=CHAIN_ID).url) as manual:
        gone, running = manual.listed(1), manual.listed(2)
        await manual.run(follow_markets)
        async with manual.keeper.pool.connection() as connection:
            signer = Signer()
            await ledger.claim(connection, signer.address)
            for slug in (gone, running):
                order = trading.PaperOrder(
                    f"on {slug}", signer.address, slug, "yes", 500, "2026-11-21T12:00:00Z", b"\x01" * 65
                )
                (answer,) = await trading.place(connection, [order], now)
                assert isinstance(answer, trading.PaperReceipt)
        manual.sql("UPDATE cup_market SET opens_at = now() - interval '1 h', closes_at = now() - interval '1 min'")
        manual.sql("DELETE FROM agent_market WHERE slug = %s", gone)
        assert (await manual.run(follow_markets)).actions == []  # nothing says how far the index is
        closed = int(now().timestamp()) - 60
        manual.indexed_to(100, finalized=90)
        blocks = (
            "INSERT INTO chain_block (chain_id, number, hash, timestamp, l1_block_number) VALUES (%s, %s, %s, %s, 1)"
        )
        manual.sql(blocks, CHAIN_ID, 90, b"\x02" * 32, closed - 10)
        manual.sql(blocks, CHAIN_ID, 100, b"\x01" * 32, closed + 10)
        assert (await manual.run(follow_markets)).actions == []  # another block may still bring it again
        manual.sql("UPDATE chain_cursor SET finalized_number = 100, state = 'backfill'")
        assert (await manual.run(follow_markets)).actions == []  # nor while the chain is read again
        manual.sql("UPDATE chain_cursor SET state = 'tail'")
        report = await manual.run(follow_markets)
        assert [(action.kind, action.target) for action in report.actions] == [("cup-settle", gone)]
        found = manual.sql("SELECT slug, status FROM cup_market")
        assert set(found) == {(gone, "void"), (running, "open")}
        found = manual.sql("SELECT balance_cents FROM cup_account WHERE account = %s", wallet_account(signer.address))
        assert found == [(1_000_000 - 500,)]
        assert (await manual.run(follow_markets)).actions == []


async def test_a_market_that_cannot_be_settled_holds_up_no_other(anvil: StartAnvil, fresh_database_url: str) -> None:
    async with manual_keeper(fresh_database_url, anvil(chain_id=CHAIN_ID).url) as manual:
        broken, sound = sorted((manual.listed(1), manual.listed(2)))
        await manual.run(follow_markets)
        async with manual.keeper.pool.connection() as connection:
            signer = Signer()
            await ledger.claim(connection, signer.address)
            for slug in (broken, sound):
                order = trading.PaperOrder(
                    f"on {slug}", signer.address, slug, "yes", 500, "2026-11-21T12:00:00Z", b"\x01" * 65
                )
                (answer,) = await trading.place(connection, [order], now)
                assert isinstance(answer, trading.PaperReceipt)
        ended = "status = 2, winner = %s, closed_tx = listed_tx, closed_block = 1, closed_at = 1"
        manual.sql(f"UPDATE agent_market SET {ended} WHERE slug = %s", 7, broken)  # of two outcomes
        manual.sql(f"UPDATE agent_market SET {ended} WHERE slug = %s", 0, sound)
        manual.indexed_to(100, finalized=90)
        new = manual.listed(3)
        report = await manual.run(follow_markets)
        assert [(action.kind, action.target) for action in report.actions] == [("cup-settle", sound), ("cup-open", new)]
        assert [broken in error for error in report.errors] == [True]
        found = manual.sql("SELECT slug, status FROM cup_market")
        assert set(found) == {(broken, "open"), (sound, "resolved"), (new, "open")}


async def test_a_restarted_keeper_finishes_the_round_it_finds(anvil: StartAnvil, fresh_database_url: str) -> None:
    node = anvil(chain_id=CHAIN_ID)
    async with manual_keeper(fresh_database_url, node.url) as manual:
        assert [action.status for action in (await manual.run(spin)).actions] == ["open"]
        assert (await manual.run(spin)).actions == []  # betting
        ((seed, commitment, betting, spinning, after),) = manual.sql(
            "SELECT seed, commitment, closes_at - opens_at, ends_at - closes_at, beacon_after FROM cup_round"
        )
        assert wheel.commitment_of(bytes(seed)) == bytes(commitment)
        assert (betting, spinning) == (rounds.BETTING, rounds.SPIN)
        manual.sql(
            "UPDATE cup_round SET opens_at = now() - interval '105 s', closes_at = now() - interval '60 s', "
            "ends_at = now() - interval '55 s'"
        )
    async with manual_keeper(fresh_database_url, node.url) as manual:  # another process
        waiting = await manual.run(spin)
        assert [(action.kind, action.status) for action in waiting.actions] == [("cup-close", "done")]
        assert [skipped.target for skipped in waiting.skipped] == ["round 1"]
        assert (await manual.run(spin)).actions == []
        await manual.mine(8, apart_seconds=13)
        report = await manual.run(spin)
        # To find the block takes as long as the node likes: by the clocks of before, the next would be open already.
        assert [(action.kind, action.status) for action in report.actions] == [("cup-spin", "settled")]
        ((number, hashed, pocket),) = manual.sql("SELECT beacon_number, beacon_hash, pocket FROM cup_round LIMIT 1")
        block, before = await manual.chain.client.block(number), await manual.chain.client.block(number - 1)
        assert block is not None
        assert before is not None
        assert before.timestamp < after <= block.timestamp
        assert block.hash == "0x" + bytes(hashed).hex()
        assert wheel.pocket_of(bytes(seed), 1, bytes(hashed)) == pocket
        assert [action.status for action in (await manual.run(spin)).actions] == ["open"]
        assert (await manual.run(spin)).actions == []


async def test_no_round_opens_outside_the_window(anvil: StartAnvil, fresh_database_url: str) -> None:
    closed = {"VPM_CUP_OPENS_AT": None, "VPM_CUP_CLOSES_AT": None}
    async with manual_keeper(fresh_database_url, anvil(chain_id=CHAIN_ID).url, **closed) as manual:
        assert [skipped.target for skipped in (await manual.run(spin)).skipped] == ["the next round"]
        assert [skipped.target for skipped in (await manual.run(follow_markets)).skipped] == ["paper markets"]
        assert manual.sql("SELECT 1 FROM cup_round") == []
