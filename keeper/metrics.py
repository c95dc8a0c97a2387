"""What the keeper measures."""

from __future__ import annotations

import time
from collections.abc import Mapping

from core.metrics import Gauge, counter, gauge, histogram

RUNS = counter("vpm_keeper_runs", "Runs of a job by result: ok or errors", ("job", "result"))
RUN_SECONDS = histogram(
    "vpm_keeper_run_seconds", "How long a run took", ("job",), (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
)
OK_AGE = gauge(
    "vpm_keeper_ok_age_seconds",
    "How long ago a job last ran without an error; until it has, how long ago this keeper first began to lead",
    ("job",),
)
PERIOD = gauge("vpm_keeper_period_seconds", "How often a job runs here", ("job",))
ACTIONS = counter("vpm_keeper_actions", "Transactions asked for", ("job", "kind"))
DUE = gauge("vpm_keeper_due", "What a job found due and not done yet", ("job", "what"))
DUE_OLDEST = gauge(
    "vpm_keeper_due_oldest_seconds",
    "How long the oldest of what is due has been so, by the chain's clock",
    ("job", "what"),
)
OBSERVED = gauge("vpm_keeper_observation", "The last value posted, in units of the feed", ("feed",))
REFUSALS = counter("vpm_keeper_source_refusals", "Observations not posted, by why", ("feed", "why"))
FEED_BEHIND = gauge("vpm_feed_behind_seconds", "Age of the oldest reading that markets wait for", ("feed",))
FEED_LOST = gauge(
    "vpm_feed_lost_readings", "Deciding readings that were not recorded before they were forgotten", ("feed",)
)
POOL_DEPTH = gauge("vpm_pool_depth", "A pool's liquidity over the window as a share of its reference", ("feed", "pool"))
POOL_QUIET = gauge("vpm_pool_quiet", "A pool's silence as a share of what makes readings bad", ("feed", "pool"))
FEED_CAP_BORNE = gauge("vpm_feed_cap_borne", "What a feed's pools bear now, as a share of its cap", ("feed",))
FEED_ROOM = gauge("vpm_feed_room", "How many more markets fit under a feed's cap", ("feed",))
CANARY = counter("vpm_keeper_canary", "Canary steps by result", ("step", "result"))
CANARY_SECONDS = histogram("vpm_keeper_canary_seconds", "How long a canary step took", ("step",))
TIDIED = counter("vpm_keeper_tidied_rows", "Old rows thinned out or removed, by what they were", ("chain", "what"))


def ran_ok(job: str) -> None:
    """Start the age of a job's last good run, by the monotonic clock: a time of day would be in the future once the
    clock is set back."""
    at = time.monotonic()
    OK_AGE.labels(job).set_function(lambda: time.monotonic() - at)


def show_feeds(what: Gauge, values: Mapping[str, float]) -> None:
    """Set a gauge by feed, and drop the feeds that have no value now: their last one would stand for ever."""
    what.clear()
    for feed, value in values.items():
        what.labels(feed).set(value)


def forget_state() -> None:
    """Clear the gauges of a keeper that leads no longer: the next leader reports them, and values left here would raise
    alarms forever."""
    of_feeds = (FEED_BEHIND, FEED_LOST, POOL_DEPTH, POOL_QUIET, FEED_CAP_BORNE, FEED_ROOM)
    for each in (DUE, DUE_OLDEST, PERIOD, *of_feeds):
        each.clear()
