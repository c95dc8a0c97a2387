"""The keeper's metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping

from prometheus_client import Counter, Gauge

RUNS = Counter("vpm_keeper_runs", "Job runs by result: ok or errors.", ("job", "result"))
SUCCESS_AGE = Gauge(
    "vpm_keeper_success_age_seconds",
    "Seconds since a job last succeeded, or since this keeper first became the leader.",
    ("job",),
)
PERIOD = Gauge("vpm_keeper_period_seconds", "Seconds between the runs of a job.", ("job",))
DUE = Gauge("vpm_keeper_due", "Due work that is not done yet.", ("job", "what"))
DUE_OLDEST = Gauge(
    "vpm_keeper_due_oldest_seconds", "Seconds for which the oldest work has been due, in chain time.", ("job", "what")
)
OBSERVED = Gauge("vpm_keeper_observation", "The last value posted, in feed units.", ("feed",))
REFUSALS = Counter("vpm_keeper_source_refusals", "Observations not posted, by reason.", ("feed", "why"))
FEED_BEHIND = Gauge("vpm_feed_behind_seconds", "Age of the oldest reading that markets are waiting for.", ("feed",))
FEED_LOST = Gauge("vpm_feed_lost_readings", "Deciding readings lost before they were recorded.", ("feed",))
POOL_DEPTH = Gauge("vpm_pool_depth", "Pool liquidity over the window, as a share of its reference.", ("feed", "pool"))
POOL_QUIET = Gauge("vpm_pool_quiet", "Time since a pool's last trade, as a share of the limit.", ("feed", "pool"))
FEED_CAP_SUPPORTED = Gauge(
    "vpm_feed_cap_supported", "The cap that a feed's pools support now, as a share of the feed's cap.", ("feed",)
)
FEED_ROOM = Gauge("vpm_feed_room", "Markets that still fit under a feed's cap.", ("feed",))
CANARY = Counter("vpm_keeper_canary", "Canary steps by result.", ("step", "result"))


def record_success(job: str) -> None:
    """Reset the age of a job's last success. The age uses the monotonic clock, because wall time can be set back."""
    at = time.monotonic()
    SUCCESS_AGE.labels(job).set_function(lambda: time.monotonic() - at)


def set_by_feed(what: Gauge, values: Mapping[str, float]) -> None:
    """Set a gauge for each feed. Feeds without a value are removed, because the gauge would keep their last value
    forever."""
    what.clear()
    for feed, value in values.items():
        what.labels(feed).set(value)


def clear_state() -> None:
    """Clear the gauges after this keeper has lost leadership: stale values would keep raising alarms."""
    of_feeds = (FEED_BEHIND, FEED_LOST, POOL_DEPTH, POOL_QUIET, FEED_CAP_SUPPORTED, FEED_ROOM)
    for each in (DUE, DUE_OLDEST, PERIOD, *of_feeds):
        each.clear()
