"""`agent-record`: records the pool-feed readings that decide markets, and enlarges the pools' observation rings.

Anyone can record a reading while the pools still have the history for it. The oldest readings are recorded first,
because pools drop the oldest history first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from core.chain import Contract, RpcError, RpcErrorKind
from core.contracts.feeds import PoolFeed, PoolSource
from core.contracts.statuses import AgentMarketStatus
from core.db.schema.index_agent import agent_feed, agent_market
from core.db.schema.index_shared import oracle_round
from core.feeds.grid import Needs, batches, grid_time, missing, ring_for
from core.feeds.live import POOL
from core.hexadecimal import bytes_of
from core.outbox import KEEPER, LISTER
from keeper import metrics
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun

BATCH = 20
"""Readings in one transaction, which use up to 2.6 million gas with two pools."""
BATCHES = 3
"""Transactions in one run. Recovering from an outage of twelve hours takes two minutes."""
FRESH_SECONDS = 300
"""The age at which a feed with listings gets a new reading: no market is listed on an old one."""


@dataclass(frozen=True, slots=True)
class RecordingState:
    """A feed's recorded readings, and those that its markets need. `recorded` has grid times from `oldest` on."""

    feed: PoolFeed
    oldest: int  # the first grid time that all its pools still have
    recorded: Set[int]
    needs: tuple[Needs, ...]  # of its open markets
    listed_on: bool = False  # whether markets are listed on it

    def due(self, now: int) -> list[int]:
        """Return the grid times that markets are waiting for, oldest first."""
        return missing(self.needs, self.recorded, self.feed.step_seconds, self.oldest, now)

    def lost(self, now: int) -> list[int]:
        """Return the grid times whose readings would decide open markets but can no longer be recorded. An earlier
        reading decides instead, if it is fresh enough."""
        step = self.feed.step_seconds
        gone = {grid_time(moment, step) for need in self.needs for moment in need.moments if moment < now}
        return sorted(at for at in gone - self.recorded if at < self.oldest)

    def to_record(self, now: int) -> list[int]:
        """Return the grid times that are due and, if the next listing needs a fresh reading, a recent grid time."""
        needs = self.needs
        if self.listed_on and max(self.recorded, default=0) < now - FRESH_SECONDS:
            needs += (Needs((now - 1,)),)
        return missing(needs, self.recorded, self.feed.step_seconds, self.oldest, now)


def subject(feed: PoolFeed, at: int) -> str:
    return f"agent:record:{feed.key}:{at}"


RETRY = RetryWaits(after_success_seconds=60.0, after_failure_seconds=10.0, longest_seconds=300.0)
GROW_RETRY = RetryWaits(after_success_seconds=0.0, after_failure_seconds=60.0)

GROW_BY = 400
"""Observations added by one transaction, which uses about 9 million gas: within every chain's limit."""

OUTAGE_SECONDS = 43_200
LOCAL_OUTAGE_SECONDS = 3_600
"""The initial ring of local pools. A local node keeps its state for each block, so tens of thousands of observations
more would fill its memory in minutes."""

MARKETS, ROUNDS, FEEDS = agent_market.c, oracle_round.c, agent_feed.c


async def record_readings(run: JobRun) -> None:
    if run.skip_if(await run.lanes_problem(KEEPER)):
        return
    feeds = run.chain.deployment.pool_feeds
    needs, listed_on = await _needs(run), await _listed_on(run)
    calls = []
    for feed in feeds:
        contract = run.chain.at(feed.address, "PoolFeed")
        calls += [contract.call("oldestTellable"), contract.call("measure", grid_time(run.now - 1, feed.step_seconds))]
    rings = _needed_rings(run, feeds)
    calls += [Contract(pool.address, POOL).call("slot0") for pool, _ in rings]
    answers: list[Any] = await run.read_all(calls, tuple(RpcErrorKind))
    views, slots = answers[: 2 * len(feeds)], answers[2 * len(feeds) :]
    due: list[int] = []
    for feed, oldest, measured in zip(feeds, views[::2], views[1::2], strict=True):
        if isinstance(oldest, RpcError) and oldest.kind is not RpcErrorKind.REVERTED:
            raise oldest
        if isinstance(oldest, RpcError):
            run.report.skip(feed.key, f"its pools cannot be read: {oldest.message}")
            continue
        address = bytes_of(feed.address)
        standing = await _recording_state(run, feed, oldest, needs[address], listed_on=address in listed_on)
        waiting = standing.due(run.now)
        due += waiting
        metrics.FEED_BEHIND.labels(feed.key).set(run.now - waiting[0] if waiting else 0)
        metrics.FEED_LOST.labels(feed.key).set(len(standing.lost(run.now)))
        await _record(run, standing)
        _show_pools(feed, measured)
    run.measure_due("readings", due)
    await _grow(run, rings, slots)


# ---------------------------------------------------------------- recorded and needed readings


async def _needs(run: JobRun) -> defaultdict[bytes, list[Needs]]:
    """Return the readings that open markets need, by feed. Markets on condemned feeds need none."""
    query = (
        select(
            MARKETS.feed, MARKETS.kind, MARKETS.early_resolvable, MARKETS.early_from, MARKETS.start_at, MARKETS.ends_at
        )
        .outerjoin(agent_feed, FEEDS.feed == MARKETS.feed)
        .where(MARKETS.status == AgentMarketStatus.OPEN, FEEDS.condemned.is_not(True))
    )
    needs: defaultdict[bytes, list[Needs]] = defaultdict(list)
    for row in await run.rows(query):
        needs[row.feed].append(Needs.from_market(row))
    return needs


async def _listed_on(run: JobRun) -> set[bytes]:
    if await run.lanes_problem(LISTER) is not None:
        return set()
    return {row.feed for row in await run.rows(select(FEEDS.feed).where(FEEDS.allowed))}


async def _recording_state(
    run: JobRun, feed: PoolFeed, oldest: int, needs: Sequence[Needs], *, listed_on: bool
) -> RecordingState:
    # This includes times that the pools have dropped, to see which readings were lost.
    moments = [grid_time(moment, feed.step_seconds) for need in needs for moment in need.moments]
    query = select(ROUNDS.updated_at).where(
        ROUNDS.chain_id == run.chain.chain_id,
        ROUNDS.feed == bytes_of(feed.address),
        ROUNDS.updated_at >= min([oldest, *moments]),
    )
    recorded = frozenset(row.updated_at for row in await run.rows(query))
    return RecordingState(feed, oldest, recorded, tuple(needs), listed_on)


# ---------------------------------------------------------------- recording


async def _record(run: JobRun, standing: RecordingState) -> None:
    feed, contract = standing.feed, run.chain.at(standing.feed.address, "PoolFeed")
    due = standing.to_record(run.now)
    free = await run.wait_reasons([subject(feed, at) for at in due], RETRY)
    for batch in batches([at for at in due if free[subject(feed, at)] is None], BATCH, BATCHES):
        answers: list[Any] = await run.read_all([contract.call("qualityOf", at) for at in batch])
        times = [at for at, quality in zip(batch, answers, strict=True) if not quality]  # 0: unrecorded
        others = sorted(set(batch) - set(times))
        if others:
            run.report.skip(feed.key, f"recorded but not indexed yet: {_readings_text(others)}")
        if not times:
            continue
        call = contract.call("record", times)
        request = TransactionRequest(
            kind="record",
            subjects=tuple(subject(feed, at) for at in times),
            target=feed.key,
            detail=f"record {_readings_text(times)}",
            call=call,
            priority=5,
        )
        await run.submit(request, RETRY)


def _readings_text(times: Sequence[int]) -> str:
    return f"the reading of {times[0]}" if len(times) == 1 else f"{len(times)} readings, from {times[0]} to {times[-1]}"


# ---------------------------------------------------------------- the pools


def _show_pools(feed: PoolFeed, measured: object) -> None:
    """Set the gauges of each pool's liquidity and quiet time from measurements for a reading taken now."""
    if isinstance(measured, RpcError):
        return  # they do not have a whole window yet, or the node does not respond
    assert isinstance(measured, tuple)
    for pool, measure in zip(feed.pools, measured[2], strict=True):
        metrics.POOL_DEPTH.labels(feed.key, pool.name).set(measure["liquidity"] / pool.reference_liquidity)
        metrics.POOL_QUIET.labels(feed.key, pool.name).set(measure["quiet"] / feed.max_quiet_seconds)


def _needed_rings(run: JobRun, feeds: Iterable[PoolFeed]) -> list[tuple[PoolSource, int]]:
    """Return each pool with the ring size that it needs so that an outage of the configured length loses no reading."""
    outage = run.default(run.keeper.how.pool_outage_seconds, local=LOCAL_OUTAGE_SECONDS, live=OUTAGE_SECONDS)
    if outage == 0:
        return []
    pools: dict[str, tuple[PoolSource, int]] = {}
    for feed in feeds:
        needed = ring_for(outage, feed.window_seconds, feed.step_seconds)
        for pool in feed.pools:
            _, others_need = pools.get(pool.address, (pool, 0))
            pools[pool.address] = (pool, max(others_need, needed))
    return list(pools.values())


async def _grow(run: JobRun, rings: Sequence[tuple[PoolSource, int]], slots: Sequence[Any]) -> None:
    """Enlarge the pools' observation rings by one step, if they are too small."""
    for (pool, needed), slot in zip(rings, slots, strict=True):
        room = 0 if isinstance(slot, RpcError) else slot[4]
        if room == 0 or room >= needed:
            continue
        size = min(room + GROW_BY, needed)
        request = TransactionRequest(
            kind="grow",
            subjects=(f"agent:grow:{pool.address}",),
            target=pool.name,
            detail=f"enlarge the ring to {size} of {needed} observations",
            call=Contract(pool.address, POOL).call("increaseObservationCardinalityNext", size),
        )
        await run.submit(request, GROW_RETRY)
