"""The event log during reorganizations: it is append-only, and its valid events equal those of a fresh index."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import Any

import pytest

from api.agent.bodies.events import event_body
from api.agent.facts import Links
from api.agent.requests import ResolvedQuery
from core.agent.notices import submitted
from core.agent.notices.log import MICROS, Draft, EventType, append, resolutions_after, source_of, undo_above
from core.agent.notices.submitted import Submitted
from core.contracts.statuses import StakeStatus
from core.db.engine import Connection, ConnectionPool, make_pool
from core.money import USD, loads
from indexer.errors import CursorMoved
from indexer.rebuild import rebuild
from indexer.store.tables import begin_writing
from tests.conftest import TestPostgres
from tests.support.index_chain import SimChain, SimNode, world_sources
from tests.support.index_tables import following, wipe
from tests.support.index_world import Crowd

LONG = os.environ.get("VPM_TEST_LONG") == "1"
REORGS = 200 if LONG else 15
FINALITY = 64

COLUMNS = "wallet, seq, source, occurrence, corrects, type, market_id, trade_id, at_micros, block_number, payload"


@dataclass(frozen=True)
class Row:
    wallet: bytes
    seq: int
    source: bytes
    occurrence: int
    corrects: bytes | None
    type: str
    market_id: str | None
    trade_id: bytes | None
    at_micros: int
    block: int | None
    payload: str

    @property
    def content(self) -> tuple[Any, ...]:
        """Return the fields that a fresh index has too."""
        return (self.source, self.type, self.market_id, self.trade_id, self.block, self.payload)


async def _rows(pool: ConnectionPool) -> dict[bytes, list[Row]]:
    async with pool.connection() as connection:
        found = await connection.execute(f"SELECT {COLUMNS} FROM agent_event ORDER BY wallet, seq".encode())
        by_wallet: dict[bytes, list[Row]] = {}
        for values in await found.fetchall():
            row = Row(*values)
            by_wallet.setdefault(row.wallet, []).append(row)
    return by_wallet


def _standing(rows: list[Row]) -> list[tuple[Any, ...]]:
    undone = {(row.corrects, row.occurrence) for row in rows}
    return [row.content for row in rows if row.corrects is None and (row.source, row.occurrence) not in undone]


async def _forget(pool: ConnectionPool) -> None:
    async with pool.connection() as connection:
        await wipe(connection)
        await connection.execute("TRUNCATE agent_event, agent_event_wallet")


async def _fresh(url: str, node: SimNode) -> dict[bytes, list[Row]]:
    async with following(url, node, world_sources(), finality_blocks=FINALITY) as (follower, pool):
        await _forget(pool)
        await follower.open()
        await follower.catch_up()
        return await _rows(pool)


def _mine(chain: SimChain, crowd: Crowd) -> None:
    chain.mine([crowd.next(chain.head.world) for _ in range(crowd.rng.randrange(6))])


@pytest.mark.timeout(900)
async def test_reorganizations_only_append_to_the_log(postgres: TestPostgres, database_url: str) -> None:
    crowd, chain = Crowd("events"), SimChain()
    rng, node = crowd.rng, SimNode(chain)
    for _ in range(250):
        _mine(chain, crowd)
    fresh_url = postgres.create()
    seen: dict[bytes, list[Row]] = {}
    try:
        async with following(database_url, node, world_sources(), finality_blocks=FINALITY) as (follower, pool):
            await _forget(pool)
            await follower.open()
            for _ in range(REORGS):
                await follower.catch_up()
                rows = await _rows(pool)
                for wallet, before in seen.items():
                    assert rows[wallet][: len(before)] == before  # what was read once stays
                seen = rows
                depth = rng.randint(1, 30)
                back = chain.drop(depth)
                rng.shuffle(back)
                for at in range(depth):
                    chain.mine(back[at * len(back) // depth : (at + 1) * len(back) // depth])
                for _ in range(rng.randint(0, 6)):
                    _mine(chain, crowd)
            await follower.catch_up()
            rows = await _rows(pool)
            fresh = await _fresh(fresh_url, node)
            assert {wallet: each for wallet, each in ((w, _standing(r)) for w, r in rows.items()) if each} == {
                wallet: [row.content for row in each] for wallet, each in fresh.items()
            }
            assert sum(row.corrects is not None for each in rows.values() for row in each) > REORGS
            for each in rows.values():
                assert [row.seq for row in each] == list(range(len(each)))
                moments = [row.at_micros for row in each]
                assert all(earlier < later for earlier, later in itertools.pairwise(moments))
            # Folding everything again adds nothing.
            await rebuild(pool, world_sources())
            assert await _rows(pool) == rows
    finally:
        postgres.drop(fresh_url)


@pytest.mark.thorough
async def test_a_rebuilt_database_has_the_same_events_to_the_byte(postgres: TestPostgres, database_url: str) -> None:
    crowd, chain = Crowd("anew"), SimChain()
    node = SimNode(chain)
    fresh_url = postgres.create()
    try:
        async with following(database_url, node, world_sources(), finality_blocks=FINALITY) as (follower, pool):
            await _forget(pool)
            await follower.open()
            for _ in range(60):
                for _ in range(crowd.rng.randint(1, 8)):
                    _mine(chain, crowd)
                await follower.catch_up()
            rows = await _rows(pool)
        assert await _fresh(fresh_url, node) == rows
        kinds = {row.type for each in rows.values() for row in each}
        assert kinds == {
            "bet.placed",
            "market.resolved",
            "position.won",
            "position.lost",
            "payout.paid",
            "payout.failed",
        }
    finally:
        postgres.drop(fresh_url)


async def test_appending_known_events_does_not_block_other_writers(database_url: str) -> None:
    """Reindexing repeats every event, and the relayer must not wait for a wallet's row."""
    wallet = b"\7" * 20
    draft = Draft(wallet, EventType.TEST, source_of(EventType.TEST, wallet), "{}")
    async with make_pool(database_url, size=2) as pool, pool.connection() as telling, pool.connection() as other:
        async with telling.transaction():
            await append(telling, [draft])
        async with telling.transaction():
            await append(telling, [draft, draft])
            row = "SELECT wallet FROM agent_event_wallet WHERE wallet = %s FOR UPDATE NOWAIT"
            assert await (await other.execute(row, (wallet,))).fetchall() == [(wallet,)]
        count = "SELECT count(*) FROM agent_event WHERE wallet = %s"
        assert await (await other.execute(count, (wallet,))).fetchall() == [(1,)]


async def test_events_are_written_durably_even_during_backfill(database_url: str) -> None:
    wallet = b"\x08" * 20
    draft = Draft(wallet, EventType.TEST, source_of(EventType.TEST, wallet), "{}")
    settings = []
    async with make_pool(database_url, size=1) as pool, pool.connection() as connection:
        for _ in range(2):
            async with connection.transaction():
                await begin_writing(connection, durable=False)
                await append(connection, [draft])
                settings += await (await connection.execute("SHOW synchronous_commit")).fetchall()
    assert settings == [("on",), ("off",)], "only where something was added"


async def test_a_submitted_bet_is_dated_by_the_indexed_block_not_by_a_newer_head(database_url: str) -> None:
    """Otherwise a client that asks for events since a time would miss those of the blocks in between."""
    crowd, chain = Crowd("sent"), SimChain()
    for _ in range(60):
        _mine(chain, crowd)
    async with following(database_url, SimNode(chain), world_sources()) as (follower, pool):
        await _forget(pool)
        await follower.open()
        await follower.catch_up()
        async with pool.connection() as connection, connection.transaction():
            wallet = b"\x09" * 20
            await connection.execute(
                "INSERT INTO agent_trade (wallet, idem_hash, market_id, outcome, amount, bet_hash, nonce, intent_id)"
                " SELECT %s, %s, market_id, 0, 1, %s, %s, 7 FROM agent_market LIMIT 1",
                (wallet, wallet.ljust(32), b"\1" * 32, b"\2" * 32),
            )
            asked = "UPDATE chain_cursor SET head_time = block_time + 30 RETURNING block_time"
            ((indexed_at,),) = await (await connection.execute(asked)).fetchall()
            await submitted.announce(connection, world_sources().chain_id, [Submitted(7, "settle", b"", b"\3" * 32)])
        (row,) = (await _rows(pool))[wallet]
        assert row.at_micros == indexed_at * MICROS


async def test_a_payout_reported_late_has_the_amount_that_was_paid(database_url: str) -> None:
    """The wallet's row was locked when the payment was signed; the event is written when the chain has the payment."""
    crowd, chain = Crowd("events"), SimChain()
    for _ in range(250):
        _mine(chain, crowd)
    async with following(database_url, SimNode(chain), world_sources()) as (follower, pool):
        await _forget(pool)
        await follower.open()
        await follower.catch_up()
        async with pool.connection() as connection, connection.transaction():
            found = await connection.execute(
                "SELECT s.stake_id, s.paid_amount, s.status FROM agent_stake s WHERE s.paid_tx IS NOT NULL ORDER BY 1"
            )
            paid = await found.fetchall()
            made = [Submitted(stake_id, "pay", _pay(stake_id), stake_id.to_bytes(32)) for stake_id, _, _ in paid]
            await submitted.announce(connection, world_sources().chain_id, made)
        rows = [each for rows in (await _rows(pool)).values() for each in rows if each.type == "payout.submitted"]
        payouts = {int(each["stakeId"]): each for each in (loads(row.payload) for row in rows)}
        assert any(status == StakeStatus.REFUNDED for _, _, status in paid)
        assert {each: (event["amountUsd"], event["refund"]) for each, event in payouts.items()} == {
            stake_id: (amount / USD, status == StakeStatus.REFUNDED) for stake_id, amount, status in paid
        }


def _pay(stake_id: int) -> bytes:
    return bytes(4) + bytes(32) + (64).to_bytes(32) + (1).to_bytes(32) + stake_id.to_bytes(32)


async def test_polling_for_resolutions_misses_none_that_a_fork_or_slow_node_delayed(database_url: str) -> None:
    """Each poll continues from the last event's `createdAt`, as documented."""
    wallet, at = b"\x0a" * 20, 1_764_000_000
    links = Links("http://127.0.0.1:1", None, "0x" + "00" * 20)

    def ended(market: str, seconds: int, block: int) -> Draft:
        source = source_of(EventType.MARKET_RESOLVED, wallet, market.encode())
        return Draft(wallet, EventType.MARKET_RESOLVED, source, "{}", market, chain_at=at + seconds, block=block)

    async with make_pool(database_url, size=1) as pool:
        seen: list[tuple[str | None, bool]] = []
        since = "1970-01-01"

        async def poll(connection: Connection) -> None:
            nonlocal since
            query = ResolvedQuery.model_validate({"since": since})
            for each in await resolutions_after(connection, wallet, query.since, 10):
                seen.append((each.market_id, "undone" in each.payload))
                since = event_body(each, links).created_at

        async with pool.connection() as connection:
            steps: list[Draft | int] = [
                ended("a", 0, 1), 0, ended("a", 0, 1), ended("b", 2, 2), ended("left out", 0, 1), ended("next", 2, 2),
            ]  # fmt: skip
            for step in steps:
                async with connection.transaction():
                    await (append(connection, [step]) if isinstance(step, Draft) else undo_above(connection, step))
                await poll(connection)
    assert seen == [
        ("a", False), ("a", True), ("a", False), ("b", False), ("left out", False), ("next", False),
    ]  # fmt: skip


async def test_a_former_leader_forgets_no_block(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader hangs, another takes over, and the first one resumes while pruning old empty blocks, which the other may
    be filling."""
    monkeypatch.setattr("indexer.chain.PRUNE_SECONDS", 0.0)
    chain = SimChain()
    for _ in range(4 * FINALITY):
        chain.mine([])
    node = SimNode(chain)
    async with following(database_url, node, world_sources(), finality_blocks=FINALITY) as (former, pool):
        await _forget(pool)
        await former.open()
        monkeypatch.setattr("indexer.chain.PRUNE_SECONDS", 10**9)
        await former.catch_up()
        blocks = "SELECT count(*) FROM chain_block"
        async with pool.connection() as connection:
            before = await (await connection.execute(blocks)).fetchall()
            await connection.execute("UPDATE chain_cursor SET number = number + 1")  # another leads
        monkeypatch.setattr("indexer.chain.PRUNE_SECONDS", 0.0)
        with pytest.raises(CursorMoved):
            await former.catch_up()
        async with pool.connection() as connection:
            assert await (await connection.execute(blocks)).fetchall() == before
