"""`prices`: moves the price feeds of a local deployment, so that its markets have something to be about."""

from __future__ import annotations

from typing import Any

from core.chain import Call, RpcError
from keeper import metrics
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun
from keeper.sources import simulated
from keeper.sources.sample import LatestRound, dollars
from keeper.sources.simulated import FIRST_ROUND

RETRY = RetryWaits(after_success_seconds=0.0, after_failure_seconds=15.0, longest_seconds=120.0)
LATE_SECONDS = 120
"""A price that could not be written for so long is not written any more: the next one is better."""


async def move_prices(run: JobRun) -> None:
    """Each feed's next round. One at a time per feed, so that its times never go back."""
    feeds = run.chain.deployment.price_feeds
    bound = [run.chain.at(feed.proxy, "LocalFeed") for feed in feeds]
    calls = [call for feed in bound for call in (feed.call("latestRoundData"), feed.call("getRoundData", FIRST_ROUND))]
    answers = await run.read_all(calls)
    for position, feed in enumerate(feeds):
        latest, first = (_round(answer) for answer in answers[2 * position : 2 * position + 2])
        if latest is None:
            run.report.skip(feed.ticker, "its feed holds no round to go on from")
            continue
        if latest.updated_at >= run.now:
            run.report.skip(feed.ticker, "its last round is as new as the newest block")
            continue
        home = first.answer if first is not None else latest.answer
        value = simulated.step(latest, home, simulated.SEED, feed.ticker, run.now)
        await _push(run, feed.ticker, bound[position].call("push", value, run.now), value)


async def _push(run: JobRun, ticker: str, call: Call, value: int) -> None:
    request = TransactionRequest(
        kind="price",
        subjects=(f"local:price:{ticker}",),
        target=ticker,
        detail=f"write ${dollars(value)} to its simulated feed",
        call=call,
        not_after=run.now + LATE_SECONDS,
        priority=-1,
        replay_safe=False,
    )
    if await run.ask(request, RETRY) is not None:
        metrics.OBSERVED.labels(ticker).set(value / 10**8)


def _round(answer: Any) -> LatestRound | None:
    if isinstance(answer, RpcError):
        return None
    _, value, _, updated_at, _ = answer
    return LatestRound(value, updated_at) if updated_at else None
