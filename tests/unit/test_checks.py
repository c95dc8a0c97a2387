"""What `./vpm test` makes of a run of pytest."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts._vpm import checks

UNIT, BROWSER = (
    checks.Stage("unit", "", folders=("tests/unit",)),
    checks.Stage("browser", "", folders=("tests/browser",)),
)
REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" time="1.5"/>
<testcase classname="tests.browser.test_b" time="2"><failure/></testcase>
<testcase classname="tests.browser.test_c" time="3"/>
</testsuite></testsuites>"""


def codes(results: list[checks.StageResult]) -> dict[str, tuple[int, float]]:
    return {one.stage.name: (one.code, one.seconds) for one in results}


def test_each_stage_answers_for_its_own_tests(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert codes(checks.verdicts([UNIT, BROWSER], 1, report)) == {"unit": (0, 1.5), "browser": (1, 5.0)}


@pytest.mark.parametrize("code", [1, 2, 3, 4])
def test_a_run_that_failed_without_a_failed_test_fails_every_stage(tmp_path: Path, code: int) -> None:
    assert codes(checks.verdicts([UNIT, BROWSER], code, tmp_path / "none")) == {
        "unit": (code, 0),
        "browser": (code, 0),
    }


def test_a_run_that_was_cut_off_fails_every_stage(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert [one.code for one in checks.verdicts([UNIT, BROWSER], 2, report)] == [2, 2]


def test_without_a_browser_its_stage_passes_here_and_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    assert [one.code for one in checks.run_tests([BROWSER], (), checks.SCREEN)] == [0]
    monkeypatch.setenv("CI", "true")
    assert [one.code for one in checks.run_tests([BROWSER], (), checks.SCREEN)] == [1]
