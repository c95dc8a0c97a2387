"""What the drills make of scraped metrics: which were there, which moved, and what is a fault of a whole run."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from scripts._drill.movement import ELSEWHERE, SeenMetrics, judge
from scripts._status.table import Metric

TESTS = Path(__file__).resolve().parents[1]


class Process:
    """A daemon's registry; a new one is a daemon that was started again."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.bets = Counter("vpm_bets", "Bets", ("chain",), registry=self._registry)
        self.ends = Counter("vpm_ends", "Ends", registry=self._registry)
        self.leads = Gauge("vpm_leads", "Leads", ("role",), registry=self._registry)
        self.open = Gauge("vpm_open", "Open", registry=self._registry)
        self.took = Histogram("vpm_took", "Took", registry=self._registry)

    @property
    def text(self) -> str:
        return generate_latest(self._registry).decode()


METRICS = {
    one.exposed: one
    for one in (
        Metric("vpm_bets", "counter", ("chain",), "Bets", ("api", "relayer")),
        Metric("vpm_ends", "counter", (), "Ends", ("api",)),
        Metric("vpm_leads", "gauge", ("role",), "Leads", ("api",)),
        Metric("vpm_open", "gauge", (), "Open", ("api",)),
        Metric("vpm_took", "histogram", (), "Took", ("api",)),
    )
}


def still(seen: SeenMetrics) -> set[str]:
    return set(judge(METRICS, seen).still)


def test_nothing_moves_by_being_there_or_by_starting_again() -> None:
    seen = SeenMetrics()
    for _ in range(2):
        process = Process()
        process.bets.labels("stock").inc(0)
        process.leads.labels("keeper").set(1)
        for instance in ("api-0", "relayer-0"):
            seen.take(instance, process.text)
            seen.take(instance, process.text)
            seen.take(instance, "")  # it is down
    assert still(seen) == set(METRICS)
    assert judge(METRICS, seen).missing == ()


def test_a_counter_and_a_histogram_move_by_one() -> None:
    seen, process = SeenMetrics(), Process()
    process.bets.labels("stock").inc()
    process.took.observe(0.0)
    seen.take("api-0", process.text)
    assert still(seen) == {"vpm_ends_total", "vpm_leads", "vpm_open"}
    seen.take("api-0", Process().text)
    assert still(seen) == {"vpm_ends_total", "vpm_leads", "vpm_open"}, "what moved has moved"


def test_a_gauge_moves_by_another_value_of_the_same_instance_and_labels() -> None:
    seen, first, second = SeenMetrics(), Process(), Process()
    first.leads.labels("keeper").set(1)
    first.leads.labels("indexer").set(0)
    second.leads.labels("keeper").set(0)
    seen.take("api-0", first.text)
    seen.take("api-1", second.text)
    assert "vpm_leads" in still(seen), "they differ, and none of them changed"
    second.leads.labels("keeper").set(1)
    seen.take("api-1", second.text)
    assert "vpm_leads" not in still(seen)


def test_a_gauge_without_labels_starts_at_zero() -> None:
    seen, process = SeenMetrics(), Process()
    process.open.set(3)
    seen.take("api-0", process.text)
    assert "vpm_open" not in still(seen)


def test_what_was_never_there_and_what_did_not_move_are_faults_of_a_whole_run() -> None:
    seen, process = SeenMetrics(), Process()
    process.ends.inc()
    seen.take("api-0", process.text)
    elsewhere = next(iter(ELSEWHERE))
    metrics = METRICS | {elsewhere: Metric(elsewhere.removesuffix("_total"), "counter", (), "Seldom", ("api",))}
    seen.take("api-0", f"# TYPE {elsewhere} counter\n{elsewhere} 0.0\n")
    verdict = judge(metrics, seen)
    assert verdict.missing == ("vpm_bets_total of relayer",)
    assert list(verdict.sentences()) == [
        "metrics: 5 of 6 seen, 1 moved",
        "never seen: vpm_bets_total of relayer",
        "did not move: vpm_bets_total, vpm_leads, vpm_open, vpm_took",
        f"did not move, moved by tests of their own: {elsewhere}",
    ]
    assert verdict.faults() == [
        "the metric vpm_bets_total of relayer was never seen",
        *(f"the metric {name} did not move" for name in ("vpm_bets_total", "vpm_leads", "vpm_open", "vpm_took")),
    ]


def test_the_list_of_what_only_tests_move_names_metrics_that_exist() -> None:
    # The page is held to what the daemons declare by a test of its own.
    page = TESTS.parent / "docs" / "metrics.md"
    of_the_page = set(re.findall(r"^\| `(vpm_\w+)", page.read_text(), re.MULTILINE))
    assert ELSEWHERE.keys() <= of_the_page


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_no_drill_moves_is_moved_by_the_test_that_is_named(name: str) -> None:
    why, where = ELSEWHERE[name]
    assert len(why) > 20
    path, _, function = where.partition("::")
    tree = ast.parse((TESTS / path).read_text())
    (body,) = [each for each in tree.body if getattr(each, "name", "") == function]
    asserted = [
        part.value
        for statement in ast.walk(body)
        if isinstance(statement, ast.Assert)
        for part in ast.walk(statement)
        if isinstance(part, ast.Constant)
    ]
    assert name in asserted, f"{where} asserts nothing about {name}"
