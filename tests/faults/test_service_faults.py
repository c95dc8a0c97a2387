"""A whole service under load meets faults that no single daemon shows: a full disk, a paused token, a pool without
liquidity, and a chain replaced beyond finality. In the end no bet is lost or doubled."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import subprocess
from collections.abc import AsyncIterator
from typing import Any, Final

import psycopg
import pytest
import pytest_asyncio

from api.agent.chain import AgentContracts
from core.agent.bet import idem_hash
from core.agent.book import MARGIN
from core.chain import Contract
from core.contracts.abi import abi
from core.contracts.feeds import PoolFeed
from core.contracts.statuses import Quality, StakeStatus, StockMarketStatus
from core.db.engine import conninfo
from core.feeds.grid import grid_time
from core.hexadecimal import bytes_of
from keeper.agent.record import FRESH_SECONDS
from scripts._stack import wallets
from scripts._stack.agent_pools import AgentPools, trader
from scripts._stack.chain_setup import LocalNode
from scripts._stack.parts import CHAIN_IDS
from scripts._stack.wallets import Wallet
from tests.support.agent_chain import AgentChain
from tests.support.fleet import Fleet, FleetSize, fleet, ran
from tests.support.fleet_checks import bet_taken, faults, warm
from tests.support.fleet_load import Load, LoadReport, Promise
from tests.support.genesis import Genesis
from tests.support.pool_chain import put_back, take_out
from tests.support.programs import children

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900), pytest.mark.asyncio(loop_scope="module")]

SMALL = FleetSize(api=1, indexer=1, keeper=1, relayer=1)
SETTLE_AFTER_SECONDS = 65  # longer than a keeper waits after a bell
UP, DOWN = 0, 1
# A write beyond this offset fails with EFBIG, which PostgreSQL meets as it meets a full disk: it cannot extend a file
# or write its log. The machine's disk is not filled.
QUOTA_BYTES = 64 * 1024
DEEP = 80  # anvil calls final what is 64 blocks deep
SPARE = 8  # blocks that may come between a look at what is final and the reorganization
LIVE_KINDS = {"base": "op-stack", "stock": "arbitrum-orbit"}
ALARM: Final = 0.5  # VpmPoolThin: a share of the liquidity that the feed was set up with
BETS_SECONDS = 60
RUN_SECONDS = 90  # the keeper's job that records readings and looks at the pools runs every minute
TARGET = 10**8  # a dollar, which every token here is above: with its liquidity, YES wins


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service(
    local_genesis: Genesis, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Fleet, Load]]:
    """Run the service and its load. When the module ends, check every bet of all tests."""
    folder = tmp_path_factory.mktemp("service") / "fleet"
    async with fleet(folder, local_genesis.state, SMALL, patience=5.0) as running, Load(running) as load:
        await warm(running, load)
        yield running, load
        assert await faults(running, load) == []


# ---------------------------------------------------------------- PostgreSQL's disk


async def test_a_full_disk_refuses_writes_and_loses_nothing(service: tuple[Fleet, Load]) -> None:
    running, load = service
    first = int((running.database.data_dir / "postmaster.pid").read_text().splitlines()[0])
    await asyncio.to_thread(_limit_files, running, [first, *children(first)])

    async def refuses() -> bool:
        try:
            await asyncio.to_thread(_write, running)
        except psycopg.Error:
            return True
        return False

    await running.until(refuses, "PostgreSQL refusing writes for want of space", 60, pause=0.5)
    status, _ = await load.call("GET", "/api/markets")
    assert status == 200
    # The runbook: make room, then start PostgreSQL again.
    await running.stop_postgres()
    await running.start_postgres()
    await bet_taken(running, load, 90)
    await asyncio.gather(*(running.indexed(chain) for chain in CHAIN_IDS))


def _write(running: Fleet) -> None:
    """Write so much that a file has to grow."""
    with psycopg.connect(conninfo(running.database_url), autocommit=True, connect_timeout=3) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS ballast (filler text)")
        connection.execute("INSERT INTO ballast SELECT repeat(md5(i::text), 50) FROM generate_series(1, 2000) i")
        connection.execute("DROP TABLE ballast")


def _limit_files(running: Fleet, pids: list[int]) -> None:
    """Set the quota as the servers' own user, which needs no privilege."""

    def as_their_user() -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (QUOTA_BYTES, resource.RLIM_INFINITY))

    user = running.database.plan.user
    drop: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    subprocess.run(["true"], check=True, cwd="/", preexec_fn=as_their_user, **drop)


# ---------------------------------------------------------------- a token that is paused


async def test_a_market_settles_while_its_token_is_paused_and_pays_afterwards(service: tuple[Fleet, Load]) -> None:
    running, load = service
    bettors = wallets.BETTORS[2], wallets.BETTORS[3]
    market = await _both_sides(running, load, *bettors)
    token, before = running.token("stock"), [await _balance(running, each) for each in bettors]
    await running.send("stock", token.call("setPaused", True))
    try:
        bell = (await _terms(running, market))["freezeTime"]
        await running.warp("stock", max(0, bell - await running.now("stock")) + SETTLE_AFTER_SECONDS)

        async def is_settled() -> bool:
            return bool((await _terms(running, market))["status"] != StockMarketStatus.OPEN)

        await running.until(is_settled, f"market {market} settled", 90)
        due = await _due(running, market, bettors)
        assert due
        assert [await _balance(running, each) for each in bettors] == before
    finally:
        await running.send("stock", token.call("setPaused", False))
    # The runbook: anyone may send what is due; the keeper does it within its hours of rest.
    deliver = running.contract("stock", "VestedMarkets").call("deliver", due)
    await running.send("stock", deliver, sender=wallets.DEV[7].address)

    async def is_paid() -> bool:
        return not await _due(running, market, bettors)

    await running.until(is_paid, "both owners paid", 60)
    after = [await _balance(running, each) for each in bettors]
    assert all(now > then for now, then in zip(after, before, strict=True))
    await bet_taken(running, load, 60)


async def _both_sides(running: Fleet, load: Load, *bettors: Wallet) -> int:
    """Place a bet on each side of an open market for each of them; each wins one."""
    found: list[int] = []

    async def there() -> bool:
        status, listed = await load.call("GET", "/api/markets")
        now = await running.now("stock")
        found[:] = [
            int(each["id"])
            for each in (listed["markets"] if status == 200 else [])
            if each["acceptingBets"] and each["family"] == "drill" and each["finalTime"] > now + 60
        ]
        return bool(found)

    await running.until(there, "an open market", 90, pause=0.5)
    for bettor in bettors:
        for side in (UP, DOWN):

            async def is_placed(bettor: Wallet = bettor, side: int = side) -> bool:
                bet = await load.stock(bettor, str(found[0]), side)
                return bet is not None and bet.report is LoadReport.TAKEN

            await running.until(is_placed, f"a bet in market {found[0]}", 10, pause=1.0)
    await running.indexed("stock")
    return found[0]


async def _balance(running: Fleet, owner: Wallet) -> int:
    return int(await running.read("stock", running.token("stock").call("balanceOf", owner.address)))


async def _terms(running: Fleet, market: int) -> dict[str, Any]:
    return dict(await running.read("stock", running.contract("stock", "VestedMarkets").call("market", market)))


async def _due(running: Fleet, market: int, owners: tuple[Wallet, ...]) -> list[int]:
    """Return these owners' positions to which something is still to be sent, by the contract's own view."""
    markets = running.contract("stock", "VestedMarkets")
    rows = await running.ask_database(
        "SELECT position_id FROM stock_position WHERE market_id = %s AND owner = ANY(%s)",
        market,
        [bytes_of(each.address) for each in owners],
    )
    return [int(one) for (one,) in rows if (await running.read("stock", markets.call("settlement", one)))[5]]


# ---------------------------------------------------------------- what decides


async def test_stakes_on_a_pool_that_lost_its_liquidity_go_back(service: tuple[Fleet, Load]) -> None:
    running, load = service
    *others, feed = running.deployment("base").pool_feeds
    pool = AgentPools.load(running.genesis.pools), feed.key, trader(LocalNode(running.urls["base"]))
    market, ends_at = await _listed(running, feed)

    async def is_shown() -> bool:
        return (await load.call("GET", f"/api/agent/v1/markets/{market}"))[0] == 200

    await running.until(is_shown, f"{market} on its page", 30)
    bets = [await load.agent(market=market, side=side) for side in ("yes", "no")]
    placed = [bet for bet in bets if bet is not None and bet.report is LoadReport.TAKEN]
    assert len(placed) == 2
    taken = await asyncio.to_thread(take_out, *pool)
    assert taken
    try:
        # The window of the market's end begins after this.
        await running.warp("base", ends_at + 1 - await running.now("base"))
        await running.until(lambda: _is_deep(running, feed, False), "metrics of a thin pool", RUN_SECONDS)
        await running.until(
            lambda: _are_back(running, placed), f"the stakes on {market} given back", 2 * RUN_SECONDS, pause=0.5
        )
    finally:
        await asyncio.to_thread(put_back, *pool, taken)
    assert await _quality(running, feed, ends_at) is Quality.THIN
    assert {await _quality(running, other, ends_at) for other in others} == {Quality.GOOD}
    since = await running.now("base")

    async def reads_on() -> bool:
        newest = await running.read("base", Contract(feed.address, abi("PoolFeed")).call("latestRoundData"))
        return int(newest[3]) > since and int(newest[1]) > 0

    await running.warp("base", max(feed.window_seconds, FRESH_SECONDS))  # else no other reading is needed
    await running.until(reads_on, f"a good reading of {feed.key}", 2 * RUN_SECONDS)
    await running.until(lambda: _is_deep(running, feed, True), "metrics of a deep pool", RUN_SECONDS)


async def _listed(running: Fleet, feed: PoolFeed) -> tuple[str, int]:
    """List a market on the feed whose bets end in a minute; return its id and its end."""
    deployment = running.deployment("base")
    contracts = AgentContracts.from_deployment(deployment)
    assert contracts is not None
    chain = AgentChain(running.urls["base"], deployment, contracts)
    closes_at = await running.now("base") + BETS_SECONDS
    ends_at = grid_time(closes_at + MARGIN + feed.memory_seconds, feed.step_seconds) + feed.step_seconds
    given = {"feed": feed.key, "target": TARGET, "closes_at": closes_at, "ends_at": ends_at}
    return await asyncio.to_thread(chain.list, "thinned", **given), ends_at


async def _is_deep(running: Fleet, feed: PoolFeed, deep: bool) -> bool:
    samples = await running.samples("keeper", "vpm_pool_depth")
    shares = [value for labels, value in samples if ("feed", feed.key) in labels]
    return bool(shares) and (min(shares) >= ALARM) is deep


async def _are_back(running: Fleet, bets: list[Promise]) -> bool:
    """Check by the contract's view that each stake was refunded and nothing is left to pay."""
    wallet = running.contract("base", "SettlementWallet")
    for bet in bets:
        number = await running.read("base", wallet.call("stakeOf", bet.wallet.address, idem_hash(bet.key)))
        view = await running.read("base", wallet.call("stake", number))
        if (view["status"], view["amount"], view["payable_"]) != (StakeStatus.REFUNDED, bet.amount, 0):
            return False
    return True


async def _quality(running: Fleet, feed: PoolFeed, at: int) -> Quality:
    """Return the quality of a reading as the contract recorded it, or as its pools would give it."""
    contract = Contract(feed.address, abi("PoolFeed"))
    recorded = int(await running.read("base", contract.call("qualityOf", at)))
    return Quality(recorded or (await running.read("base", contract.call("measure", at)))[0])


# ---------------------------------------------------------------- a chain that takes back what was final


async def test_beyond_finality_the_index_halts_until_an_operator_has_it_read_again(
    service: tuple[Fleet, Load],
) -> None:
    """This comes last, because the chain then takes back blocks of every test."""
    running, load = service
    (name,) = running.instances("indexer")
    strict = running.folder / "strict"
    strict.mkdir()
    for chain, kind in LIVE_KINDS.items():
        facts = json.loads(running.genesis.deployment(chain).read_text())
        (strict / f"{chain}.json").write_text(json.dumps({**facts, "kind": kind}))
    running.extra[name] = {"VPM_DEPLOYMENTS_DIR": str(strict)}
    await _restart(running, name)
    await running.indexed("stock")
    await running.rpc("stock", "anvil_mine", hex(DEEP + 10), hex(1))
    await running.indexed("stock")
    # The index asks for what is final every few seconds: until then it cannot know that this is too deep.
    await running.until(lambda: _too_much_is_final(running), "the index knowing what is final", 60)
    try:
        kept_to = int((await running.head("stock"))["number"], 16) - DEEP
        load.promises = [one for one in load.promises if one.surface != "stock" or _is_kept(one, kept_to)]
        await running.rpc("stock", "anvil_reorg", DEEP, [])
        await running.until(lambda: _state(running) == "halted", "the index halted", 60)

        async def is_measured() -> bool:
            halted = await running.metric(name, "vpm_index_halted")
            return halted.get((("chain", "stock"),), 0) > 0

        await running.until(is_measured, "the halt in the metrics", 10)
        status, _ = await load.call("GET", "/api/markets")
        assert status == 200
        # The runbook: after making sure of the fork, stop the indexers and read the chain again.
        running.keep_down(name)
        command = ("scripts._status.reindex", "stock", "--yes")
        done = await asyncio.to_thread(ran, *command, env=running.environment(name))
        assert done.returncode == 0, done.stderr
        running.start(name)
        await running.until(lambda: _state(running) == "tail", "the index following again", 90)
        await running.indexed("stock")
    finally:
        running.extra.pop(name)
        await _restart(running, name)

    async def lists_what_is() -> bool:
        status, listed = await load.call("GET", "/api/markets")
        count = await running.read("stock", running.contract("stock", "VestedMarkets").call("marketCount"))
        return status == 200 and not listed["stale"] and max(int(each["id"]) for each in listed["markets"]) == count

    await running.until(lists_what_is, "the markets of the new chain on the public list", 60)


async def _restart(running: Fleet, name: str) -> None:
    running.keep_down(name)
    running.start(name)
    await running.until_ready(name)


def _is_kept(bet: Promise, block: int) -> bool:
    """Check that a bet is in a block up to this one, or was refused for good."""
    if bet.report is LoadReport.TAKEN and isinstance(bet.answer, dict):
        return 0 < int(bet.answer.get("blockNumber") or 0) <= block
    return bet.report is LoadReport.REFUSED


def _too_much_is_final(running: Fleet) -> bool:
    """Check that the index holds as final a block that the deep reorganization will undo, with some to spare."""
    query = "SELECT number - finalized_number FROM chain_cursor WHERE chain_id = %s"
    ((depth,),) = running.rows(query, CHAIN_IDS["stock"])
    return depth is not None and depth < DEEP - SPARE


def _state(running: Fleet) -> str:
    rows = running.rows("SELECT state FROM chain_cursor WHERE chain_id = %s", CHAIN_IDS["stock"])
    return str(rows[0][0]) if rows else "not read yet"
