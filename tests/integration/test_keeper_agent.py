"""Agent markets run by the keeper alone: observed, listed, settled, disputed, voided, paid."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from core.agent.bet import market_key
from core.agent.book import Book
from core.agent.document import Metadata, Specification, feed_keys, listed_document
from core.contracts.abi import abi
from core.contracts.statuses import AgentMarketStatus, VoidReason
from keeper import metrics
from keeper.agent.series import Series
from keeper.run import RunReport
from scripts._local.ports import free_port
from scripts._stack import wallets
from scripts._stack.agent_pools import AgentPools, Walk, trader
from scripts._stack.chain_setup import LocalNode
from tests.support.genesis import Genesis
from tests.support.keeper_rig import Rig, rigged
from tests.support.keeper_stakes import stake, usdc, wallet_address

pytestmark = pytest.mark.timeout(300)

DOLLAR = 10**6
ANN, BEN, CAT = wallets.DEV[:3]
MARKETS = (
    17  # of three pools four standing series and a round each, short rounds of the first, and a round of the volume
)
VOLUME = "BNKR/daily_volume"  # its readings are posted
FIELDS = (
    "kind, feed, target, bounds, early_resolvable, published, max_age, opens_at, closes_at, start_at, ends_at, "
    "early_from, settles_after, voids_after"
)


@pytest.fixture
def rig(local_genesis: Genesis, fresh_database_url: str, tmp_path: Path) -> Iterator[Rig]:
    with rigged(local_genesis, fresh_database_url, tmp_path, "base") as running:
        yield running


class Row:
    def __init__(self, names: str, values: tuple[Any, ...]) -> None:
        self.__dict__.update(zip(names.split(", "), values, strict=True))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def markets(rig: Rig, *series: Series) -> list[Row]:
    names = f"slug, document, metadata, market_id, weights, fee_bps, {FIELDS}"
    query = f"SELECT {names} FROM agent_market WHERE document->>'series' = ANY(%s) ORDER BY closes_at, slug"
    return [Row(names, row) for row in rig.rows(query, list(series))]


def one(rig: Rig, slug: str) -> tuple[Any, ...]:
    return rig.rows("SELECT status, winner, void_reason FROM agent_market WHERE slug = %s", slug)[0]


def observe(rig: Rig, value: int) -> None:
    data = abi("ObservationFeed").function("post").encode(value, rig.now("base"))
    rig.send("base", wallets.PUBLISHER.address, rig.deployment("base").agent_feed(VOLUME).address, data)


async def listed(rig: Rig, **variables: str) -> None:
    rig.start("indexer", "relayer", "keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1", **variables)
    await rig.until(lambda: rig.rows("SELECT count(*) FROM agent_market")[0][0] >= MARKETS, "seventeen markets", 180)


def push(rig: Rig, genesis: Genesis, key: str, percent: int) -> None:
    pools = AgentPools.load(genesis.state.pools)
    walk = Walk(trader(LocalNode(rig.chains["base"].url)), pools)
    swap = walk.swap_to(pools.get(key), walk.value(pools.get(key)) * percent // 100)
    assert swap is not None
    walk.who.send(swap)


async def open_round(rig: Rig, start: str, series: Series, seconds: int = 30) -> Row:
    """A market whose id begins so and that takes bets for so long still; the keeper lists one in time."""

    def find() -> list[Row]:
        now = rig.now("base")
        return [row for row in markets(rig, series) if row.slug.startswith(start) and row.closes_at - now > seconds]

    return (await rig.until(find, f"an open {series} market"))[0]


@pytest.mark.thorough
async def test_series_are_listed_settled_and_paid_unattended(rig: Rig, local_genesis: Genesis) -> None:
    await listed(rig)
    keys = feed_keys(rig.deployment("base").agent_feeds)
    for row in markets(rig, *Series):
        words = listed_document(bytes(row.market_id), Specification.from_row(row), keys[bytes(row.feed)])
        assert (words.id, words.verified) == (row.slug, True)
        read = Metadata.read(row.document)
        assert read is not None
        assert row.metadata == read.canonical()
        assert market_key(row.slug) == bytes(row.market_id)
        assert row.early_resolvable == (read.series in (Series.TOUCH, Series.FAR)), "they stand on pools"
    assert {len(row.weights) for row in markets(rig, Series.LADDER)} == {8, 7, 6}

    # A round takes bets, closes before its start is measured, and pays once its two readings are recorded.
    round_ = await open_round(rig, "bnkr-up-or-down", Series.QUICK)
    before = {each.address: usdc(rig, each.address) for each in (ANN, BEN)}
    stake(rig, ANN, round_.slug, 0, 40 * DOLLAR, "a-first-key")
    stake(rig, BEN, round_.slug, 1, 60 * DOLLAR, "b-first-key")
    rig.stop("keeper")
    rig.warp("base", round_.start_at - 5)
    with pytest.raises(AssertionError, match="reverted"):
        stake(rig, CAT, round_.slug, 0, 5 * DOLLAR, "c-too-late")
    push(rig, local_genesis, "BNKR/market_cap", 110)
    rig.warp("base", round_.ends_at + 20)
    assert round_.settles_after == round_.ends_at, "no one posts to it: there is nothing to dispute"
    await _at_head(rig)
    waiting = await rig.run("agent-resolve")
    assert "is not recorded yet" in next(each.reason for each in waiting.skipped if each.target == round_.slug)
    rig.start("keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1")
    await rig.until(lambda: one(rig, round_.slug)[:2] == (AgentMarketStatus.RESOLVED, 0), "the result")
    await rig.until(lambda: usdc(rig, ANN.address) > before[ANN.address], "the payout")
    book, _ = Book.empty([int(weight) for weight in round_.weights], round_.fee_bps).staked(0, 40 * DOLLAR)
    shares = book.shares[0]
    book, _ = book.staked(1, 60 * DOLLAR)
    assert usdc(rig, BEN.address) == before[BEN.address] - 60 * DOLLAR
    won = book.owed(0, 0, 40 * DOLLAR, shares)
    assert usdc(rig, ANN.address) == before[ANN.address] - 40 * DOLLAR + won

    # What a publisher says decides only after the dispute window.
    round_ = await open_round(rig, "bnkr-daily-volume", Series.HOUR)
    stake(rig, CAT, round_.slug, 1, 25 * DOLLAR, "c-other-key")
    rig.stop("keeper")  # its own walk would race this test
    rig.warp("base", round_.start_at - 60)  # time goes on while this works
    observe(rig, 3_000_000 * 10**8)
    rig.warp("base", round_.ends_at - 60)
    observe(rig, 2_900_000 * 10**8)
    with rig.no_blocks("base"):
        rig.warp("base", round_.settles_after - 20)
        await _at_head(rig)
        waiting = await rig.run("agent-resolve")
    assert "dispute window" in next(each.reason for each in waiting.skipped if each.target == round_.slug)
    rig.warp("base", round_.settles_after + 1)
    rig.start("keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1")
    await rig.until(lambda: one(rig, round_.slug)[:2] == (AgentMarketStatus.RESOLVED, 1), "the result after the window")
    await rig.until(lambda: _liabilities(rig)[1] == 0, "its payout")

    # A round whose end was not observed is void, after a quarter of an hour and two reads.
    round_ = await open_round(rig, "bnkr-daily-volume", Series.HOUR)
    stake(rig, CAT, round_.slug, 0, 25 * DOLLAR, "c-first-key")
    held = usdc(rig, CAT.address)
    rig.stop("keeper")
    # The keeper sleeps through it: no reading within its bound.
    rig.warp("base", max(round_.ends_at + round_.max_age, round_.settles_after) + 30)
    rig.start("keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1")
    sighted = f"SELECT 1 FROM keeper_confirmation WHERE subject = 'agent:stale:0x{bytes(round_.market_id).hex()}'"
    await rig.until(lambda: rig.rows(sighted), "a first read")
    assert one(rig, round_.slug)[0] == AgentMarketStatus.OPEN, "one stale read voids nothing"
    rig.warp("base", rig.now("base") + 15 * 60 + 2)
    await rig.until(lambda: one(rig, round_.slug) == (AgentMarketStatus.VOID, None, VoidReason.STALE), "the void")
    await rig.until(lambda: usdc(rig, CAT.address) == held + 25 * DOLLAR, "the refund")
    await rig.until(lambda: rig.rows("SELECT 1 FROM agent_fee_sweep"), "a sweep of fees")

    # What was under way while the clock leapt came too late; nothing that settles or pays ever reverts.
    reverted = "SELECT key FROM outbox_intent WHERE outcome = 'reverted' AND kind NOT IN ('observe', 'list', 'record')"
    assert rig.rows(reverted) == []
    rig.stop("keeper")
    await rig.until(lambda: _liabilities(rig)[1] == 0, "everything paid")
    assert usdc(rig, wallet_address(rig)) == sum(_liabilities(rig))


@pytest.mark.thorough
async def test_a_condemned_feed_gives_every_stake_back_at_once(rig: Rig) -> None:
    """A lie that was seen in time: the Safe condemns the feed, and the keeper voids what was open on it, hours before
    its end. Nothing is listed on it any more; the other feeds go on."""
    await listed(rig)
    round_ = await open_round(rig, "bnkr-daily-volume", Series.HOUR)
    stake(rig, CAT, round_.slug, 0, 25 * DOLLAR, "c-round-key")
    held = usdc(rig, CAT.address)
    deployment = rig.deployment("base")
    feed, safe = deployment.agent_feed(VOLUME).address, deployment.safe
    assert safe is not None
    rig.ask("base", "anvil_setBalance", safe.address, hex(10**18))
    data = abi("AgentLister").function("condemn").encode(feed)
    rig.stop("keeper", "relayer")  # a while in which one keeper after the other sees it, and nothing is sent
    rig.send("base", safe.address, deployment.contract("AgentLister").address, data)
    for age in (0, 1_300):
        rig.warp("base", rig.now("base") + age)
        await _at_head(rig)
        metrics.clear_state()
        assert (await rig.run("agent-resolve")).actions or age
        assert age <= (_measured("agent-resolve", "markets", "vpm_keeper_due_oldest_seconds") or 0) < age + 60
    rig.start("relayer", "keeper", VPM_KEEPER_SWEEP_FROM_UNITS="1")
    await rig.until(lambda: one(rig, round_.slug) == (AgentMarketStatus.VOID, None, VoidReason.CONDEMNED), "the void")
    assert rig.now("base") < round_.ends_at
    await rig.until(lambda: usdc(rig, CAT.address) == held + 25 * DOLLAR, "the refund")
    condemned = bytes.fromhex(feed[2:])
    open_on_it = "SELECT 1 FROM agent_market WHERE feed = %s AND status = 1"
    await rig.until(lambda: not rig.rows(open_on_it, condemned), "all of the feed's markets void")
    others = "SELECT 1 FROM agent_market WHERE feed <> %s AND void_reason = %s"
    assert rig.rows(others, condemned, int(VoidReason.CONDEMNED)) == []
    report = await rig.run("agent-list")
    assert (VOLUME, "the Safe has condemned its feed") in [(e.target, e.reason) for e in report.skipped]


LOST = {
    "a row": "DELETE FROM agent_stake WHERE wallet = %s",
    "a count": "UPDATE agent_market m SET unpaid = 0 FROM agent_stake s"
    " WHERE s.market_id = m.market_id AND s.wallet = %s",
}


@pytest.mark.thorough
@pytest.mark.parametrize("lost", LOST)
async def test_a_winner_missing_from_the_index_is_paid(rig: Rig, lost: str) -> None:
    await listed(rig)
    round_ = await open_round(rig, "bnkr-daily-volume", Series.HOUR)
    stake(rig, ANN, round_.slug, 0, 40 * DOLLAR, "a-lost-key")
    stake(rig, BEN, round_.slug, 1, 60 * DOLLAR, "b-lost-key")
    rig.stop("keeper")
    held = usdc(rig, ANN.address)
    rig.warp("base", round_.start_at - 60)  # time goes on while this works
    observe(rig, 3_000_000 * 10**8)
    rig.warp("base", round_.ends_at - 60)
    observe(rig, 3_100_000 * 10**8)
    rig.warp("base", round_.settles_after + 1)
    await _at_head(rig)
    settled = await rig.run("agent-resolve")
    assert [each.target for each in settled.actions] == [round_.slug], settled.body()
    await rig.until(lambda: one(rig, round_.slug)[:2] == (AgentMarketStatus.RESOLVED, 0), "the result")
    assert len(rig.rows(f"{LOST[lost]} RETURNING 1", bytes.fromhex(ANN.address[2:]))) == 1

    with rig.no_blocks("base"):  # the index moves with every block; it is compared only where it stands still
        await _at_head(rig)
        assert (await rig.run("agent-pay")).actions
    assert (_measured("agent-pay", "units missing from the index") or 0) > 40 * DOLLAR
    assert rig.rows("SELECT what FROM keeper_confirmation WHERE subject = 'agent:pay:index'") == [("lost",)]
    await rig.until(lambda: usdc(rig, ANN.address) > held, "the payout")


async def _at_head(rig: Rig) -> None:
    """Wait until the index has reached the time that the chain's clock was moved to."""
    now = rig.now("base")
    await rig.until(lambda: rig.rows("SELECT 1 FROM chain_cursor WHERE block_time >= %s", now), "the index")


def _measured(job: str, what: str, name: str = "vpm_keeper_due") -> float | None:
    return REGISTRY.get_sample_value(name, {"job": job, "what": what})


def _liabilities(rig: Rig) -> tuple[int, int, int]:
    data = abi("SettlementWallet").function("liabilities").encode()
    answer = rig.ask("base", "eth_call", {"to": wallet_address(rig), "data": "0x" + data.hex()}, "latest")
    return tuple(int(answer[2 + at : 66 + at], 16) for at in (0, 64, 128))  # type: ignore[return-value]


@pytest.mark.thorough
async def test_the_canary_passes_on_a_live_service_and_fails_on_a_dead_one(rig: Rig) -> None:
    """Through the real API, then without it. A rehearsal moves no money and reaches no outbox."""
    port = str(free_port())
    rig.extra = {"VPM_PORT": port, "VPM_PUBLIC_URL": f"http://127.0.0.1:{port}", "VPM_KEEPER_CANARY": "1"}
    rig.start("indexer", "relayer", "keeper", VPM_KEEPER_CANARY="0")
    await rig.until(lambda: rig.rows("SELECT count(*) FROM agent_market")[0][0] >= MARKETS, "markets", 180)
    rig.stop("keeper")
    rig.start("api")

    last: list[RunReport] = []
    for _ in range(200):
        last = [await rig.run("agent-canary")]
        if last[0].actions:
            break
        await asyncio.sleep(0.5)
    assert last[0].ok, last[0].errors
    (action,) = last[0].actions
    assert action.status == "ok"
    assert "shares for 1 USD" in action.detail
    assert rig.rows("SELECT 1 FROM outbox_intent WHERE kind IN ('settle', 'credit')") == []

    rig.stop("api")
    dead = await rig.run("agent-canary")
    assert not dead.ok
    assert "could not connect" in dead.errors[0]
    off = await rig.run("agent-canary", VPM_KEEPER_CANARY="0")
    assert off.ok
    assert "VPM_KEEPER_CANARY" in off.skipped[0].reason
