"""Every guard of the list stands in the sources, its tests exist, and the page shows what the list holds."""

from __future__ import annotations

import re

import pytest

from core.paths import REPOSITORY
from tests.guards.__main__ import _verdict, main
from tests.guards.catalogue import GUARDS
from tests.guards.guard import Guard
from tests.guards.table import PAGE, page
from tests.requirements.proofs import thorough


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.source}: {guard.stops}")
def test_the_guard_and_its_tests_are_in_the_sources(guard: Guard) -> None:
    assert guard.problem() is None


@pytest.mark.parametrize(
    "guard", [each for each in GUARDS if not each.is_solidity], ids=lambda guard: f"{guard.source}: {guard.stops}"
)
def test_an_ordinary_run_misses_the_guard(guard: Guard) -> None:
    """A guard is worth a test that somebody waits for."""
    for test in guard.tests:
        file, _, name = test.partition("::")
        left_out = thorough(REPOSITORY / file)
        whole = set(re.findall(r"^(?:async )?def (test\w+)", (REPOSITORY / file).read_text(), re.MULTILINE))
        if ({name.rpartition("::")[2].partition("[")[0]} if name else whole) - left_out:
            return
    pytest.fail(f"only thorough tests miss it: {', '.join(guard.tests)}")


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
