"""Every guard of the list stands in the sources, its tests exist, and the page shows what the list holds."""

from __future__ import annotations

import pytest

from tests.guards.__main__ import _verdict, main
from tests.guards.catalogue import GUARDS
from tests.guards.guard import Guard
from tests.guards.table import PAGE, page


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.source}: {guard.stops}")
def test_the_guard_and_its_tests_are_in_the_sources(guard: Guard) -> None:
    assert guard.problem() is None


def test_no_guard_is_listed_twice() -> None:
    assert len({(guard.source, guard.code, guard.without) for guard in GUARDS}) == len(GUARDS)
    assert len({guard.stops for guard in GUARDS}) == len(GUARDS)


def test_the_page_shows_the_list() -> None:
    assert PAGE.read_text() == page(GUARDS), "run ./vpm mutate --table"


def test_tests_that_did_not_run_say_nothing() -> None:
    assert not _verdict(5, "no tests ran", 1.0).killed
    assert not _verdict(4, "usage: pytest", 1.0).killed
    assert _verdict(1, "FAILED tests/x.py::test_y", 1.0).killed


def test_a_part_is_named_as_k_of_n(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--part", "3/2"])
    assert "K/N" in capsys.readouterr().err
