"""`./vpm mutate` itself, on a guard that matters and on one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.paths import REPOSITORY
from tests.guards.__main__ import Copy
from tests.guards.catalogue import GUARDS
from tests.guards.guard import Guard

pytestmark = pytest.mark.thorough


def test_a_guard_that_is_missed_and_one_that_is_not(tmp_path: Path) -> None:
    real = next(guard for guard in GUARDS if guard.source == "relayer/standing.py")
    copy = Copy(tmp_path / "copy")
    copy.folder.mkdir()
    copy.make()
    assert copy.without(real).killed
    assert (copy.folder / real.source).read_text() == (REPOSITORY / real.source).read_text(), "it is put back"
    harmless = Guard("nothing", real.source, "amounts in wei.", "amounts in wei!", real.tests)
    assert not copy.without(harmless).killed
    elsewhere = Guard("nobody tests it there", real.source, real.code, real.without, ("tests/unit/test_money.py",))
    assert not copy.without(elsewhere).killed
