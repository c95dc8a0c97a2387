"""Answers while something behind the API is down: the database, the relayer, or an index that has read nothing. Health
stays 200 throughout and says why trading is off."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest

from core.db.engine import conninfo
from scripts._stack import wallets
from tests.conftest import TestPostgres
from tests.support.agent_service import AgentService, agent_service
from tests.support.buyer import Buyer, bet
from tests.support.genesis import Genesis
from tests.waiting import until

DEV = wallets.DEV


@pytest.fixture(scope="module")
def service(base_service: AgentService) -> AgentService:
    chain = base_service.chain
    chain.list("steady")
    env = {"VPM_RELAYER_LEASE_SECONDS": "2"}
    base_service.configure(**env)
    base_service.start("indexer", "relayer", "api")
    return base_service


@contextlib.contextmanager
def out_of_reach(database_url: str, table: str) -> Iterator[None]:
    """Lock the table: every statement on it waits, as behind a stuck disk."""
    with psycopg.connect(conninfo(database_url)) as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield
        connection.rollback()


def refused(response: aiohttp.ClientResponse, body: Any, status: int) -> None:
    assert (response.status, body["error"], body["retriable"]) == (status, "internal_error", True), body
    assert body["hint"]


async def test_the_quote_store_is_unreadable(buyer: Buyer, database_url: str) -> None:
    with out_of_reach(database_url, "agent_quote"):
        refused(*await buyer.get("/quote", marketId="steady", sizeUsd=11), 500)
        # What needs no lock is priced all the same.
        response, body = await buyer.get("/quote", marketId="steady", sizeUsd=10)
        assert response.status == 200, body
    response, body = await buyer.get("/quote", marketId="steady", sizeUsd=11)
    assert response.status == 200, body


@pytest.mark.parametrize("table", ["agent_trade", "agent_quote", "outbox_lane"])
@pytest.mark.thorough
async def test_the_trade_records_are_unreadable(buyer: Buyer, database_url: str, table: str) -> None:
    _, locked = await buyer.get("/quote", marketId="steady", sizeUsd=11)
    limits = {"quoteId": locked["quote"]["quoteId"], "minSharesOut": 1}
    wanted = bet("steady", DEV[0], size=11, **limits)
    with out_of_reach(database_url, table):
        refused(*await buyer.post(wanted), 500)
    await buyer.challenged(wanted)


async def test_the_proof_storage_is_unavailable(buyer: Buyer, database_url: str) -> None:
    _, simulated = await buyer.post(bet("steady", DEV[1], simulate=True))
    response, body = await buyer.get(f"/proof/{simulated['receipt']['tradeId']}")
    assert (response.status, body["error"]) == (404, "not_found")
    _, paid = await buyer.buy(bet("steady", DEV[1]), DEV[1])
    path = f"/proof/{paid['receipt']['tradeId']}"
    with out_of_reach(database_url, "agent_stake"):
        refused(*await buyer.get(path), 503)
    response, body = await buyer.get(path)
    assert (response.status, body["tradeId"]) == (200, paid["receipt"]["tradeId"])


async def test_health_answers_while_parts_are_down(buyer: Buyer, service: AgentService, database_url: str) -> None:
    async def health() -> dict[str, Any]:
        response, body = await buyer.get("/health")
        assert response.status == 200
        return dict(body["health"])

    assert await health() == {**await health(), "ok": True, "reason": None}
    with out_of_reach(database_url, "outbox_lane"):
        shown = await health()
        assert (shown["ok"], shown["reason"]) == (False, "The database cannot be read.")
    service.stop("relayer")
    shown = await _is_shown(health, ok=False)
    assert "relayer" in shown["reason"]
    response, body = await buyer.post(bet("steady", DEV[0]))
    assert (response.status, body["error"], body["retriable"]) == (503, "platform_paused", True)
    service.start("relayer")
    await _is_shown(health, ok=True)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("state = 'halted', problem = 'a reorganization beyond finality', head_seen_at = now()", "stopped"),
        ("head_number = number + 40, head_time = block_time + 61, head_seen_at = now()", "lags"),
        ("head_seen_at = now() - interval '61 seconds'", "lags"),
    ],
)
async def test_bets_are_refused_while_the_index_stands_still(
    buyer: Buyer, service: AgentService, database_url: str, change: str, why: str
) -> None:
    """Whether nodes still report heads or not, the book is old, so no signature is requested."""

    async def health() -> dict[str, Any]:
        return dict((await buyer.get("/health"))[1]["health"])

    service.stop("indexer")
    try:
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            connection.execute(f"UPDATE chain_cursor SET {change} WHERE name = 'base'".encode())
        shown = await _is_shown(health, ok=False)
        assert why in shown["reason"]
        response, body = await buyer.post(bet("steady", DEV[0]))
        assert (response.status, body["error"], body["retriable"]) == (503, "platform_paused", True), body
        response, body = await buyer.post(bet("steady", DEV[0], simulate=True))
        assert (response.status, body["error"]) == (503, "platform_paused"), body
    finally:
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            connection.execute(
                "UPDATE chain_cursor SET state = 'tail', problem = NULL, head_number = number, head_time = block_time"
                " WHERE name = 'base'"
            )
        service.start("indexer")
    await _is_shown(health, ok=True)


async def test_health_reports_that_no_base_node_can_be_reached(
    buyer: Buyer, service: AgentService, database_url: str, local_genesis: Genesis, tmp_path: Path
) -> None:
    """The index is fresh and the relayer works, but the process that accepts bets cannot read the chain."""
    with agent_service(
        service.chain, database_url, local_genesis.deployments, tmp_path, VPM_BASE_RPC_URLS="", VPM_BASE_WS_URLS=""
    ) as cut_off:
        cut_off.start("api")
        there = Buyer(buyer.session, cut_off)
        response, body = await there.post(bet("steady", DEV[0]))
        assert (response.status, body["error"]) == (503, "platform_paused"), body
        shown = (await there.get("/health"))[1]["health"]
        assert (shown["ok"], shown["reason"]) == (False, "No Base node responds."), shown
    assert (await buyer.get("/health"))[1]["health"]["ok"] is True


async def test_bets_are_refused_while_the_chain_stands_still(
    buyer: Buyer, service: AgentService, database_url: str, local_genesis: Genesis, tmp_path: Path
) -> None:
    """A node keeps reporting an old head. Development chains, without regular blocks, are exempt."""
    deployments = tmp_path / "deployments"
    deployments.mkdir()
    for each in local_genesis.deployments.glob("*.json"):
        (deployments / each.name).write_text(json.dumps({**json.loads(each.read_text()), "kind": "op-stack"}))

    def newest_block(at: str) -> None:
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            connection.execute(
                "UPDATE chain_cursor SET head_number = number, head_seen_at = now(),"
                f" (head_time, block_time) = (SELECT t, t FROM (SELECT {at}) AS x (t)) WHERE name = 'base'".encode()
            )

    service.stop("indexer")
    with psycopg.connect(conninfo(database_url)) as connection:
        row = connection.execute("SELECT block_time FROM chain_cursor WHERE name = 'base'").fetchone()
    assert row is not None
    try:
        with agent_service(service.chain, database_url, deployments, tmp_path) as live:
            newest_block("extract(epoch FROM now())::bigint - 2")
            live.start("api")
            there = Buyer(buyer.session, live)

            async def health() -> dict[str, Any]:
                return dict((await there.get("/health"))[1]["health"])

            await _is_shown(health, ok=True)
            newest_block("extract(epoch FROM now())::bigint - 70")
            shown = await _is_shown(health, ok=False)
            assert shown["reason"] == "The chain has produced no block for a minute."
            response, body = await there.post(bet("steady", DEV[0]))
            assert (response.status, body["error"], body["retriable"]) == (503, "platform_paused", True), body
            assert (await buyer.get("/health"))[1]["health"]["ok"] is True
            newest_block("extract(epoch FROM now())::bigint - 2")
            await _is_shown(health, ok=True)
    finally:
        newest_block(str(row[0]))
        service.start("indexer")


async def _is_shown(health: Any, *, ok: bool) -> dict[str, Any]:
    async def shown() -> dict[str, Any] | None:
        found: dict[str, Any] = await health()
        return found if found["ok"] is ok else None

    return await until(shown, "well" if ok else "unwell", pause=0.1)


async def test_nothing_is_indexed_yet(
    buyer: Buyer, service: AgentService, postgres: TestPostgres, local_genesis: Genesis, tmp_path: Path
) -> None:
    """With an empty database the API says that it has no data, not that there is no such market."""
    url = postgres.create()
    try:
        with agent_service(service.chain, url, local_genesis.deployments, tmp_path) as empty:
            empty.start("api")
            fresh = Buyer(buyer.session, empty)
            for path in ("/quote?marketId=steady", "/markets", "/markets/steady", "/result?marketId=steady", "/stats"):
                refused(*await fresh.get(path), 500)
            refused(*await fresh.post(bet("steady", DEV[0])), 500)
            response, body = await fresh.get("/health")
            assert (response.status, body["health"]["ok"], body["health"]["marketsOpen"]) == (200, False, 0)
    finally:
        postgres.drop(url)
