"""Where the contracts' documents name a test as proof, that test exists."""

from __future__ import annotations

import re

import pytest

from core.paths import REPOSITORY

SOLIDITY = REPOSITORY / "tests" / "contracts" / "forge"
NAMED = re.compile(r"`((?:test|invariant)\w+)`")


@pytest.mark.parametrize("document", ["README.md", "SECURITY.md"])
def test_every_test_it_names_exists(document: str) -> None:
    named = set(NAMED.findall((REPOSITORY / "contracts" / document).read_text()))
    assert len(named) > 10
    there = {
        name
        for source in SOLIDITY.rglob("*.sol")
        for name in re.findall(r"function ((?:test|invariant)\w+)\(", source.read_text())
    }
    assert named <= there, f"contracts/{document} names tests that do not exist: {sorted(named - there)}"


def test_every_cannot_of_the_powers_table_names_a_test() -> None:
    text = (REPOSITORY / "contracts" / "README.md").read_text()
    table = text[text.index("| Who | Can | Cannot | Test |") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    assert len(rows) > 15
    for _, _, cannot, test in rows:
        assert cannot
        assert NAMED.search(test), f"no test for: {cannot}"
