"""Which samples are posted and which are refused: down, absurd, late, disagreeing; and the simulated walk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from core.chain import RpcError, RpcErrorKind
from core.contracts.deployments import Deployment
from core.contracts.feeds import PublishedFeed
from core.errors import ConfigError
from keeper.agent import snapshot_job
from keeper.attempts import TransactionRequest
from keeper.jobs import BY_NAME, Runner
from keeper.metrics import REFUSALS
from keeper.run import JobRun, KeeperChain, RunReport
from keeper.sources import (
    ONE,
    Bounds,
    FeedSources,
    HttpSource,
    LatestRound,
    RefusalReason,
    Sample,
    SampleRefused,
    agree,
    check_move,
    check_time,
    dollars,
    first_value,
    is_new,
    load_sources,
    simulated_sample,
    simulated_step,
    units,
)

NOW = 1_800_000_000
BOUNDS = Bounds(lowest=10 * ONE, highest=1_000 * ONE, max_move_bps=3_000, agree_within_bps=200)
DOWN = SampleRefused(RefusalReason.DOWN, "b is down")


def said(value: int, source: str = "a", at: int = NOW) -> Sample:
    return Sample(value * ONE, at, source)


def why(work: Callable[[], object]) -> RefusalReason:
    with pytest.raises(SampleRefused) as refused:
        work()
    assert refused.value.message
    return refused.value.why


# ---------------------------------------------------------------- agreement


@pytest.mark.parametrize(
    ("samples", "refusals", "refused"),
    [
        ([], [], RefusalReason.UNCONFIGURED),
        ([], [DOWN], RefusalReason.DOWN),
        ([said(9)], [], RefusalReason.ABSURD),
        ([said(1001)], [], RefusalReason.ABSURD),
        ([said(100)], [DOWN], RefusalReason.DOWN),  # two were configured, so two must agree
        ([said(100), said(5000, "b")], [], RefusalReason.ABSURD),
        ([said(100), said(103, "b")], [], RefusalReason.DISAGREE),
        ([said(100), said(200, "b"), said(400, "c")], [], RefusalReason.DISAGREE),
    ],
)
def test_doubt_posts_nothing(samples: list[Sample], refusals: list[SampleRefused], refused: RefusalReason) -> None:
    assert why(lambda: agree(samples, refusals, BOUNDS)) is refused


@pytest.mark.parametrize(
    ("samples", "refusals", "value"),
    [
        ([said(100)], [], 100),
        ([said(100), said(102, "b")], [], 100),
        ([said(102), said(100, "b")], [], 100),
        ([said(100), said(101, "b"), said(900, "c")], [], 100),  # the closest pair outvotes the third
        ([said(100), said(150, "b"), said(151, "c")], [], 150),
        ([said(100), said(101, "b")], [SampleRefused(RefusalReason.LATE, "c is late")], 100),
    ],
)
def test_agreeing_samples_are_combined(samples: list[Sample], refusals: list[SampleRefused], value: int) -> None:
    assert agree(samples, refusals, BOUNDS).value == value * ONE


@pytest.mark.parametrize("old", [99, 100, 101])
def test_of_a_pair_the_newer_keeps_its_own_time(old: int) -> None:
    assert agree([said(old, at=NOW - 40), said(100, "b")], [], BOUNDS) == said(100, "b + a" if old > 100 else "a + b")


@pytest.mark.parametrize(
    ("last", "value", "agreed", "believed"),
    [
        (None, 900, False, True),
        (LatestRound(100 * ONE, NOW - 60), 130, False, True),
        (LatestRound(100 * ONE, NOW - 60), 131, False, False),
        (LatestRound(100 * ONE, NOW - 60), 70, False, True),
        (LatestRound(100 * ONE, NOW - 60), 69, False, False),
        (LatestRound(100 * ONE, NOW - 60), 500, True, True),  # two sources agree on the leap
        (LatestRound(-5, NOW - 60), 500, False, True),  # a broken round says nothing about the next
    ],
)
def test_a_single_source_cannot_leap(last: LatestRound | None, value: int, agreed: bool, believed: bool) -> None:
    def work() -> Sample:
        return check_move(said(value), last, BOUNDS, agreed=agreed)

    if believed:
        assert work() == said(value)
    else:
        assert why(work) is RefusalReason.ABSURD


@pytest.mark.parametrize(
    ("observed_at", "refused"),
    [(NOW, None), (NOW - 600, None), (NOW - 601, RefusalReason.LATE), (NOW + 1, RefusalReason.ABSURD)],
)
def test_only_what_the_feed_can_take(observed_at: int, refused: RefusalReason | None) -> None:
    def work() -> Sample:
        return check_time(said(100, at=observed_at), NOW, 600)

    if refused is None:
        assert work().observed_at == observed_at
    else:
        assert why(work) is refused


@pytest.mark.parametrize(("last", "new"), [(None, True), (NOW - 1, True), (NOW, False), (NOW + 5, False)])
def test_only_what_was_observed_after_the_last_round_is_new(last: int | None, new: bool) -> None:
    assert is_new(said(100), None if last is None else LatestRound(ONE, last)) is new


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("number", "multiply", "value"),
    [
        ("1", "1", 10**8),
        ("0.000000019", "1", 1),
        (12, "2.5", 30 * 10**8),
        ("0.00081", "100000000000", 81_000_000 * ONE),
    ],
)
def test_numbers_become_units_rounded_down(number: str | int, multiply: str, value: int) -> None:
    assert units(number, Decimal(multiply)) == value


@pytest.mark.parametrize("number", ["", "abc", "0", "-1", "NaN", "Infinity", "0.000000009", "1e400", "9" * 80])
def test_invalid_numbers_are_absurd(number: str) -> None:
    assert why(lambda: units(number)) is RefusalReason.ABSURD


def test_dollars_for_people() -> None:
    assert dollars(81_234_567_89900000) == "81,234,567.89"


# ---------------------------------------------------------------- the feeds of a run


def source(url: str, **changes: object) -> HttpSource:
    return HttpSource.model_validate(
        {"kind": "http", "name": "dex", "url": url, "value": "pairs.0.marketCap", "timeout_seconds": 0.5} | changes
    )


def test_a_number_of_a_million_digits_is_never_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def spread(number: Decimal) -> int:
        assert number.adjusted() < 100, "its digits were written out"
        return int(number)

    monkeypatch.setattr("keeper.sources.int", spread, raising=False)
    assert why(lambda: units("1e999980")) is RefusalReason.ABSURD
    assert why(lambda: units(Decimal("1e999980"))) is RefusalReason.ABSURD
    assert units("3") == 3 * ONE


async def test_one_feed_that_fails_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    posted = []

    async def observe(run: JobRun, feed: Any, observed: object) -> None:
        if feed.key == "broken":
            raise RpcError(RpcErrorKind.UNAVAILABLE, "no answer")
        await asyncio.sleep(0.01)
        posted.append(feed.key)

    async def no_problem(group: str) -> None:
        return None

    monkeypatch.setattr(snapshot_job, "_observe", observe)
    feeds = [SimpleNamespace(key="broken"), SimpleNamespace(key="sound")]
    run = SimpleNamespace(
        head_late=None,
        lanes_problem=no_problem,
        skip_if=lambda problem: False,
        keeper=SimpleNamespace(how=SimpleNamespace(sources_file=None)),
        chain=SimpleNamespace(deployment=SimpleNamespace(published_feeds=feeds)),
        report=SimpleNamespace(skip_all=lambda targets, reason: None),
    )
    with pytest.raises(RpcError):
        await snapshot_job.snapshot(cast(JobRun, run))
    assert posted == ["sound"]


class OneFeed:
    """A run on a chain with one feed of ours, `k`; posts land at once. Sources say what `say` has for their names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *sources: str) -> None:
        self.now = NOW
        self.last: tuple[int, ...] | RpcError = RpcError(RpcErrorKind.REVERTED, "no round yet")
        self.say: dict[str, Sample | SampleRefused] = {}
        self.posted: list[TransactionRequest] = []
        self.report = RunReport("agent-snapshot", datetime.now(UTC))
        self.sources = tuple(source("http://nowhere.example/v", name=each) for each in sources)

        async def sample(_: object, asked: HttpSource, now: int) -> Sample:
            said = self.say[asked.name]
            if isinstance(said, SampleRefused):
                raise said
            return said

        monkeypatch.setattr(snapshot_job, "http_sample", sample)

    async def read_many(self, calls: list[Any], block: int) -> list[Any]:
        answers = {"maxLag": 600, "latestRoundData": self.last, "getRoundData": self.last}
        return [answers[name] for name, *_ in calls]

    async def submit(self, request: TransactionRequest, _: object) -> None:
        self.posted.append(request)
        value, at = cast(Any, request.call)[1:]
        self.last = (1, value, at, at, 1)

    async def observe(self) -> None:
        contract = SimpleNamespace(call=lambda *parts: parts)
        keeper = SimpleNamespace(http=None)
        chain = SimpleNamespace(at=lambda address, name: contract, client=self, is_local=False)
        run = JobRun(cast(Any, keeper), cast(Any, chain), self.report, self.now, 7, None)
        run.submit = self.submit  # type: ignore[method-assign, assignment]
        observed = FeedSources(sources=self.sources)
        await snapshot_job._observe(run, cast(Any, SimpleNamespace(key="k", address="0x")), observed)

    @property
    def refusals(self) -> float:
        return sum(each.value for each in REFUSALS.collect()[0].samples if each.name.endswith("_total"))


@pytest.mark.parametrize("slow_value", [99, 100, 101])
async def test_a_source_slower_than_the_keeper_is_no_refusal_and_starves_no_feed(
    monkeypatch: pytest.MonkeyPatch, slow_value: int
) -> None:
    """One is of now, and its witness prints every twenty minutes: the feed gets a reading each minute."""
    feed = OneFeed(monkeypatch, "fast", "slow")
    before = feed.refusals
    for minute in range(120):
        feed.now = NOW + 60 * minute
        feed.say = {"fast": said(100, "fast", feed.now), "slow": said(slow_value, "slow", NOW + minute // 20 * 1200)}
        await feed.observe()
    assert feed.refusals == before
    assert len(feed.posted) == 120


async def test_a_feed_of_a_slow_source_alone_has_its_prints_and_no_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = OneFeed(monkeypatch, "slow")
    before = feed.refusals
    for minute in range(120):
        feed.now = NOW + 60 * minute
        feed.say = {"slow": said(100, "slow", NOW + minute // 20 * 1200)}
        await feed.observe()
    assert (feed.refusals, len(feed.posted), len(feed.report.skipped)) == (before, 6, 114)


@pytest.mark.parametrize("answer", [RpcErrorKind.BAD_ANSWER, RpcErrorKind.UNAVAILABLE])
async def test_without_the_last_round_nothing_is_posted(monkeypatch: pytest.MonkeyPatch, answer: RpcErrorKind) -> None:
    feed = OneFeed(monkeypatch, "alone")
    feed.last, feed.say = RpcError(answer, "0x"), {"alone": said(4_000, "alone")}
    with pytest.raises(RpcError):
        await feed.observe()
    assert feed.posted == []


@pytest.mark.parametrize(
    ("kind", "age", "observes"),
    [("op-stack", 2_300, False), ("op-stack", 61, False), ("op-stack", 30, True), ("local", 2_300, True)],
)
async def test_nothing_is_posted_at_an_old_head(
    monkeypatch: pytest.MonkeyPatch, kind: str, age: int, observes: bool
) -> None:
    """A chain that catches up after a halt dates its blocks into the halt, and what is seen now with them."""
    asked = []

    async def observe(run: JobRun, feed: Any, observed: object) -> None:
        asked.append(feed)

    async def nothing(*_: object) -> None:
        return None

    async def head() -> Any:
        return SimpleNamespace(number=7, timestamp=NOW - age)

    monkeypatch.setattr(snapshot_job, "_observe", observe)
    monkeypatch.setattr(JobRun, "lanes_problem", nothing)
    monkeypatch.setattr("keeper.jobs.index_state", nothing)
    monkeypatch.setattr("time.time", lambda: float(NOW))
    deployment = cast(Any, Deployment).model_construct(
        kind=kind,
        network="base",
        chain_id=8453,
        status="deployed",
        feeds=(cast(Any, PublishedFeed).model_construct(key="k"),),
    )
    chain = KeeperChain("base", deployment, cast(Any, SimpleNamespace(head=head)))
    keeper = SimpleNamespace(chains={"base": chain}, engine=None, how=SimpleNamespace(sources_file=None))
    late = {"feed": "k", "why": "late"}
    before = REGISTRY.get_sample_value("vpm_keeper_source_refusals_total", late) or 0
    report = await Runner(cast(Any, keeper)).run(BY_NAME["agent-snapshot"], dry_run=True)
    assert report.ok, report.errors
    assert len(asked) == observes
    counted = (REGISTRY.get_sample_value("vpm_keeper_source_refusals_total", late) or 0) - before
    assert counted == 1 - observes, "else VpmSourceRefused never says that the feeds get nothing"
    assert [each.target for each in report.skipped] == ([] if observes else ["everything"])


# ---------------------------------------------------------------- the simulated walk


def walk(seed: str, steps: int, every: int = 15) -> list[int]:
    home = first_value("BNKR/market_cap")
    value, now, seen = home, NOW, []
    for _ in range(steps):
        value = simulated_step(LatestRound(value, now), home, seed, "BNKR/market_cap", now + every)
        now += every
        seen.append(value)
    return seen


def test_the_walk_is_its_seed() -> None:
    assert walk("a", 50) == walk("a", 50)
    assert walk("a", 50) != walk("b", 50)


def test_the_walk_moves_and_stays_near_home() -> None:
    home = first_value("BNKR/market_cap")
    seen = walk("vpm", 4 * 60 * 24)
    assert len(set(seen)) > 5_000
    assert home * 6 // 10 < min(seen) < home < max(seen) < home * 16 // 10
    hourly = [abs(a - b) * 100 // home for a, b in zip(seen, seen[240:], strict=False)]
    assert max(hourly) >= 3, "an hour should be worth a bet"


def test_a_walk_begins_where_its_feed_has_nothing() -> None:
    assert simulated_sample(None, 1, "s", "VIRTUAL/market_cap", NOW) == Sample(915_000_000 * ONE, NOW, "simulated")
    assert simulated_step(LatestRound(1, NOW), 1, "s", "k", NOW + 1) >= 1


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("x = ", "TOML"),
        ('["A/b"]\nsources = []\n', "A/b.sources"),
        ('["A/b"]\nsources = [{kind = "guess"}]\n', "guess"),
        ('["A/b"]\nsources = [{kind = "simulated"}]\nlowest = 3\n', "lowest"),
        ('["A/b"]\nsources = [{kind = "http", name = "a", url = "ftp://x", value = "v"}]\n', "url"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "sources.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        load_sources(path)
    assert named in error.value.message
    with pytest.raises(ConfigError):
        load_sources(tmp_path / "absent.toml")
