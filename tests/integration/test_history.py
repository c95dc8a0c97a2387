"""History weighs nothing: what a process holds, lists and reads depends on what is open and on what is asked for.

A database with thousands of settled markets, analyzed, behind the real surfaces and pages. Every statement they send is
kept and explained again: none reads a table that grows from its beginning to its end, and none touches many rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import psycopg
import pytest
from sqlalchemy import event

from api.agent.index import AgentIndex
from api.agent.rows import MAX_SETTLED
from api.app import make_app, serve
from api.context import Context, open_context
from api.followed_index import Archive
from api.stock.index import StockIndex
from api.stock.reads import MARKETS_LISTED
from api.web.home import AGAIN_SECONDS
from core.config import ApiSecrets, Settings
from core.contracts.deployments import load_deployment
from core.db.engine import conninfo
from core.feeds.words import feed_words
from core.service.cancelling import cancel_and_wait
from tests.support.history_fill import (
    BASE_CHAIN,
    STOCK_CHAIN,
    HistorySize,
    agent_names,
    fill,
    next_block,
    sum_all,
    wallet_of,
    write_deployments,
)
from tests.waiting import PATIENCE

SIZE = HistorySize(stock=5_000, agent=4_000, stakes=5, positions=3, wallets=1_000, open_each=20)
GROWING = {
    "agent_market",
    "agent_outcome",
    "agent_stake",
    "stock_market",
    "stock_vintage",
    "stock_position",
    "oracle_round",
}
MAX_ROWS = 2_500
"""A statement may touch this many rows: a page of 200 with its details, not the tens of thousands there are."""

AGENT = "/api/agent/v1"


@dataclass
class Statements:
    sent: dict[str, Any] = field(default_factory=dict)

    def watch(self, context: Context) -> None:
        for engine in (context.engine, context.primary):
            event.listen(engine.sync_engine, "before_cursor_execute", self._keep)

    def _keep(self, _c: Any, _cursor: Any, statement: str, parameters: Any, _x: Any, many: bool) -> None:
        if any(re.search(rf"\b{table}\b", statement) for table in GROWING) and not many:
            self.sent.setdefault(statement, parameters)

    def faults(self, url: str) -> list[str]:
        found = []
        with psycopg.connect(conninfo(url)) as connection:
            for statement, parameters in self.sent.items():
                row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode(), parameters).fetchone()
                assert row is not None
                nodes = list(_nodes(row[0][0]["Plan"]))
                scanned = [each["Relation Name"] for each in nodes if each["Node Type"] == "Seq Scan"]
                touched = sum(map(_rows, nodes))
                if GROWING & set(scanned) or touched > MAX_ROWS:
                    found.append(f"{touched} rows, scans {scanned}: {statement}")
        return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)


def _rows(node: dict[str, Any]) -> float:
    if "Relation Name" not in node:
        return 0.0
    return float((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])


@dataclass
class Rig:
    url: str
    session: aiohttp.ClientSession
    statements: Statements
    names: list[str]

    async def get(self, path: str, status: int = 200) -> Any:
        """Asked for again when the answer says so, as it does on a machine too busy to read within seconds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            async with self.session.get(path) as response:
                body = await response.read()
                if response.status == status:
                    return json.loads(body) if response.content_type == "application/json" else body.decode()
                again = response.headers.get("Retry-After")
            assert again is not None, (path, response.status, body[:300])
            assert time.monotonic() < deadline, (path, response.status, body[:300])
            await asyncio.sleep(int(again))


@dataclass(frozen=True)
class Filled:
    folder: Path
    at: int


@pytest.fixture(scope="module")
def filled(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("deployments")
    write_deployments(folder)
    return Filled(folder, fill(database_url, SIZE))


@pytest.fixture
async def rig(filled: Filled, database_url: str) -> AsyncIterator[Rig]:
    settings = Settings.model_validate(
        {
            "DATABASE_URL": database_url,
            "VPM_DEPLOYMENTS_DIR": str(filled.folder),
            "VPM_AGENT_ENABLED": True,
        }
    )
    tasks: list[asyncio.Task[None]] = []
    statements = Statements()

    def spawn(_name: str, work: Any) -> object:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    names = [name for _, name, _, _ in agent_names(SIZE, filled.at)]
    async with open_context(settings, ApiSecrets(), spawn) as context:
        statements.watch(context)
        async with (
            make_app(context) as app,
            serve(app, "127.0.0.1", 0) as port,
            aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        ):
            yield Rig(database_url, session, statements, names)
        await cancel_and_wait(*tasks)


@contextlib.asynccontextmanager
async def _engine(url: str, folder: Path) -> AsyncIterator[Context]:
    settings = Settings.model_validate({"DATABASE_URL": url, "VPM_DEPLOYMENTS_DIR": str(folder)})
    async with open_context(settings, ApiSecrets(), lambda _name, work: work.close()) as context:
        yield context


@pytest.mark.thorough
async def test_every_read_leaves_history_alone(rig: Rig) -> None:
    """The start, each read of both surfaces and the pages, of new and of old markets, and what a block brings."""
    old, new, open_one = rig.names[3], rig.names[SIZE.agent - 1], rig.names[-1]
    for path in (
        "/markets",
        "/markets?status=all",
        "/markets?status=all&limit=200&token=T03&type=market_cap",
        f"/markets?status=all&ids={old},{new}",
        *(f"/markets/{each}{rest}" for each in (old, new, open_one) for rest in ("", "/research")),
        *(f"/result?marketId={each}" for each in (old, new)),
        f"/quote?marketId={open_one}&side=yes&sizeUsd=5",
        "/discover?q=T05",
        "/sentiment?token=T05",
        f"/positions?wallet={wallet_of(7)}",
        "/stats",
        "/health",
    ):
        await rig.get(AGENT + path)
    for path in (
        "/api/markets",
        "/api/markets?limit=50&before=900",
        *(f"/api/markets/{each}" for each in (2, SIZE.stock, SIZE.stock + 1)),
        f"/api/positions?owner={wallet_of(7)}",
        "/api/proof",
        "/",
        "/m/2",
        f"/markets/{old}",
        f"/positions?owner={wallet_of(7)}",
        "/proof",
    ):
        await rig.get(path)
    with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
        proof = connection.execute("SELECT bet_hash FROM agent_stake WHERE stake_id = 3::bigint << 32").fetchone()
        assert proof is not None
        await rig.get(f"{AGENT}/proof/0x{proof[0].hex()}")
        for chain in (BASE_CHAIN, STOCK_CHAIN):
            next_block(connection, chain)
    await asyncio.sleep(1)
    assert len(rig.statements.sent) > 20
    for column in ("stock_position.entered_at", "agent_stake.staked_at"):
        assert any(f"ORDER BY {column} DESC" in each for each in rig.statements.sent), f"the feed goes by {column}"
    assert rig.statements.faults(rig.url) == []


def _feed(page: str) -> str:
    return page.partition('<ol class="feed">')[2].partition("</ol>")[0].strip()


async def test_the_first_page_has_the_newest_bets_of_both_kinds(rig: Rig) -> None:
    page = await rig.get("/")
    deadline = time.monotonic() + PATIENCE
    # Neither a surface nor the feed is waited for longer than some seconds, and the page goes without it until there is
    # a block.
    while not (feed := _feed(page)) or page.count('<li class="card"') < 2 * SIZE.open_each:
        assert time.monotonic() < deadline, page
        await asyncio.sleep(AGAIN_SECONDS)
        with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
            next_block(connection, STOCK_CHAIN)
        page = await rig.get("/")
    shown = [datetime.fromisoformat(each).timestamp() for each in re.findall(r'datetime="([^"]+)"', feed)]
    with psycopg.connect(conninfo(rig.url)) as connection:
        newest = connection.execute(
            "SELECT at FROM (SELECT entered_at AS at FROM stock_position WHERE vintage > 0 UNION ALL"
            " SELECT staked_at FROM agent_stake WHERE outcome IS NOT NULL) x ORDER BY at DESC LIMIT 10"
        ).fetchall()
    assert shown == [at for (at,) in newest]
    cards = page.count('<li class="card"')
    assert cards == 2 * SIZE.open_each
    for bets in (SIZE.positions, SIZE.stakes):
        assert page.count(f"{bets} bets") == SIZE.open_each


@pytest.mark.thorough
async def test_pages_reach_every_market_once(rig: Rig) -> None:
    seen: list[str] = []
    path = f"{AGENT}/markets?status=all&limit=200"
    body = await rig.get(path)
    while True:
        seen += [each["id"] for each in body["markets"]]
        if body["nextCursor"] is None:
            break
        assert body["count"] == 200
        body = await rig.get(f"{path}&cursor={body['nextCursor']}")
    assert sorted(seen) == sorted(rig.names)
    assert len(seen) == len(set(seen))

    body = await rig.get("/api/markets")
    first = [int(each["id"]) for each in body["markets"]]
    assert first == sorted(first, reverse=True)
    assert {each["phase"] for each in body["markets"]} - {"live"} == {"opens", "resolved"}
    everything = SIZE.stock + SIZE.open_each
    assert first == list(range(everything, everything - len(first), -1))
    assert sum(each["phase"] == "resolved" for each in body["markets"]) == MARKETS_LISTED
    stock = list(first)
    while body["nextBefore"] is not None:
        body = await rig.get(f"/api/markets?limit=500&before={body['nextBefore']}")
        stock += [int(each["id"]) for each in body["markets"]]
    assert stock == list(range(everything, 0, -1))


async def test_the_receipt_of_a_bet_is_found_without_looking_through_all_there_were(rig: Rig, filled: Filled) -> None:
    settler = load_deployment(filled.folder / "stock.json").contracts["VestedMarkets"].address
    with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
        row = connection.execute(
            "INSERT INTO token_authorization (chain_id, authorizer, nonce, token, state, recipient, value,"
            " block_number, log_index, at, tx) SELECT %(chain)s, entered_by, entry_tx, %(settler)s, 'paid',"
            " %(settler)s, offered, entered_block, 1, entered_at, entry_tx FROM stock_position"
            " WHERE position_id = (7::bigint << 32) | 3"
            " RETURNING encode(authorizer, 'hex'), encode(nonce, 'hex')",
            {"chain": STOCK_CHAIN, "settler": bytes.fromhex(settler[2:])},
        ).fetchone()
    assert row is not None
    body = await rig.get(f"/api/relay/receipt?from=0x{row[0]}&nonce=0x{row[1]}")
    assert body["position"]["id"] == str((7 << 32) | 3)
    asked = [each for each in rig.statements.sent if "entry_tx = " in each]
    assert asked, "it reads the position by its transaction"
    assert rig.statements.faults(rig.url) == []


async def test_a_wallets_history_comes_in_pages_and_its_sums_are_of_all(rig: Rig) -> None:
    wallet = wallet_of(7)
    whole = await rig.get(f"{AGENT}/positions?wallet={wallet}")
    summary = whole["summary"]
    seen: list[str] = []
    page = await rig.get(f"{AGENT}/positions?wallet={wallet}&limit=7")
    while True:
        assert page["summary"] == summary
        seen += [each["tradeId"] for each in page["positions"]]
        if page["nextCursor"] is None:
            break
        assert page["count"] == 7
        page = await rig.get(f"{AGENT}/positions?wallet={wallet}&limit=7&cursor={page['nextCursor']}")
    assert len(seen) == len(set(seen)) == summary["openCount"] + summary["resolvedCount"]
    assert seen[: whole["count"]] == [each["tradeId"] for each in whole["positions"]]
    assert summary["totalStakedUsd"] == 2 * len(seen)
    assert (await rig.get(f"{AGENT}/positions?wallet={wallet}&cursor=abc", 400))["error"] == "invalid_request"

    owned = await rig.get(f"/api/positions?owner={wallet}&limit=500")
    ids: list[str] = []
    body = await rig.get(f"/api/positions?owner={wallet}&limit=5")
    while True:
        assert body["totals"] == owned["totals"]
        ids += [each["id"] for each in body["positions"]]
        if body["nextBefore"] is None:
            break
        body = await rig.get(f"/api/positions?owner={wallet}&limit=5&before={body['nextBefore']}")
    assert ids == [each["id"] for each in owned["positions"]]
    assert len(ids) > 10
    assert int(owned["totals"]["staked"]) == 5_000_000 * len(ids)
    page = await rig.get(f"/positions?owner={wallet}&before={ids[4]}")
    held = page.partition('id="held"')[2].partition("</section>")[0]
    assert len(re.findall(r'<th [^>]*scope="row"', held)) == len(ids) - 5
    assert (
        "This is the running total of the bets on this page only"
        in page.partition('id="results"')[2].partition("</section>")[0]
    )
    assert "Older positions" not in page
    assert (await rig.get(f"/api/positions?owner={wallet}&before=3", 400))["error"] == "invalid_request"


@pytest.mark.thorough
async def test_what_was_held_before_a_block_is_called_old_where_that_cannot_be_read(rig: Rig) -> None:
    """Its positions are of another block than its markets then: a winner would read that nothing is due to her."""
    path = f"/api/positions?owner={wallet_of(9)}"

    def block() -> None:
        with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
            next_block(connection, STOCK_CHAIN)

    block()
    body = await rig.get(path)
    deadline = time.monotonic() + PATIENCE
    while body["stale"]:
        assert time.monotonic() < deadline, "it never was fresh"
        block()
        body = await rig.get(path)
    with psycopg.connect(conninfo(rig.url)) as connection:
        connection.execute("LOCK TABLE stock_position IN ACCESS EXCLUSIVE MODE")
        block()
        deadline = time.monotonic() + PATIENCE
        while (await rig.get("/api/markets"))["readAt"] < body["readAt"]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        held = await rig.get(path)
        connection.rollback()
    assert held["positions"] == body["positions"]
    assert held["stale"]
    block()
    deadline = time.monotonic() + PATIENCE
    while (await rig.get(path))["stale"]:
        assert time.monotonic() < deadline, "it stays old"
        await asyncio.sleep(0.1)


async def test_an_old_market_is_known_by_its_id_and_its_key_and_takes_no_bets(rig: Rig) -> None:
    name = rig.names[10]
    body = await rig.get(f"{AGENT}/markets/{name}")
    assert body["market"]["status"] == "resolved"
    key = body["market"]["settlement"]["marketKey"]
    assert (await rig.get(f"{AGENT}/markets/{key}"))["market"]["id"] == name
    assert (await rig.get(f"{AGENT}/quote?marketId={name}", 409))["error"] == "market_closed"
    for unknown in (name[:-1], key[:-1] + "g", "x" * 150, "%00", "0x" + "12" * 32):
        await rig.get(f"{AGENT}/markets/{unknown}", 404)
    assert (await rig.get("/api/markets/9223372036854775808", 404))["error"] == "market_not_found"
    assert (await rig.get("/api/markets/4000000", 404))["error"] == "market_not_found"


async def test_an_archive_is_bounded_and_keeps_nothing_older_than_a_change(filled: Filled, database_url: str) -> None:
    reads: list[list[int]] = []
    begun, going_on = asyncio.Event(), asyncio.Event()
    value = 1

    async def load(_connection: Any, keys: Any) -> dict[int, int]:
        reads.append(list(keys))
        found = {key: value for key in keys if key < 100}
        begun.set()
        await going_on.wait()
        return found

    going_on.set()
    async with _engine(database_url, filled.folder) as context:
        archive: Archive[int, int] = Archive(context.engine, load, most=3)
        assert await archive.get([1, 2, 1]) == {1: 1, 2: 1}
        assert await archive.get([2, 3, 4]) == {2: 1, 3: 1, 4: 1}
        assert await archive.get([100]) == {}
        assert reads == [[1, 2], [3, 4], [100]]
        assert [archive._rows.get(each) for each in (1, 2, 3, 4)] == [None, 1, 1, 1]
        value = 2
        archive.forget([2])
        assert (await archive.get([2]), archive._rows.get(3)) == ({2: 2}, 1)
        going_on.clear()
        begun.clear()
        archive.forget_all()
        reading = asyncio.create_task(archive.get([5]))
        await begun.wait()
        archive.forget([5])  # changed while it is read: what is read may be older
        going_on.set()
        assert await reading == {5: 2}
        assert archive._rows.get(5) is None


async def test_while_no_block_comes_a_look_reads_the_head_and_nothing_else(filled: Filled, database_url: str) -> None:
    base = load_deployment(filled.folder / "base.json")
    async with _engine(database_url, filled.folder) as context:
        for chain, index in (
            (BASE_CHAIN, AgentIndex(database_url, context.engine, BASE_CHAIN, feed_words(base.agent_feeds))),
            (STOCK_CHAIN, StockIndex(database_url, context.engine, STOCK_CHAIN)),
        ):
            await index.refresh()
            before = index.snapshot
            assert before is not None
            with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
                connection.execute("UPDATE chain_cursor SET head_number = number + 7 WHERE chain_id = %s", (chain,))
            asked: list[str] = []

            def note(*given: Any, asked: list[str] = asked) -> None:
                asked.append(given[2])

            event.listen(context.engine.sync_engine, "before_cursor_execute", note)
            try:
                await index.refresh()
            finally:
                event.remove(context.engine.sync_engine, "before_cursor_execute", note)
                with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
                    connection.execute("UPDATE chain_cursor SET head_number = number WHERE chain_id = %s", (chain,))
            assert len(asked) == 1, asked
            assert index.snapshot == replace(before, head=replace(before.head, lag=7))


async def test_a_process_holds_what_is_open_and_the_newest_settled(filled: Filled, database_url: str) -> None:
    base = load_deployment(filled.folder / "base.json")
    async with _engine(database_url, filled.folder) as context:
        agent = AgentIndex(database_url, context.engine, BASE_CHAIN, feed_words(base.agent_feeds))
        stock = StockIndex(database_url, context.engine, STOCK_CHAIN)
        await agent.refresh()
        await stock.refresh()
        for index, settled in ((agent, SIZE.agent), (stock, SIZE.stock)):
            assert index.snapshot is not None
            assert settled > 10 * MAX_SETTLED
            assert len(index.snapshot.markets) == SIZE.open_each + MAX_SETTLED
        # A market that settles takes the place of the oldest settled one.
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            next_block(
                connection,
                STOCK_CHAIN,
                f"UPDATE stock_market SET winner = 0, closed_tx = created_tx, closed_at = {int(time.time())},"
                " closed_block = 1, paid_principal = principal_up, updated_block = (SELECT number + 1 FROM chain_cursor"
                f" WHERE chain_id = {STOCK_CHAIN}) WHERE market_id = {SIZE.stock + 1}",
            )
        await stock.refresh()
        assert stock.snapshot is not None
        assert SIZE.stock + 1 in stock.snapshot.markets
        assert len(stock.snapshot.markets) == SIZE.open_each - 1 + MAX_SETTLED
        old = await stock.market(5)
        assert old is not None
        assert old.result is not None
        assert 5 not in stock.snapshot.markets
        # One settled long ago is paid out still: what was kept of it is forgotten.
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            next_block(
                connection,
                STOCK_CHAIN,
                "UPDATE stock_market SET paid = paid + 1, updated_block = (SELECT number + 1 FROM chain_cursor"
                f" WHERE chain_id = {STOCK_CHAIN}) WHERE market_id = 5",
            )
        assert await stock.market(5) == old
        await stock.refresh()
        paid = await stock.market(5)
        assert paid is not None
        assert paid.market.paid == old.market.paid + 1
        assert len(stock.snapshot.markets) == SIZE.open_each - 1 + MAX_SETTLED


async def test_a_proof_whose_old_market_cannot_be_read_is_unavailable(rig: Rig) -> None:
    """The specification promises 503 for it, and a client goes by that."""
    with psycopg.connect(conninfo(rig.url)) as connection:
        found = connection.execute(
            "SELECT encode(s.bet_hash, 'hex') FROM agent_stake s JOIN agent_market m USING (market_id)"
            " WHERE m.closed_at IS NOT NULL AND s.outcome IS NOT NULL ORDER BY m.closed_at, s.stake_id LIMIT 1"
        ).fetchone()
        assert found is not None
        connection.execute("LOCK TABLE agent_market, agent_outcome IN ACCESS EXCLUSIVE MODE")
        proof, read, page = await asyncio.gather(
            *(
                rig.session.get(path)
                for path in (
                    f"{AGENT}/proof/0x{found[0]}",
                    f"{AGENT}/markets/{rig.names[0]}",
                    f"/markets/{rig.names[0]}",
                )
            )
        )
        connection.rollback()
    for answer, status in ((proof, 503), (read, 500)):
        assert (answer.status, (await answer.json())["error"]) == (status, "internal_error")
    # What the API's specification calls 500 is 503 on pages: they will be there again shortly.
    assert page.status == 503, await page.text()
    assert all("Retry-After" in each.headers for each in (proof, read, page))


async def test_who_asks_for_a_wallets_book_gets_all_of_it(rig: Rig) -> None:
    """A client of the specification knows no pages: what it is not shown it does not have."""
    wallet, others = wallet_of(20), [bytes.fromhex(wallet_of(each)[2:]) for each in range(21, 41)]
    with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
        moved = connection.execute(
            "UPDATE agent_stake SET wallet = %s WHERE wallet = ANY(%s)", (bytes.fromhex(wallet[2:]), others)
        )
        assert moved.rowcount > 200
    await sum_all(rig.url)
    body = await rig.get(f"{AGENT}/positions?wallet={wallet}")
    summary = body["summary"]
    assert body["count"] == len(body["positions"]) == summary["openCount"] + summary["resolvedCount"]
    assert body["count"] > 200
    assert body["nextCursor"] is None


async def test_who_asks_for_an_addresss_positions_gets_all_of_them(rig: Rig) -> None:
    wallet, others = wallet_of(50), [bytes.fromhex(wallet_of(each)[2:]) for each in range(51, 71)]
    with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
        moved = connection.execute(
            "UPDATE stock_position SET owner = %s WHERE owner = ANY(%s)", (bytes.fromhex(wallet[2:]), others)
        )
        assert moved.rowcount > 200
    await sum_all(rig.url)
    body = await rig.get(f"/api/positions?owner={wallet}")
    assert int(body["totals"]["staked"]) == 5_000_000 * len(body["positions"])
    assert len(body["positions"]) > 200
    assert body["nextBefore"] is None


async def test_no_sum_is_shown_until_the_chains_history_is_read(rig: Rig) -> None:
    """Before that the tables of sums mean nothing; the proof keeps its previous reading, if it has one."""
    owner = wallet_of(7)

    async def proof_lacks_sums() -> bool:
        async with rig.session.get("/api/proof") as response:
            return response.status == 503 or "bettors" in (await response.json())["missing"]

    with psycopg.connect(conninfo(rig.url), autocommit=True) as connection:
        connection.execute("UPDATE chain_cursor SET summed = false")
        try:
            for path, status in (
                (f"{AGENT}/stats", 500),
                (f"{AGENT}/positions?wallet={owner}", 500),
                (f"/api/positions?owner={owner}", 503),
            ):
                async with rig.session.get(path) as response:
                    assert response.status == status, path
            async with asyncio.timeout(PATIENCE):
                while not await proof_lacks_sums():
                    await asyncio.sleep(0.1)
        finally:
            connection.execute("UPDATE chain_cursor SET summed = true")
    assert (await rig.get(f"{AGENT}/stats"))["stats"]["totalBets"] > SIZE.agent
    async with asyncio.timeout(PATIENCE):
        while await proof_lacks_sums():
            await asyncio.sleep(0.1)
    assert (await rig.get("/api/proof"))["bettors"]["distinct"] > 0


async def test_the_proof_says_which_of_its_lists_go_on(rig: Rig) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await rig.session.get("/api/proof")).status == 503:  # before the first gathering
            await asyncio.sleep(0.1)
    body = await rig.get("/api/proof")
    assert (len(body["settled"]), body["newestOnly"]) == (200, ["settled"])
    assert "the newest 200 as" in await rig.get("/proof")


async def test_a_block_moves_the_days_volume_and_does_not_sum_the_day_again(filled: Filled, database_url: str) -> None:
    base, newest = load_deployment(filled.folder / "base.json"), "(SELECT max(stake_id) FROM agent_stake)"
    window = "FROM agent_stake WHERE outcome IS NOT NULL AND staked_at > (SELECT block_time - 86400 FROM chain_cursor"
    window += f" WHERE chain_id = {BASE_CHAIN})"
    async with _engine(database_url, filled.folder) as context:
        index = AgentIndex(database_url, context.engine, BASE_CHAIN, feed_words(base.agent_feeds))
        await index.refresh()
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            # A bet in the next block, which is half an hour later: what was bet in the first half hour leaves the day.
            connection.execute("CREATE TEMP TABLE bet AS SELECT * FROM agent_stake WHERE stake_id = " + newest)
            next_block(
                connection,
                BASE_CHAIN,
                f"WITH later AS (UPDATE chain_cursor SET block_time = block_time + 1800 WHERE chain_id = {BASE_CHAIN}"
                " RETURNING number, block_time) INSERT INTO agent_stake SELECT (jsonb_populate_record("
                "NULL::agent_stake, to_jsonb(b) || jsonb_build_object('stake_id', b.stake_id + 1, 'ordinal',"
                " b.ordinal + 1, 'staked_at',"
                " l.block_time, 'staked_block', l.number + 1))).* FROM bet b, later l",
            )
            statements = Statements()
            statements.watch(context)
            await index.refresh()
            assert index.snapshot is not None
            expected = connection.execute(f"SELECT market_id, sum(amount) {window} GROUP BY 1".encode()).fetchall()
            assert index.snapshot.volume_24h == {bytes(key): int(amount) for key, amount in expected}
            counted = connection.execute(f"SELECT count(*) {window}".encode()).fetchone()
            assert counted is not None
            touched = 0.0
            for statement, parameters in statements.sent.items():
                if "agent_stake" not in statement:
                    continue
                row = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}".encode(), parameters).fetchone()
                assert row is not None
                touched += sum(map(_rows, _nodes(row[0][0]["Plan"])))
            assert 0 < touched < counted[0] / 5
