"""The indexer on real contracts: what it folds from their logs is what their own views say, every number."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from core.chain import ChainClient
from core.chain.client import BlockId
from core.chain.contract import Call
from core.chain.provider import ChainProvider
from core.contracts.statuses import StakeStatus
from core.db.engine import ConnectionPool, make_pool
from indexer.audit.compare import Comparison
from indexer.audit.run import audit
from indexer.chain import ChainFollower
from indexer.node import RpcNode
from indexer.rebuild import rebuild
from indexer.sources import Sources, sources_of
from indexer.store import steps
from tests.conftest import TestPostgres
from tests.support.audit_pages import audit_in_pages_of, compare
from tests.support.genesis import Genesis, RunningChain, chain, genesis
from tests.support.index_activity import AgentPlayers, Players, StockPlayers
from tests.support.index_tables import contents, differences, fresh_index, wipe

STEPS = 150 if os.environ.get("VPM_TEST_LONG") == "1" else 75


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a rebuild takes many batches in its one transaction, and an audit many pages, as of long histories."""
    monkeypatch.setattr(steps, "REFOLD_BATCH", 50)
    audit_in_pages_of(20, monkeypatch)


@pytest.fixture(scope="module")
def known() -> Genesis:
    return genesis()


CHAINS = {"stock": "stock", "base": "base"}


@asynccontextmanager
async def indexed(
    url: str, running: RunningChain
) -> AsyncIterator[tuple[ChainProvider, ChainFollower, ConnectionPool, Sources]]:
    sources = sources_of(running.deployment, running.name)
    async with (
        ChainProvider((running.url,), chain_id=sources.chain_id) as rpc,
        make_pool(url, size=2) as pool,
    ):
        async with pool.connection() as connection:
            await wipe(connection)
        follower = ChainFollower(RpcNode(rpc), sources, pool, finality_blocks=64)
        await follower.open()
        yield rpc, follower, pool, sources


class RememberingClient(ChainClient):
    """A client for a chain that stands still while its copy is tampered with: it asks the node for each view once."""

    def __init__(self, provider: ChainProvider) -> None:
        super().__init__(provider)
        self._answers: dict[tuple[BlockId, str, bytes], Any] = {}

    async def read_many(
        self, calls: Sequence[Call], block: BlockId, *, timeout_seconds: float | None = None
    ) -> list[Any]:
        keys = [(block, call.to, call.data) for call in calls]
        unknown = {key: call for key, call in zip(keys, calls, strict=True) if key not in self._answers}
        answers = await super().read_many(list(unknown.values()), block, timeout_seconds=timeout_seconds)
        self._answers.update(zip(unknown, answers, strict=True))
        return [self._answers[key] for key in keys]


async def check(pool: ConnectionPool, rpc: ChainProvider, sources: Sources) -> Comparison:
    found = (await audit(pool, ChainClient(rpc), sources)).comparison
    assert found.mismatches == 0, found.detail
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("side", ["stock", "base"])
async def test_a_busy_history_audits_clean_rebuilds_the_same_and_catches_tampering(
    side: str, database_url: str, known: Genesis, tmp_path: Path
) -> None:
    with chain(known, CHAINS[side], tmp_path / "anvil.log", mine_on_demand=True) as running:
        await _busy_history(side, database_url, running)


async def _busy_history(side: str, database_url: str, running: RunningChain) -> None:
    async with indexed(database_url, running) as (rpc, follower, pool, sources):
        players: Players
        if side == "stock":
            players = StockPlayers(rpc, running.deployment, "busy")
        else:
            players = AgentPlayers(rpc, running.deployment, "busy")
        await players.prepare()
        for step in range(STEPS):
            await players.step()
            if step % 7 == 0:
                await follower.catch_up()
            if step % 50 == 49:
                await follower.catch_up()
                await check(pool, rpc, sources)
        await players.everything_once()
        if isinstance(players, AgentPlayers):
            await players.condemn()
        await follower.catch_up()
        found = await check(pool, rpc, sources)
        print(f"{found.compared} numbers compared, {await players.reverted()} of {len(players.sent)} reverted")
        assert found.compared > 1_000
        async with pool.connection() as connection:
            before = await contents(connection)
        done = await rebuild(pool, sources)
        async with pool.connection() as connection:
            assert done.logs == len(before["chain_log"])
            assert not differences(await contents(connection), before)
        await check(pool, rpc, sources)
        client = RememberingClient(rpc)
        for statement in (*TAMPERING[side], *SHARED_TAMPERING, *(CANCELED if side == "base" else ())):
            async with pool.connection() as connection, connection.transaction(force_rollback=True):
                changed = await connection.execute(statement.encode())
                assert changed.rowcount == 1, statement
                found = await compare(connection, client, sources)
                assert found.mismatches > 0, statement
        async with pool.connection() as connection:
            found = await compare(connection, client, sources)
            assert found.mismatches == 0, "what the client remembers is what the chain says"


# One statement for each way a row can be wrong or gone; every table that is a cache is among them.
TAMPERING = {
    "stock": (
        "UPDATE stock_market SET acc_up = acc_up + 1 WHERE market_id = 1",
        "UPDATE stock_market SET refused = refused + 1 WHERE market_id = 1",
        "UPDATE stock_market SET refused = refused + 1, refunded = refunded + 1 WHERE market_id = 1",
        "UPDATE stock_position SET owner = decode(repeat('ab', 20), 'hex')"
        " WHERE position_id = (SELECT max(position_id) FROM stock_position)",
        "UPDATE stock_position SET entered_by = decode(repeat('ab', 20), 'hex')"
        " WHERE position_id = (SELECT max(position_id) FROM stock_position)",
        "UPDATE stock_position SET offered_before = offered_before + 1000000 WHERE position_id ="
        " (SELECT p.position_id FROM stock_position p JOIN stock_vintage v USING (market_id, vintage)"
        " WHERE v.accepted_up = v.offered_up AND p.outcome = 0 AND v.vintage > 0 LIMIT 1)",
        *(
            f"UPDATE stock_position SET {amount} = {amount} + 1 WHERE position_id ="
            f" (SELECT max(position_id) FROM stock_position WHERE {amount} > 0)"
            for amount in ("payout", "fee", "refund")
        ),
        "DELETE FROM stock_market WHERE market_id = (SELECT max(market_id) FROM stock_market)",
        "DELETE FROM stock_position WHERE position_id = (SELECT min(position_id) FROM stock_position)",
        "DELETE FROM stock_position WHERE position_id = (SELECT max(position_id) FROM stock_position)",
        "DELETE FROM stock_vintage WHERE (market_id, vintage) ="
        " (SELECT market_id, vintage FROM stock_vintage WHERE vintage > 0 ORDER BY 1, 2 LIMIT 1)",
        "DELETE FROM stock_opener WHERE opener = (SELECT opener FROM stock_opener LIMIT 1)",
        "DELETE FROM stock_feed WHERE feed = (SELECT feed FROM stock_feed LIMIT 1)",
        "DELETE FROM stock_fee_sweep WHERE (block_number, log_index) ="
        " (SELECT block_number, log_index FROM stock_fee_sweep LIMIT 1)",
        "DELETE FROM stock_venue",
        "UPDATE stock_feed SET allowed = NOT allowed WHERE feed = (SELECT feed FROM stock_feed LIMIT 1)",
    ),
    "base": (
        *(
            f"UPDATE agent_stake SET paid_amount = paid_amount + 1 WHERE stake_id ="
            f" (SELECT max(stake_id) FROM agent_stake WHERE paid_amount > 0 AND status = {status:d})"
            for status in (StakeStatus.PAID, StakeStatus.REFUNDED)
        ),
        "UPDATE agent_outcome SET shares = shares + 1 WHERE (market_id, outcome) ="
        " (SELECT market_id, outcome FROM agent_outcome LIMIT 1)",
        "UPDATE agent_outcome SET excess = excess + 1 WHERE (market_id, outcome) ="
        " (SELECT market_id, outcome FROM agent_outcome LIMIT 1)",
        "UPDATE agent_stake SET wallet = decode(repeat('ab', 20), 'hex') WHERE stake_id ="
        " (SELECT max(stake_id) FROM agent_stake)",
        "UPDATE agent_stake SET nonce = decode(repeat('ab', 32), 'hex') WHERE stake_id ="
        " (SELECT max(stake_id) FROM agent_stake)",
        "UPDATE agent_stake SET nonce = (SELECT nonce FROM agent_stake ORDER BY stake_id LIMIT 1)"
        " WHERE stake_id = (SELECT max(stake_id) FROM agent_stake)",
        "UPDATE agent_market SET unpaid = unpaid + 1 WHERE index = 1",
        "UPDATE agent_market SET paid_out = paid_out + 1"
        " WHERE market_id = (SELECT market_id FROM agent_market LIMIT 1)",
        "UPDATE agent_market SET settles_after = settles_after + 1"
        " WHERE market_id = (SELECT market_id FROM agent_market LIMIT 1)",
        "DELETE FROM agent_market WHERE market_id = (SELECT market_id FROM agent_market ORDER BY stakes LIMIT 1)",
        "DELETE FROM agent_market WHERE index = 1",
        "DELETE FROM agent_outcome WHERE (market_id, outcome) ="
        " (SELECT market_id, outcome FROM agent_outcome ORDER BY stakes LIMIT 1)",
        "DELETE FROM agent_stake WHERE stake_id = (SELECT max(stake_id) FROM agent_stake)",
        "DELETE FROM agent_stake WHERE stake_id = (SELECT min(stake_id) FROM agent_stake WHERE outcome IS NULL)",
        "DELETE FROM agent_role WHERE (role, account) = (SELECT role, account FROM agent_role LIMIT 1)",
        "DELETE FROM agent_role WHERE (role, account) = (SELECT role, account FROM agent_role ORDER BY role DESC,"
        " account DESC LIMIT 1)",
        "UPDATE agent_role SET allowed = NOT allowed WHERE (role, account) ="
        " (SELECT role, account FROM agent_role LIMIT 1)",
        "DELETE FROM agent_feed WHERE feed = (SELECT feed FROM agent_feed LIMIT 1)",
        "UPDATE agent_feed SET memory = memory - 1 WHERE feed = (SELECT feed FROM agent_feed LIMIT 1)",
        "UPDATE agent_venue SET void_delay = void_delay + 1",
        "DELETE FROM agent_venue",
        "DELETE FROM agent_fee_sweep WHERE (block_number, log_index) ="
        " (SELECT block_number, log_index FROM agent_fee_sweep LIMIT 1)",
    ),
}
SHARED_TAMPERING = (
    "DELETE FROM token_authorization WHERE (authorizer, nonce) ="
    " (SELECT authorizer, nonce FROM token_authorization WHERE state = 'paid' LIMIT 1)",
    "UPDATE token_authorization SET value = value + 1 WHERE (authorizer, nonce) ="
    " (SELECT authorizer, nonce FROM token_authorization WHERE state = 'paid' LIMIT 1)",
    "DELETE FROM oracle_round WHERE (block_number, log_index) = (SELECT block_number, log_index FROM oracle_round"
    " ORDER BY 1 LIMIT 1)",
    "DELETE FROM pauser_guardian WHERE account = (SELECT account FROM pauser_guardian LIMIT 1)",
    "UPDATE pauser_guardian SET allowed = NOT allowed WHERE account = (SELECT account FROM pauser_guardian LIMIT 1)",
    "DELETE FROM pauser_act WHERE (block_number, log_index) = (SELECT block_number, log_index FROM pauser_act LIMIT 1)",
)
CANCELED = (
    "DELETE FROM token_authorization WHERE nonce ="
    " (SELECT nonce FROM token_authorization WHERE state = 'canceled' LIMIT 1)",
    "UPDATE token_authorization SET state = 'unpaired' WHERE nonce ="
    " (SELECT nonce FROM token_authorization WHERE state = 'canceled' LIMIT 1)",
)


REORGS = 60 if os.environ.get("VPM_TEST_LONG") == "1" else 8


@pytest.mark.thorough
async def test_reorganizations_of_a_real_node_audit_clean(
    database_url: str, postgres: TestPostgres, known: Genesis, tmp_path: Path
) -> None:
    """anvil replaces its last blocks by others, or goes back to a snapshot; contracts and tables agree after each."""
    with chain(known, "stock", tmp_path / "anvil.log", mine_on_demand=True) as running:
        async with indexed(database_url, running) as (rpc, follower, pool, sources):
            players = StockPlayers(rpc, running.deployment, "reorgs")
            await players.prepare()
            for number in range(REORGS):
                snapshot = await players.ask("evm_snapshot") if number % 4 == 3 else None
                for _ in range(players.rng.randint(4, 10)):
                    await players.step()
                await follower.catch_up()
                if snapshot is not None:
                    await players.ask("evm_revert", snapshot)
                else:
                    depth = players.rng.randint(1, 4)
                    await rpc.call("anvil_reorg", [depth, []], object)
                await players.recount()
                for _ in range(players.rng.randrange(3)):
                    await players.step()
                await follower.catch_up()
                await check(pool, rpc, sources)
            async with pool.connection() as connection:
                ours = await contents(connection)
                undone = await (await connection.execute("SELECT count(*) FROM chain_reorg")).fetchone()
            other = postgres.create()
            try:
                theirs = await fresh_index(other, RpcNode(rpc), sources)
            finally:
                postgres.drop(other)
            assert not differences(ours, theirs)
            assert undone is not None
            assert undone[0] >= REORGS // 2
