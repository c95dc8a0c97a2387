"""Every guard of the contracts is taken out of a copy of the sources, one at a time, and its test must fail.

Compiling each copy takes a while, so this runs with VPM_TEST_LONG=1 only; that every guard and every test named in
`guards.py` still stands in the sources is checked always.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from core.local.packages import foundry_binary
from core.paths import REPOSITORY
from tests.contracts.guards import GUARDS, Guard

FORGE_TESTS = REPOSITORY / "tests" / "contracts" / "forge"
LONG = os.environ.get("VPM_TEST_LONG") == "1"
ids = [guard.name for guard in GUARDS]


@pytest.mark.parametrize("guard", GUARDS, ids=ids)
def test_the_guard_and_its_test_are_in_the_sources(guard: Guard) -> None:
    assert (REPOSITORY / guard.source).read_text().count(guard.code) == 1, f"{guard.source} has another guard now"
    assert f"function {guard.test}(" in (FORGE_TESTS / guard.suite).read_text(), f"{guard.suite} has no {guard.test}"


@pytest.fixture(scope="module")
def copy() -> Path:
    """A project of its own, in which all the tests pass. It stays, for what forge has compiled."""
    project = REPOSITORY / ".vpm" / "build" / "guards"
    for part in ("contracts", "tests"):
        shutil.rmtree(project / part, ignore_errors=True)
    shutil.copytree(REPOSITORY / "contracts", project / "contracts")
    shutil.copytree(FORGE_TESTS, project / "tests" / "contracts" / "forge")
    shutil.copy(REPOSITORY / "tests" / "contracts" / "foundry.base.toml", project / "tests" / "contracts")
    for name in ("foundry.toml", "remappings.txt"):
        shutil.copy(REPOSITORY / name, project)
    for name in ("node_modules", "scripts"):
        (project / name).unlink(missing_ok=True)
        (project / name).symlink_to(REPOSITORY / name)
    whole = _forge(project, *GUARDS)
    assert whole.returncode == 0, whole.stdout[-3000:] + whole.stderr[-2000:]
    return project


def _forge(project: Path, *guards: Guard) -> subprocess.CompletedProcess[str]:
    suites = ",".join(sorted({guard.suite for guard in guards}))
    tests = "|".join(sorted({guard.test for guard in guards}))
    path = "tests/contracts/forge/" + (f"{{{suites}}}" if "," in suites else suites)
    return subprocess.run(
        [str(foundry_binary("forge")), "test", "--match-path", path, "--match-test", f"^({tests})\\b"],
        cwd=project,
        env={**os.environ, "FOUNDRY_PROFILE": "quick", "FOUNDRY_SPARSE_MODE": "true"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not LONG, reason="compiles the contracts once a guard; VPM_TEST_LONG=1 runs it")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guard", GUARDS, ids=ids)
def test_without_the_guard_its_test_fails(guard: Guard, copy: Path) -> None:
    source = copy / guard.source
    text = source.read_text()
    try:
        source.write_text(text.replace(guard.code, guard.without))
        broken = _forge(copy, guard)
    finally:
        source.write_text(text)
    assert broken.returncode != 0, f"without the guard {guard.test} still passes"
    failed = [line for line in broken.stdout.splitlines() if line.startswith("[FAIL") and guard.test in line]
    assert failed, broken.stdout[-3000:] + broken.stderr[-2000:]
    print(f"{guard.name}: {failed[0][:160]}")
