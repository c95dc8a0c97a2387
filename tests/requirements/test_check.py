"""The command and the pytest plugin: what fails, what is printed, and what the table shows."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from tests.requirements import __main__ as command
from tests.requirements.manifest import Manifest, manifest
from tests.requirements.proofs import Proof, Scan
from tests.requirements.report import cover, table

LOCK = "agent.quote.limit.lock"
TEST = "tests/api/test_quote.py::test_lock"


def run(
    monkeypatch: pytest.MonkeyPatch, page: Path, found: Scan, finished: frozenset[str] = frozenset(), *words: str
) -> int:
    """One command over the real requirements, with the given proofs and the given page as docs/conformance.md."""
    changed: Manifest = replace(manifest(), finished=finished)
    monkeypatch.setattr(command, "load", lambda: changed)
    monkeypatch.setattr(command, "scan", lambda: found)
    monkeypatch.setattr(command, "CONFORMANCE", page)
    return command.main(list(words))


@pytest.fixture
def page(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    return tmp_path / "docs" / "conformance.md"


def test_check_lists_what_has_no_test_and_passes_while_nothing_is_finished(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    found = Scan((Proof(LOCK, TEST),), ())
    assert run(monkeypatch, page, found, frozenset(), "table") == 0
    capsys.readouterr()
    assert run(monkeypatch, page, found, frozenset(), "check") == 0
    printed = capsys.readouterr().out.split()
    assert LOCK not in printed
    for surface in manifest().surfaces:
        assert {requirement.id for requirement in surface.requirements} - {LOCK} <= set(printed)


def test_check_fails_for_a_finished_surface_with_a_gap(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    shared = next(surface for surface in manifest().surfaces if surface.name == "shared")
    proofs = tuple(Proof(requirement.id, TEST) for requirement in shared.requirements)
    finished = frozenset({"shared"})
    assert run(monkeypatch, page, Scan(proofs, ()), finished, "table") == 0
    assert run(monkeypatch, page, Scan(proofs, ()), finished, "check") == 0
    assert run(monkeypatch, page, Scan(proofs[1:], ()), finished, "table") == 0
    capsys.readouterr()
    assert run(monkeypatch, page, Scan(proofs[1:], ()), finished, "check", "--summary") == 1
    printed = capsys.readouterr()
    assert f"  {proofs[0].pattern}\n" in printed.out
    assert "shared is listed as finished and has 1 requirements without a test" in printed.err


def test_check_fails_for_a_requirement_that_only_thorough_tests_prove(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    shared = next(surface for surface in manifest().surfaces if surface.name == "shared")
    first, *rest = (Proof(requirement.id, TEST) for requirement in shared.requirements)
    finished, thorough = frozenset({"shared"}), replace(first, test="tests/test_whole.py::test_all", ordinary=False)
    assert run(monkeypatch, page, Scan((first, thorough, *rest), ()), finished, "table") == 0
    assert run(monkeypatch, page, Scan((first, thorough, *rest), ()), finished, "check") == 0
    assert run(monkeypatch, page, Scan((thorough, *rest), ()), finished, "table") == 0
    capsys.readouterr()
    assert run(monkeypatch, page, Scan((thorough, *rest), ()), finished, "check", "--summary") == 1
    assert f"{first.pattern} is proved by thorough tests only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (Scan((Proof("agent.quote.limit.lok", TEST),), ()), f"{TEST}: no requirement has the id agent.quote.limit.lok"),
        (Scan((), ("tests/x.py:3: proves() takes literal ids",)), "tests/x.py:3: proves() takes literal ids"),
    ],
)
def test_check_fails_for_a_proof_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: Path, found: Scan, complaint: str
) -> None:
    assert run(monkeypatch, page, found, frozenset(), "table") == 0
    assert run(monkeypatch, page, found, frozenset(), "check", "--summary") == 1
    assert capsys.readouterr().err == f"error: {complaint}\n"


def test_check_fails_for_an_old_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: Path
) -> None:
    assert run(monkeypatch, page, Scan((), ()), frozenset(), "check", "--summary") == 1
    assert run(monkeypatch, page, Scan((), ()), frozenset(), "table") == 0
    assert run(monkeypatch, page, Scan((), ()), frozenset(), "check", "--summary") == 0
    capsys.readouterr()
    assert run(monkeypatch, page, Scan((Proof(LOCK, TEST),), ()), frozenset(), "check", "--summary") == 1
    assert "docs/conformance.md is out of date" in capsys.readouterr().err


def test_table_shows_line_text_and_tests() -> None:
    page = table(cover(manifest(), Scan((Proof(LOCK, TEST), Proof("agent.meta.field.*", "tests/t.py::test_meta")), ())))
    rows = [line for line in page.splitlines() if line.startswith(f"| `{LOCK}` |")]
    assert len(rows) == 1
    assert "[225](spec/agent-api.md#L225), [323](spec/agent-api.md#L323)" in rows[0]
    assert rows[0].endswith("| `api/test_quote.py::test_lock` |")
    assert page.count("| `t.py::test_meta` |") == 4
    drawn = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(drawn) == sorted(requirement.id for requirement in manifest().requirements)


def collect(folder: Path, mark: str, *words: str) -> tuple[int, str]:
    """Exit code and output of pytest on one test with the given mark, with only the plugins named."""
    (folder / "test_it.py").write_text(f"import pytest\n@pytest.mark.{mark}\ndef test_it(): ...\n")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    plugins = ["-p", "tests.requirements.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(folder / "pytest.ini"), *plugins, *words, str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("mark", "code", "said"),
    [
        (f'proves("{LOCK}")', 0, "1 passed"),
        ('proves("agent.quote.limit.lok")', 4, "test_it: no requirement has the id agent.quote.limit.lok"),
        ('proves("agent.quote.error.*")', 4, "can be named by a wildcard"),
        ("proves()", 4, "proves() takes one or more ids and no keywords"),
    ],
)
@pytest.mark.thorough
def test_the_plugin_checks_ids_at_collection(tmp_path: Path, mark: str, code: int, said: str) -> None:
    returned, printed = collect(tmp_path, mark)
    assert returned == code, printed
    assert said in printed


@pytest.mark.thorough
def test_in_parallel_a_test_with_an_unknown_id_fails(tmp_path: Path) -> None:
    returned, printed = collect(tmp_path, 'proves("agent.quote.limit.lok")', "-p", "xdist", "-n", "1")
    assert returned == 1, printed
    assert "no requirement has the id agent.quote.limit.lok" in printed
    assert "INTERNALERROR" not in printed
