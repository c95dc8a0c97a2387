"""The theorems that are quick to prove are proved in every thorough run, and the mechanism's page names only existing
ones."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from core.paths import REPOSITORY
from scripts._prove import __main__ as command
from scripts._prove.provers import REFUTED, Copy, prepare, read_theorems

THEOREMS = read_theorems()
LONG = os.environ.get("VPM_TEST_LONG") == "1"
PATIENCE = 10  # the times of theorems were measured on an idle machine; here other tests run at once


def test_every_theorem_has_a_name_of_its_own() -> None:
    assert len({each.name for each in THEOREMS}) == len({each.proof for each in THEOREMS}) == len(THEOREMS)


def test_the_page_of_the_mechanism_names_code_and_theorems_that_exist() -> None:
    rows = re.findall(
        r"^\| (\d+) \| .* \| \[`(\w+)`\]\(\.\./(\S+)\) \| `(\S+)` \|$",
        (REPOSITORY / "docs" / "mechanism.md").read_text(),
        re.MULTILINE,
    )
    assert [int(number) for number, *_ in rows] == list(range(1, 41))
    for _, name, source, theorem in rows:
        assert re.search(rf"\b{name}\b", (REPOSITORY / source).read_text()), f"{source} has no {name}"
        assert theorem in {each.name for each in THEOREMS}, f"there is no theorem {theorem}"


@pytest.mark.thorough
@pytest.mark.timeout(2_400)  # the provers give way to the other tests
def test_the_quick_ones_are_proved() -> None:
    prepare()
    quick = [replace(theorem, seconds=PATIENCE * theorem.seconds) for theorem in THEOREMS if theorem.quick]
    outcomes = [*command.outcomes(quick, REPOSITORY)]
    assert [f"{one.theorem.name}: {one.result}\n{one.why}" for one in outcomes if not one.proved] == []


def test_every_guard_is_code_that_occurs_once() -> None:
    for guard in (guard for theorem in THEOREMS for guard in theorem.guards):
        assert (REPOSITORY / guard.source).read_text().count(guard.code) == 1, f"{guard.source} has not {guard.code}"


@pytest.mark.thorough
@pytest.mark.timeout(1_200)  # it compiles, too
def test_a_theorem_is_refuted_without_its_guard() -> None:
    """This tries one in every thorough run, so that a prover that always agrees is noticed."""
    prepare()
    theorem = next(each for each in THEOREMS if each.guards)
    assert Copy().prove_without(theorem.guards[0], theorem, PATIENCE).result == REFUTED


@pytest.mark.skipif(not LONG, reason="VPM_TEST_LONG=1 takes out every guard; ./vpm prove --guards shows them")
@pytest.mark.timeout(3600)
def test_every_theorem_is_refuted_without_its_guard() -> None:
    prepare()
    assert command.check_guards(THEOREMS) == 0
