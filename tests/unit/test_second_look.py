"""A failed test with real processes is run once more, alone: decision 0006."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts._vpm import checks

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
    monkeypatch.setattr(checks, "ROOT", tmp_path)
    monkeypatch.setattr(checks, "unsteady", [])
    # Only the plugin the stages ask for: the others take seconds to load.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist.plugin\n")
    return tmp_path


def stage(folder: Path, **files: str) -> int:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return checks._steadied([f"{name}.py" for name in files], "0")(())


def test_a_test_that_passes_alone_is_named_and_the_stage_passes(elsewhere: Path) -> None:
    assert stage(elsewhere, test_crowded=CROWDED) == 0
    assert checks.unsteady == ["test_crowded.py::test_passes_the_second_time"]


def test_a_defect_fails_the_stage(elsewhere: Path) -> None:
    assert stage(elsewhere, test_broken=BROKEN, test_crowded=CROWDED) == 1
    assert checks.unsteady == []


def test_many_failures_are_not_looked_at_twice(elsewhere: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert stage(elsewhere, test_many=MANY) == 1
    assert "once more" not in capfd.readouterr().out


def test_a_file_that_cannot_be_read_fails_the_stage(elsewhere: Path) -> None:
    assert stage(elsewhere, test_unreadable="import nothing_of_that_name\n") != 0


def test_no_failure_is_no_news(elsewhere: Path) -> None:
    assert stage(elsewhere, test_fine="def test_fine():\n    pass\n") == 0
    assert checks.unsteady == []
