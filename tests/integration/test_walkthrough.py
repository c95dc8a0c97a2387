"""docs/walkthrough.md, walked: each change made in a copy of the project, then its last step."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from tests.support.genesis import CACHE, Genesis

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

WALK = (REPOSITORY / "docs" / "walkthrough.md").read_text()
BLOCK = re.compile(r"^```(diff|python)\n# ([\w./]+)( \(new\))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROBE = "tests/integration/test_failed_amount.py"


@dataclass(frozen=True)
class Change:
    """A change of one file. `before` is None where the file is new."""

    path: str
    before: str | None
    after: str

    def make(self, root: Path) -> None:
        place = root / self.path
        if self.before is None:
            assert not place.exists(), f"{self.path} is there already"
            place.write_text(self.after)
            return
        text = place.read_text()
        assert text.count(self.before) == 1, f"{self.path} does not hold this once:\n{self.before}"
        place.write_text(text.replace(self.before, self.after))


def changes() -> Iterator[Change]:
    for kind, path, new, body in BLOCK.findall(WALK):
        if kind == "python":
            assert new, f"{path}: a block of Python is a new file"
            yield Change(path, None, body)
            continue
        lines = body.splitlines()
        before = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-"))
        after = "\n".join(line[1:] for line in lines if line[:1] in (" ", "+"))
        yield Change(path, before, after)


@pytest.fixture
def copy(tmp_path: Path, local_genesis: Genesis) -> Path:
    """The project's own files, with the environment of this checkout and its genesis, which is built by then."""
    folder = tmp_path / "project"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    (folder / "node_modules").symlink_to(REPOSITORY / "node_modules")
    (folder / ".vpm" / "build").mkdir(parents=True)
    (folder / ".vpm" / "env").symlink_to(REPOSITORY / ".vpm" / "env")
    shutil.copytree(CACHE, folder / CACHE.relative_to(REPOSITORY))
    return folder


def run(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the copy, with nothing of this run's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "VPM_"))}
    database = {name: os.environ[name] for name in ("VPM_TEST_DATABASE_URL",) if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=copy, env={**kept, **database, "PYTHONPATH": str(copy)},
        check=False, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def probe(copy: Path) -> str:
    """What the new test says, shortly."""
    done = run(copy, "pytest", "-q", "-x", "-p", "no:cacheprovider", PROBE)
    return done.stdout[-3000:] + done.stderr[-1000:] if done.returncode else "passed"


def test_whoever_follows_the_walk_through_sees_the_field_on_the_page(copy: Path) -> None:
    steps = list(changes())
    assert {each.path for each in steps} >= {PROBE, "indexer/fold/stock.py", "api/web/templates/stock.html"}
    first, *others = steps
    assert first.path == PROBE
    first.make(copy)
    assert "TypeError: int() argument" in probe(copy)  # before the change: there is no such field

    for each in others:
        each.make(copy)
    assert probe(copy) == "passed"

    style = run(copy, "ruff", "check", "core", "api", "indexer", "tests/integration/test_failed_amount.py")
    assert style.returncode == 0, style.stdout
    touched = ("tests/integration/test_db_migrations.py", "tests/unit/test_web_results.py")
    tests = run(copy, "pytest", "-q", "-p", "no:cacheprovider", *touched)
    assert tests.returncode == 0, tests.stdout[-3000:]
