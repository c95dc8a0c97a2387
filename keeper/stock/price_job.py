"""`prices`: moves the simulated price feeds of a local deployment."""

from __future__ import annotations

from typing import Any

from core.chain import RpcError
from keeper.attempts import RetryWaits, TransactionRequest
from keeper.run import JobRun
from keeper.sources import FIRST_ROUND, SEED, dollars, round_of, simulated_step

RETRY = RetryWaits(after_success_seconds=0.0, after_failure_seconds=15.0, longest_seconds=120.0)
LATE_SECONDS = 120
"""The relayer drops a price that is not mined within this time."""


async def move_prices(run: JobRun) -> None:
    """Post each feed's next round. A feed gets only one round at a time, so that its round times never go backwards."""
    feeds = run.chain.deployment.price_feeds
    contracts = [run.chain.at(feed.proxy, "LocalFeed") for feed in feeds]
    calls = [
        call for each in contracts for call in (each.call("latestRoundData"), each.call("getRoundData", FIRST_ROUND))
    ]
    answers: list[Any] = await run.read_all(calls)
    for feed, contract, newest, began in zip(feeds, contracts, answers[::2], answers[1::2], strict=True):
        latest = round_of(newest)
        if latest is None:
            run.report.skip(feed.ticker, "its feed has no round to continue from")
            continue
        if latest.updated_at >= run.now:
            run.report.skip(feed.ticker, "its last round is as new as the newest block")
            continue
        home = latest.answer if isinstance(began, RpcError) or not began[3] else began[1]
        value = simulated_step(latest, home, SEED, feed.ticker, run.now)
        request = TransactionRequest(
            kind="price",
            subjects=(f"local:price:{feed.ticker}",),
            target=feed.ticker,
            detail=f"write ${dollars(value)} to its simulated feed",
            call=contract.call("push", value, run.now),
            not_after=run.now + LATE_SECONDS,
            priority=-1,
            replay_safe=False,
        )
        await run.submit(request, RETRY)
