"""`./vpm test PATH` runs that path and nothing else; `--quick` what needs no chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts._vpm import checks


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that would have been run, without the programs' own paths."""
    commands: list[list[str]] = []

    def note(*argv: str | Path, env: dict[str, str] | None = None) -> int:
        commands.append([Path(argv[0]).name, *map(str, argv[1:])])
        return 0

    monkeypatch.setattr(checks, "_call", note)
    return commands


def test_a_path_runs_alone(ran: list[list[str]]) -> None:
    assert checks.main(["tests/unit/test_x.py::test_y", "tests/contracts/forge/X.t.sol", "--", "-x"]) == 0
    assert [each[1:] for each in ran] == [
        ["test", "--match-path", "tests/contracts/forge/X.t.sol"],
        ["-m", "pytest", "tests/unit/test_x.py::test_y", "-x"],
    ]


def test_a_path_that_fails_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_call", lambda *argv, env=None: 1 if "pytest" in argv else 0)
    assert checks.main(["tests/unit", "tests/contracts/forge/X.t.sol"]) == 1


def test_quick_starts_no_chain_and_compiles_nothing(ran: list[list[str]]) -> None:
    assert checks.main(["--quick"]) == 0
    (tests,) = [each for each in ran if "pytest" in each]
    programs = [each[0] for each in ran if each is not tests]
    assert programs == ["ruff", "ruff", "mypy", "mypy", "tsc", "lint-imports"]
    assert [word for word in tests if word.startswith("tests/")] == ["tests/unit", "tests/guards", "tests/requirements"]


def test_paths_and_stages_are_not_mixed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        checks.main(["tests/unit", "--quick"])
    assert "not both" in capsys.readouterr().err
