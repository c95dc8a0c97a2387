"""The ratios of a benchmark's last ten runs are kept, and seen to move."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts._bench import ratios, report
from scripts._bench.ratios import KEPT_RUNS, RecordedRun
from scripts._bench.report import BenchOutcome


def test_the_last_ten_runs_are_kept_the_oldest_first(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    for number in range(12):
        ratios.add(path, "api", RecordedRun(f"2026-01-{number + 1:02}", met=True, ratios={"a read": number / 10}))
    kept = ratios.read(path)["api"]
    assert [run.ratios["a read"] for run in kept] == [number / 10 for number in range(2, 12)]
    assert len(kept) == KEPT_RUNS


def test_a_run_takes_one_line_and_leaves_the_other_benchmarks_alone(tmp_path: Path) -> None:
    path = tmp_path / "performance.json"
    ratios.add(path, "relay", RecordedRun("2026-01-01", met=False, ratios={"one lane": 0.5}))
    before = path.read_text().splitlines()
    ratios.add(path, "api", RecordedRun("2026-01-02", met=True, ratios={"a read": 0.9}))
    assert [line for line in before if "one lane" in line] == [
        line for line in path.read_text().splitlines() if "one lane" in line
    ]
    assert ratios.read(path)["relay"] == [RecordedRun("2026-01-01", met=False, ratios={"one lane": 0.5})]


def test_a_benchmark_without_a_ratio_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no ratio"):
        ratios.add(tmp_path / "performance.json", "api", RecordedRun("2026-01-01", met=True, ratios={}))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0.5, 0.6, 0.8, 1.0], "▁▂▅█"),
        ([1.0, 0.5], "█▁"),
        ([0.90, 0.91, 0.90], "▄▅▄"),  # noise moves it by a step
        ([0.9], "▅"),
        ([None, 0.5, 1.0], "·▁█"),
        ([0.0, 0.0], "▅▅"),
    ],
)
def test_a_line_moves_as_its_values_do(values: list[float | None], line: str) -> None:
    assert ratios.line(values) == line


def test_the_table_says_the_least_the_most_and_the_newest() -> None:
    runs = [RecordedRun(f"2026-01-0{day}", met=True, ratios={"a read": value}) for day, value in ((1, 0.5), (2, 0.8))]
    shown = ratios.table([*runs, RecordedRun("2026-01-03", met=True, ratios={"a read": 0.7, "another": 1.0})])
    assert "last 3 runs, 2026-01-01 to 2026-01-03" in shown
    assert "| a read | ▁█▆ | 0.50 | 0.80 | 0.70 |" in shown
    assert "| another | ··▅ | 1.00 | 1.00 | 1.00 |" in shown


def test_recording_writes_one_section_and_keeps_what_was_written_by_hand(tmp_path: Path) -> None:
    page, kept = tmp_path / "performance.md", tmp_path / "performance.json"

    def record(name: str, printed: str, ratio: float) -> None:
        outcome = BenchOutcome(name, printed, met=ratio > 0.5, ratios={"rate / bare": ratio})
        report.record(outcome, "2026-01-01", "4 processors", page=page, kept=kept)

    record("api", "first of api", 0.4)
    record("relay", "first of relay", 0.9)
    remark = "A busy machine.\n\n```text\nby hand\n```"
    page.write_text(page.read_text().replace("## api", "## api", 1) + f"\n{remark}\n")
    record("api", "second of api", 0.8)
    record("relay", "second of relay", 0.9)

    written = page.read_text()
    assert "first of" not in written
    assert written.index("second of relay") < written.index("second of api") < written.index(remark)
    assert written.count(remark) == 1
    assert written.count(report.PASSED) == 2
    assert report.MISSED not in written
    assert "| rate / bare | ▁█ | 0.40 | 0.80 | 0.80 |" in written
    assert written == page.read_text()
    assert report.parts_of(written)[0].startswith("# Performance")


def test_the_page_shows_what_is_kept() -> None:
    page = report.PAGE.read_text()
    _, sections = report.parts_of(page)
    known = ratios.read(report.RECORD)
    assert set(known) == set(sections)
    for name, runs in known.items():
        assert ratios.table(runs) in sections[name], f"run ./vpm bench {name} --record"
