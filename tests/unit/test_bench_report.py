"""docs/performance.md says what the benchmarks say."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._bench import LONG, NAMES, report


def test_every_module_that_is_a_benchmark_is_in_the_report() -> None:
    modules = (REPOSITORY / "scripts" / "_bench").glob("*.py")
    assert {each.stem for each in modules if each.read_text().startswith(f'"""`./vpm bench {each.stem}`')} == set(NAMES)


@pytest.mark.parametrize("name", LONG)
def test_a_long_run_is_told_what_its_benchmark_takes(name: str) -> None:
    bench = import_module(f"scripts._bench.{name}")
    inspect.signature(bench.main).bind(None, **bench.LONG)


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_says_what_it_measures(name: str) -> None:
    title, _, body = report.described(name).partition("\n\n")
    assert title.startswith(f"`./vpm bench {name}`: ")
    assert body


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_each_benchmarks_own_words(name: str) -> None:
    page = report.PAGE.read_text()
    assert f"\n## {name}\n" in page
    assert report.described(name).partition("\n\n")[2].strip() in page, "run ./vpm bench all, or mend the page by hand"


def test_a_missed_target_is_said(tmp_path: Path) -> None:
    written, kept = tmp_path / "performance.md", tmp_path / "performance.json"
    for name, printed, met in (("relay", "33%", True), ("api", "61%", False)):
        outcome = report.BenchOutcome(name, printed, met=met, ratios={"rate / bare": 0.5})
        report.record(outcome, "2026-01-01", "4 processors", page=written, kept=kept)
    page = written.read_text()
    assert page.count(report.PASSED) == page.count(report.MISSED) == 1
    assert page.index("33%") < page.index(report.MISSED) < page.index("61%")
