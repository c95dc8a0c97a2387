"""Whether every metric of docs/metrics.md is there and moves: every daemon is scraped while the drills run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from scripts._drill.fleet import Fleet
from scripts._status.table import Metric

EVERY_SECONDS = 2.0

ELSEWHERE: dict[str, tuple[str, str]] = {
    "vpm_agent_webhook_dead_letters_total": (
        "an event is given up after a day of failures",
        "integration/test_webhook_dispatch.py"
        "::test_an_event_is_given_up_after_its_retries_and_told_on_the_other_channels",
    ),
    "vpm_agent_webhook_disabled_total": (
        "a webhook is switched off after three days of failures",
        "integration/test_webhook_dispatch.py"
        "::test_a_webhook_that_only_fails_is_switched_off_and_comes_back_by_the_handshake",
    ),
    "vpm_index_mended_logs_total": (
        "logs must be missing in blocks that were committed",
        "faults/test_index_nodes.py::test_a_wrong_block_that_was_committed_heals",
    ),
    "vpm_index_unproved_blocks_total": (
        "a single node must offer no receipts of blocks",
        "faults/test_index_nodes.py::test_a_wrong_block_that_was_committed_heals",
    ),
    "vpm_index_unpaid_stakes_total": (
        "the settlement wallet must book a stake whose payment the token never announced",
        "integration/test_index_authorizations.py::test_a_stake_whose_payment_the_token_does_not_announce_is_an_alarm",
    ),
    "vpm_feed_cap_borne": (
        "caps are nobody's money on local chains, so they are not watched there",
        "integration/test_keeper_caps.py::test_listing_stops_while_the_pools_bear_too_little_of_the_cap",
    ),
    "vpm_feed_lost_readings": (
        "pools must have forgotten a reading that a market waits for",
        "integration/test_pool_feed_service.py::test_readings_are_recorded_as_markets_need_them_and_decide",
    ),
    "vpm_pool_quiet": (
        "a local pool may be silent for thirty days",
        "integration/test_pool_feed_service.py::test_readings_are_recorded_as_markets_need_them_and_decide",
    ),
    "vpm_keeper_tidied_rows_total": (
        "nothing of a run is old enough to be removed",
        "integration/test_keeper_tidy.py::test_a_busy_past_is_thinned_out_and_everything_goes_on",
    ),
    "vpm_relayer_cancels_total": (
        "an intent must expire, or cost too much, between its signature and its block",
        "integration/test_relayer_repair.py::test_an_intent_late_in_the_air_is_cancelled_and_can_never_land",
    ),
    "vpm_relayer_unproven": (
        "no node may keep the state of the block in which a nonce was used",
        "faults/test_relayer_views.py::test_without_proof_a_nonce_is_not_given_up",
    ),
    "vpm_relayer_holes_total": (
        "rows of the outbox are missing only after a partial restore",
        "integration/test_relayer_repair.py::test_a_nonce_nobody_owns_is_filled_with_a_noop",
    ),
}
"""What no drill can move within minutes: why, and the test that moves it."""


@dataclass
class SeenMetrics:
    """What the scrapes told so far. A counter that begins again at 0 with its daemon is no movement by itself."""

    exposed: set[tuple[str, str]] = field(default_factory=set)  # daemon, metric
    moved: set[str] = field(default_factory=set)
    _first: dict[tuple[object, ...], float] = field(default_factory=dict)

    def take(self, instance: str, text: str) -> None:
        """One answer of /metrics of an instance, as `relayer-0`."""
        for family in text_string_to_metric_families(text):
            self.exposed.add((instance.rpartition("-")[0], family.name))
            for sample in family.samples:
                if family.type == "gauge":
                    # Without labels it exists from the start, at 0; with labels from its first value on.
                    key = (instance, family.name, *sorted(sample.labels.items()))
                    has_moved = sample.value != self._first.setdefault(key, sample.value if sample.labels else 0.0)
                else:
                    has_moved = sample.name == f"{family.name}_{_COUNTS[family.type]}" and sample.value > 0
                if has_moved:
                    self.moved.add(family.name)


_COUNTS = {"counter": "total", "histogram": "count", "summary": "count"}


@dataclass(frozen=True)
class MovementVerdict:
    """The exposed names: never exposed by a daemon that declares them, and those that did not move."""

    metrics: int
    moved: int
    missing: tuple[str, ...]
    still: tuple[str, ...]

    def sentences(self) -> Iterator[str]:
        seen = self.metrics - len({each.partition(" ")[0] for each in self.missing})
        yield f"metrics: {seen} of {self.metrics} seen, {self.moved} moved"
        if self.missing:
            yield f"never seen: {', '.join(self.missing)}"
        unmoved = [name for name in self.still if name not in ELSEWHERE]
        if unmoved:
            yield f"did not move: {', '.join(unmoved)}"
        left = [name for name in self.still if name in ELSEWHERE]
        if left:
            yield f"did not move, moved by tests of their own: {', '.join(left)}"

    def faults(self) -> list[str]:
        """Of a run of every drill: what is there is seen, and moves unless it is said why not."""
        unseen = [f"the metric {name} was never seen" for name in self.missing]
        return unseen + [f"the metric {name} did not move" for name in self.still if name not in ELSEWHERE]


def judge(metrics: Mapping[str, Metric], seen: SeenMetrics) -> MovementVerdict:
    """`metrics` by exposed name."""
    missing = [
        f"{exposed} of {daemon}"
        for exposed, one in metrics.items()
        for daemon in one.daemons
        if (daemon, one.name) not in seen.exposed
    ]
    still = [exposed for exposed, one in metrics.items() if one.name not in seen.moved]
    return MovementVerdict(len(metrics), len(metrics) - len(still), tuple(missing), tuple(still))


@contextlib.asynccontextmanager
async def watching(fleet: Fleet, seen: SeenMetrics) -> AsyncIterator[None]:
    """Scrapes into `seen` all the while, and takes in what the drills scrape. A daemon that is down is no fault."""
    fleet.heard = seen.take
    task = asyncio.create_task(_watch(fleet))
    try:
        yield
    finally:
        fleet.heard = None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _watch(fleet: Fleet) -> None:
    while True:
        for instance in list(fleet.running):
            await fleet.scrape(instance)
        await asyncio.sleep(EVERY_SECONDS)
