"""`agent-caps`: recomputes the cap that each feed's pools support, and stops `agent-list` on feeds whose cap is too
large.

The Safe sets a cap for the liquidity, volatility and fee of that day. If the pools support less than 70% of the cap,
manipulating the price may earn more than it costs, so nothing is listed on the feed until its pools support more or the
Safe sets a smaller cap. The keeper cannot change a cap.
"""

from __future__ import annotations

from typing import Any

from core.contracts.feeds import PoolFeed
from core.feeds.live import CostUnknown, NoPool, live_cap_units
from core.log import get_logger
from keeper import metrics
from keeper.run import JobRun

log = get_logger(__name__)

MIN_PERCENT = 70  # of the cap; below it, the alarm VpmFeedCapFell rings
ENOUGH, TOO_LITTLE = "the pools support the cap", "the pools support too little of the cap"


async def check_caps(run: JobRun) -> None:
    if not _watches(run):
        run.report.skip("everything", "VPM_KEEPER_WATCH_CAPS is 0, or this is a local deployment")
        return
    lister = run.chain.contract("AgentLister")
    bounds: Any = await run.read(lister.call("bounds"))
    shares: dict[str, float] = {}
    for feed in run.chain.deployment.pool_feeds:
        terms: Any = await run.read(lister.call("feed", feed.address))
        if not terms["allowed"]:
            run.report.skip(feed.key, "the Safe does not allow its feed")
            continue
        required = _required_cap(feed, terms["feedCap"])
        if required is None:
            run.report.skip(feed.key, "its cap rests on evidence, but the deployment file has no supportedCapUnits")
            continue
        factories = run.chain.deployment.pool_factories
        try:
            supported = await live_cap_units(run.chain.client, factories, feed, bounds["feeBps"])
        except (CostUnknown, NoPool) as unknown:
            run.report.skip(feed.key, f"its cap cannot be computed: {unknown.sentence()}")
            continue
        shares[feed.key] = supported / required
        await _conclude(run, feed.key, supported, required)
    metrics.set_by_feed(metrics.FEED_CAP_SUPPORTED, shares)


def _watches(run: JobRun) -> bool:
    return run.default(run.keeper.how.watch_caps, local=False, live=True)


def _required_cap(feed: PoolFeed, feed_cap: int) -> int | None:
    """Return the cap that the pools must support. This is the Safe's cap or, if the Safe set a cap on evidence, at most
    the cap that the pools supported then. Return None if that supported cap is unknown."""
    if feed.pot_cap_evidence is None:
        return feed_cap
    return None if feed.supported_cap_units is None else min(feed_cap, feed.supported_cap_units)


async def _conclude(run: JobRun, key: str, supported: int, required: int) -> None:
    """Record whether a feed's pools support enough of its cap, and log a change."""
    enough, before = supported * 100 >= MIN_PERCENT * required, await supports_its_cap(run, key)
    await run.claimed_since(_subject(key), ENOUGH if enough else TOO_LITTLE)
    if enough == before or run.dry_run:
        return
    why = f"its pools support {supported} of the required {required} units"
    if enough:
        log.info(f"resumed listing on feed {key}: {why}", action="keeper.cap_is_back", feed=key)
    else:
        log.warning(f"stopped listing on feed {key}: {why}", action="keeper.cap_fell", feed=key)


async def supports_its_cap(run: JobRun, key: str) -> bool:
    """Return whether a feed's pools supported enough of its cap at the last check; True before the first check and if
    caps are not watched."""
    if not _watches(run):
        return True
    async with run.keeper.pool.connection() as connection:
        last: str | None = await connection.fetch_value(
            "SELECT what FROM keeper_confirmation WHERE chain_id = %s AND subject = %s",
            (run.chain.chain_id, _subject(key)),
        )
    return last != TOO_LITTLE


def _subject(key: str) -> str:
    return f"agent:cap:{key}"
