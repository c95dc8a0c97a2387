"""`agent-snapshot`: reads every source and posts the values on which the sources agree to the observation feeds. When
in doubt, it posts nothing."""

from __future__ import annotations

import asyncio
from typing import assert_never

from core.chain import RpcError, values
from core.contracts.feeds import PublishedFeed
from core.log import get_logger
from core.outbox import PUBLISHER
from keeper import metrics
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun
from keeper.sources import (
    FIRST_ROUND,
    SEED,
    SIMULATED,
    AnySource,
    ChainlinkSource,
    FeedSources,
    HttpSource,
    LatestRound,
    RefusalReason,
    Sample,
    SampleRefused,
    SimulatedSource,
    agree,
    check_move,
    check_time,
    dollars,
    feed_sample,
    first_value,
    http_sample,
    is_new,
    load_sources,
    round_of,
    simulated_sample,
)

log = get_logger(__name__)

RETRY = RetryWaits(after_success_seconds=0.0, after_failure_seconds=15.0, longest_seconds=120.0)


async def snapshot(run: JobRun) -> None:
    feeds = run.chain.deployment.published_feeds
    # A current value must not get a time in the past when markets still took bets.
    if run.skip_if(run.head_late):
        for feed in feeds:
            metrics.REFUSALS.labels(feed.key, str(RefusalReason.LATE)).inc()
        return
    if run.skip_if(await run.lanes_problem(PUBLISHER)):
        return
    configured = load_sources(run.keeper.how.sources_file)
    keys = {feed.key for feed in feeds}
    run.report.skip_all([key for key in configured if key not in keys], "the deployment has no such feed")
    observing = (_observe(run, feed, configured.get(feed.key)) for feed in feeds)
    # One failure must neither end the others nor leave them running when the job ends.
    for failed in filter(None, await asyncio.gather(*observing, return_exceptions=True)):
        raise failed


async def _observe(run: JobRun, feed: PublishedFeed, observed: FeedSources | None) -> None:
    if observed is None and run.chain.is_local:
        observed = SIMULATED
    contract = run.chain.at(feed.address, "ObservationFeed")
    try:
        if observed is None:
            raise SampleRefused(RefusalReason.UNCONFIGURED, "no source is configured for it")
        first_round = contract.call("getRoundData", FIRST_ROUND)  # where a simulated walk starts
        calls = [contract.call("latestRoundData"), contract.call("maxLag"), first_round]
        newest, max_lag, first = await run.read_all(calls)
        last, (lag,) = round_of(newest), values([max_lag])
        home = first[1] if isinstance(first, tuple) else first_value(feed.key)
        value = await _agreed_sample(run, feed, home, observed, last)
        if not is_new(value, last):
            run.report.skip(feed.key, f"{value.source} has nothing new since the last round")
            return
        sample = check_time(value, run.now, lag)
    except SampleRefused as refusal:
        metrics.REFUSALS.labels(feed.key, str(refusal.why)).inc()
        run.report.skip(feed.key, f"{refusal.why}: {refusal.message}")
        log.warning(refusal.message, action="keeper.no_observation", feed=feed.key, why=str(refusal.why))
        return
    call = contract.call("post", sample.value, sample.observed_at)
    request = TransactionRequest(
        kind="observe",
        subjects=(f"agent:observe:{feed.key}",),
        target=feed.key,
        detail=f"post ${dollars(sample.value)} from {sample.source}",
        group=PUBLISHER,
        call=call,
        not_after=sample.observed_at + lag,
        priority=5,
    )
    if await run.submit(request, RETRY) is not None:
        metrics.OBSERVED.labels(feed.key).set(sample.value / 10**8)


async def _agreed_sample(
    run: JobRun, feed: PublishedFeed, home: int, observed: FeedSources, last: LatestRound | None
) -> Sample:
    reads = [_sample(run, feed, home, source, last) for source in observed.sources]
    answers = await asyncio.gather(*reads, return_exceptions=True)
    samples = [each for each in answers if isinstance(each, Sample)]
    refusals = []
    for each in answers:
        match each:
            case SampleRefused():
                refusals.append(each)
            case RpcError():
                refusals.append(SampleRefused(RefusalReason.DOWN, each.message))
            case BaseException():
                raise each
    for refusal in refusals:
        log.warning(refusal.message, action="keeper.source_refused", feed=feed.key, why=str(refusal.why))
    sample = agree(samples, refusals, observed.bounds)
    return check_move(sample, last, observed.bounds, agreed=len(observed.sources) > 1)


async def _sample(run: JobRun, feed: PublishedFeed, home: int, source: AnySource, last: LatestRound | None) -> Sample:
    match source:
        case HttpSource():
            return await http_sample(run.keeper.http, source, run.now)
        case ChainlinkSource():
            other = run.chain.at(source.feed, "ObservationFeed")
            return await feed_sample(run.chain.client, other, source, run.now, run.head)
        case SimulatedSource():
            if not run.chain.is_local:
                raise SampleRefused(RefusalReason.UNCONFIGURED, "simulated values are for local deployments only")
            return simulated_sample(last, home, SEED, feed.key, run.now)
        case _:
            assert_never(source)
