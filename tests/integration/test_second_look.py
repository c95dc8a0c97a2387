"""A failed test with real processes is run once more, alone: decision 0006."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts._vpm import checks

pytestmark = pytest.mark.thorough

CROWDED = """
from pathlib import Path
def test_passes_the_second_time():
    seen = Path(__file__).with_name("seen")
    first = not seen.exists()
    seen.touch()
    assert not first
def test_passes():
    pass
"""
BROKEN = "def test_always_fails():\n    assert False\n"
MANY = "".join(f"def test_{n}():\n    assert False\n" for n in range(checks.FEW + 1))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checks, "REPOSITORY", tmp_path)
    monkeypatch.setattr(checks, "REPORTS", tmp_path / "report")
    monkeypatch.setattr(checks, "workers", lambda stages: 0)
    # Only the plugin the stages ask for: the others take seconds to load.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin\n")
    return tmp_path


def stage(folder: Path, **files: str) -> int:
    return stages(folder, **{"a stage": files})["a stage"]


def unsteady(results: Sequence[checks.StageResult]) -> list[str]:
    return sorted(test for one in results for test in one.unsteady)


def both_looks(those: Sequence[checks.Stage]) -> list[checks.StageResult]:
    """One run of all their tests; then, alone, the few of a steadied stage that failed."""
    return checks.second_look(checks.first_look(those, (), checks.SCREEN), ())


def stages(folder: Path, *, unsteadied: str = "", **those: dict[str, str]) -> dict[str, int]:
    """How each stage ended, by its name; its tests are files by their names."""
    return {one.stage.name: one.code for one in ended(folder, unsteadied=unsteadied, **those)}


def ended(folder: Path, *, unsteadied: str = "", **those: dict[str, str]) -> list[checks.StageResult]:
    made = []
    for stage, files in those.items():
        for name, text in files.items():
            (folder / f"{name}.py").write_text(text)
        made.append(
            checks.Stage(stage, "", folders=tuple(f"{name}.py" for name in files), steadied=stage != unsteadied)
        )
    return both_looks(made)


def test_a_test_that_passes_alone_is_named_and_the_stage_passes(elsewhere: Path) -> None:
    results = ended(elsewhere, a_stage={"test_crowded": CROWDED})
    assert [one.code for one in results] == [0]
    assert unsteady(results) == ["test_crowded.py::test_passes_the_second_time"]


def test_a_defect_fails_the_stage(elsewhere: Path) -> None:
    results = ended(elsewhere, a_stage={"test_broken": BROKEN, "test_crowded": CROWDED})
    assert [one.code for one in results] == [1]
    assert unsteady(results) == []


def test_many_failures_are_not_looked_at_twice(elsewhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert stage(elsewhere, test_many=MANY) == 1
    assert "once more" not in capfd.readouterr().out


def test_each_stage_answers_for_its_own_tests(elsewhere: Path) -> None:
    crowded, broken, fine = {"test_crowded": CROWDED}, {"test_broken": BROKEN}, {"test_fine": "def test_fine(): pass\n"}
    assert stages(elsewhere, crowded=crowded, broken=broken, fine=fine) == {"crowded": 1, "broken": 1, "fine": 0}
    assert stages(elsewhere, fine=fine, broken=broken) == {"fine": 0, "broken": 1}


def test_a_stage_without_processes_has_no_second_look(elsewhere: Path) -> None:
    assert stages(elsewhere, unsteadied="units", units={"test_crowded": CROWDED}) == {"units": 1}
    (elsewhere / "seen").unlink()
    both = {"units": {"test_crowded": CROWDED}, "others": {"test_fine": "def test_fine(): pass\n"}}
    results = ended(elsewhere, unsteadied="units", **both)
    assert {one.stage.name: one.code for one in results} == {"units": 1, "others": 0}
    assert unsteady(results) == []


def test_a_file_that_cannot_be_read_fails_the_stage(elsewhere: Path) -> None:
    assert stage(elsewhere, test_unreadable="import nothing_of_that_name\n") != 0


def test_what_the_workers_import_is_compiled_before_and_what_cannot_be_stops_nothing(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (elsewhere / "test_fine.py").write_text("def test_fine():\n    assert True\n")
    (elsewhere / "test_unreadable.py").write_text("import nothing_of_that_name\n")
    checks.compile_tests(["test_fine.py", "test_unreadable.py"])
    assert list((elsewhere / "__pycache__").glob("test_fine.*pytest*.pyc"))


def test_no_failure_is_no_news(elsewhere: Path) -> None:
    results = ended(elsewhere, a_stage={"test_fine": "def test_fine():\n    pass\n"})
    assert [one.code for one in results] == [0]
    assert unsteady(results) == []


def test_without_a_browser_nothing_else_is_run_in_its_place(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (elsewhere / "test_other.py").write_text(BROKEN)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(checks, "_call", lambda *argv, **_: pytest.fail(f"{argv} was run"))
    (browser,) = both_looks([each for each in checks.STAGES if each.apart])
    assert browser.code == 0
    monkeypatch.setenv("CI", "true")
    (browser,) = both_looks([each for each in checks.STAGES if each.apart])
    assert browser.code == 1


def test_browsers_beside_the_others_and_each_failure_once_more_when_all_have_ended(
    elsewhere: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A test of each run fails while the other run goes on, and passes alone."""
    for name in ("test_browser", "test_other"):
        (elsewhere / name).mkdir()
        (elsewhere / name / f"{name}.py").write_text(CROWDED)
    made = [
        checks.Stage(name, "", folders=(name,), steadied=True, apart=name == "test_browser")
        for name in ("test_other", "test_browser")
    ]
    results = checks._run(made, ())
    assert [(one.stage.name, one.code) for one in results] == [("test_other", 0), ("test_browser", 0)]
    assert unsteady(results) == [
        "test_browser/test_browser.py::test_passes_the_second_time",
        "test_other/test_other.py::test_passes_the_second_time",
    ]
    said = capfd.readouterr().out
    assert said.index("=== test_browser took") < said.index("--- once more, alone")
