"""`./vpm test PATH` runs only that path, `--quick` what needs no chain, and `--thorough` everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts._vpm import checks


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that would have been run, without the programs' own paths."""
    commands: list[list[str]] = []

    def note(_output: checks.Output, *argv: str | Path, env: dict[str, str] | None = None) -> int:
        commands.append([Path(argv[0]).name, *map(str, argv[1:])])
        return 0

    monkeypatch.setattr(checks, "_call", note)
    return commands


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("tests/contracts/forge/stock/Gone.t.sol", "there is no tests/contracts/forge/stock/Gone.t.sol in "),
        ("tests/gone.py::test_y", "there is no tests/gone.py in "),
        ("tests/contracts/proofs", "./vpm prove"),
    ],
)
def test_what_would_run_nothing_is_refused(
    ran: list[list[str]], capsys: pytest.CaptureFixture[str], path: str, why: str
) -> None:
    """forge succeeds if it finds no test."""
    assert checks.main(["tests/unit", path]) == 2
    assert why in capsys.readouterr().err
    assert ran == []


def test_a_path_that_fails_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_call", lambda _output, *argv, env=None: 1 if "pytest" in argv else 0)
    assert checks.main(["tests/unit", "tests/contracts/forge/stock/Claim.t.sol"]) == 1


@pytest.mark.parametrize(
    ("words", "left_out"),
    [((), True), (("--thorough",), False), (("--only", "integration"), False), (("--only", "unit", "--quick"), False)],
)
def test_only_an_ordinary_run_leaves_thorough_tests_out(
    ran: list[list[str]], words: tuple[str, ...], left_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "STAGES", [each for each in checks.STAGES if each.run is None])
    monkeypatch.setattr(checks, "_can_run", lambda stage: True)
    monkeypatch.delenv("VPM_TEST_LONG", raising=False)
    assert checks.main([*words, "--", "-x"]) == 0
    tests = [each for each in ran if "pytest" in each]
    assert tests
    assert all(("not thorough" in each) == left_out and each[-1] == "-x" for each in tests)
