"""The theorems that are proved in seconds are proved in every thorough run; their tables are held to the sources."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import pytest

from core.paths import REPOSITORY
from scripts._prove import __main__ as command
from scripts._prove.copies import Copy
from scripts._prove.guards import GUARDS, Guard
from scripts._prove.provers import prepare
from scripts._prove.theorem import LEMMAS, PROOFS, REFUTED
from scripts._prove.theorems import THEOREMS

LONG = os.environ.get("VPM_TEST_LONG") == "1"
PATIENCE = 10  # what a theorem takes is known of a machine that does nothing else; here everything runs beside it


def test_every_theorem_of_the_sources_is_listed_and_every_listed_one_is_there() -> None:
    written = {file.name for file in (REPOSITORY / LEMMAS).glob("*.smt2")}
    for source in (REPOSITORY / PROOFS).rglob("*.t.sol"):
        text = source.read_text()
        contracts = re.findall(r"^contract (\w+)", text, re.MULTILINE)
        assert len(contracts) == 1, f"{source.name} holds one contract of theorems, so that its names are unambiguous"
        written |= {f"{contracts[0]}.{name}" for name in re.findall(r"function (check_\w+)", text)}
    assert sorted(theorem.proof for theorem in THEOREMS) == sorted(written)
    assert len({theorem.name for theorem in THEOREMS}) == len(THEOREMS)


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


@pytest.mark.parametrize("guard", GUARDS, ids=[guard.name for guard in GUARDS])
def test_a_guard_and_its_theorem_stand(guard: Guard) -> None:
    assert (REPOSITORY / guard.source).read_text().count(guard.code) == 1, f"{guard.source} has another guard now"
    assert guard.theorem in {theorem.name for theorem in THEOREMS}


@pytest.mark.thorough
@pytest.mark.timeout(1_200)  # it compiles, too
def test_a_theorem_is_refuted_without_its_guard() -> None:
    """One of them in every thorough run, so that a prover that always agrees is noticed."""
    prepare()
    assert Copy().without(GUARDS[0], PATIENCE).result == REFUTED


@pytest.mark.skipif(not LONG, reason="VPM_TEST_LONG=1 takes out every guard; ./vpm prove --guards shows them")
@pytest.mark.timeout(3600)
def test_every_theorem_is_refuted_without_its_guard() -> None:
    prepare()
    assert command.without_guards(GUARDS) == 0
