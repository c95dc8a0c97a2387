"""The keeper's metrics of due work: how much, and how old by the chain's clock, the same for every leader."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import REGISTRY

from keeper import metrics, payouts
from keeper.agent.resolve import _due_at
from keeper.payouts import REFUSED_TIMES, Payout
from keeper.run import IndexState, JobRun, RunReport

HEAD_AT = 100_000


def run_at(index: IndexState | None) -> JobRun:
    report = RunReport("a job", datetime.now(UTC))
    return JobRun(cast(Any, None), cast(Any, None), report, now=HEAD_AT, head=9, index=index)


def sample(name: str, what: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"job": "a job", "what": what})


def test_due_work_is_aged_at_the_indexed_block() -> None:
    def measured(
        index: IndexState | None, due_at: Sequence[int], units: int | None = None
    ) -> tuple[float | None, float | None]:
        run_at(index).measure_due("things", due_at, units)
        return sample("vpm_keeper_due", "things"), sample("vpm_keeper_due_oldest_seconds", "things")

    newest = IndexState(8, 99_990, 8, "tail")
    assert measured(newest, [99_000, 98_000, 99_980]) == (3, 1_990)
    assert measured(IndexState(5, 98_030, 5, "backfill"), [98_000, 98_020]) == (2, 30)
    assert measured(newest, [HEAD_AT]) == (1, 0), "it is due by a block that the index has not read"
    assert measured(None, [99_999]) == (1, 1)
    assert measured(newest, [98_990], 700) == (700, 1_000)
    assert measured(newest, []) == (0, 0)
    metrics.clear_state()
    assert sample("vpm_keeper_due_oldest_seconds", "things") is None


def test_owners_whom_the_token_refuses_are_not_counted_as_late() -> None:
    late = [Payout("s", n, "m", b"late", 10, REFUSED_TIMES - 1, HEAD_AT - n) for n in range(4)]
    frozen = [Payout("s", n, "m", b"cold%d" % (n % 2), 10, REFUSED_TIMES, 0) for n in range(10, 17)]
    payouts.measure(run_at(None), "positions", [*late, *frozen])
    assert sample("vpm_keeper_due", "positions") == 4
    assert sample("vpm_keeper_due", "owners refused") == 2
    assert sample("vpm_keeper_due_oldest_seconds", "positions") == 3


async def test_a_condemned_feeds_market_keeps_its_age_after_its_end() -> None:
    run, asked = run_at(None), []

    async def claimed_since(subject: str, what: str) -> int:
        asked.append(subject)
        return HEAD_AT - 1_500

    def market(feed: bytes, ends: int, *, condemned: bool, published: bool = True) -> SimpleNamespace:
        return SimpleNamespace(feed=feed, condemned=condemned, published=published, settles_after=HEAD_AT + ends)

    lied, sound = b"\x01" * 20, b"\x02" * 20
    markets = [market(lied, ends, condemned=True) for ends in (-10, 10, -2_000)]
    markets += [market(sound, ends, condemned=False) for ends in (-20, 20)]
    markets.append(market(lied, 30, condemned=True, published=False))  # on a pool: its readings stand
    run.claimed_since = claimed_since  # type: ignore[method-assign]
    assert await _due_at(run, markets) == [HEAD_AT - at for at in (1_500, 1_500, 2_000, 20)]
    assert len(asked) == 1, "it is the feed that was condemned"
