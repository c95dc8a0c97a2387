"""`agent-caps`: works each pool feed's cap out anew, and has `agent-list` stop where the pools bear too little of it.

A cap was right for the liquidity, the volatility and the fee of the day the Safe set it. Where less than
`VPM_KEEPER_LEAST_CAP_PERCENT` of it is left, a push of the price earns more than a bet's fee costs, so nothing is
listed on that feed until its pools bear more again or the Safe has set a smaller cap: the keeper cannot change one.
"""

from __future__ import annotations

from typing import Any

from core.contracts.feeds import PoolFeed
from core.feeds.live import NoPool
from core.feeds.live_cost import CannotSay, borne_units
from core.log import get_logger
from keeper import metrics, sightings
from keeper.run import JobRun

log = get_logger(__name__)

ENOUGH, TOO_LITTLE = "the pools bear the cap", "the pools bear too little of the cap"


async def work_out_caps(run: JobRun) -> None:
    lister = run.chain.contract("AgentLister")
    bounds: Any = await run.read(lister.call("bounds"))
    for feed in run.chain.deployment.pool_feeds:
        terms: Any = await run.read(lister.call("feed", feed.address))
        if not terms["allowed"]:
            run.report.skip(feed.key, "the Safe does not allow its feed")
            continue
        least = _yardstick(feed, terms["feedCap"])
        if least is None:
            run.report.skip(feed.key, "its cap rests on evidence, and the deployment file says no borneCapUnits")
            continue
        try:
            borne = await borne_units(run.chain.client, run.chain.deployment.pool_factories, feed, bounds["feeBps"])
        except (CannotSay, NoPool) as unknown:
            run.report.skip(feed.key, f"its cap cannot be worked out: {unknown.sentence()}")
            continue
        metrics.FEED_CAP_BORNE.labels(feed.key).set(borne / least)
        await _conclude(run, feed, borne, least)


def _yardstick(feed: PoolFeed, feed_cap: int) -> int | None:
    """Return what the pools have to bear: the Safe's cap, or what they bore when the Safe took evidence for more."""
    if feed.pot_cap_evidence is None:
        return feed_cap
    return None if feed.borne_cap_units is None else min(feed_cap, feed.borne_cap_units)


async def _conclude(run: JobRun, feed: PoolFeed, borne: int, yardstick: int) -> None:
    """Remember whether the pools bear enough, and log it once when that has changed."""
    enough = borne * 100 >= run.keeper.how.least_cap_percent_on(local=run.chain.is_local) * yardstick
    verdict, before = ENOUGH if enough else TOO_LITTLE, await is_borne(run, feed.key)
    await run.said_since(_subject(feed.key), verdict)
    if enough == before or run.dry_run:
        return
    of = f"its pools bear {borne} of {yardstick} units"
    if enough:
        log.info(f"listing on {feed.key} goes on: {of}", action="keeper.cap_is_back", feed=feed.key)
    else:
        log.warning(f"listing on {feed.key} stops: {of}", action="keeper.cap_fell", feed=feed.key)


async def is_borne(run: JobRun, key: str) -> bool:
    """Return whether a feed's pools bore enough of its cap when that was last worked out; True before it ever was."""
    async with run.keeper.pool.connection() as connection:
        seen = await sightings.recall(connection, run.chain.chain_id, _subject(key))
    return seen is None or seen.what != TOO_LITTLE


def _subject(key: str) -> str:
    return f"agent:cap:{key}"
