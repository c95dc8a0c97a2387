"""Every code that the code can send has its cause and its next step at one address."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.agent.errors import CATALOGUE, error_body, problem
from api.web.templating import TEMPLATES
from core.paths import REPOSITORY

# Of each surface's part of /errors.txt: the codes, each with its cause and its next step.
EXPLAINED = {
    part.partition("\n")[0]: re.findall(r"^(\w+)\n  cause: (.+\.)\n  next:  (.+)$", part, re.MULTILINE)
    for part in (TEMPLATES / "errors.txt").read_text().split("\n## ")[1:]
}
AGENT, STOCK, CUP, COMMON = ({code for code, _, _ in codes} for codes in EXPLAINED.values())

# Where the code stands among the arguments of what refuses.
PLACES = {"Problem": 1, "problem": 0, "Refusal": 1, "_later": 1}


def codes(*patterns: str) -> set[str]:
    return {code for pattern in patterns for path in sorted(REPOSITORY.glob(pattern)) for code in _of(path)}


def _of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            place = PLACES.get(getattr(node.func, "id", getattr(node.func, "attr", "")))
            if place is not None and len(node.args) > place:
                for each in ast.walk(node.args[place]):  # also both of a choice
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield each.value


@pytest.mark.parametrize(
    ("patterns", "known"),
    [
        (("api/agent/**/*.py",), AGENT),
        (("api/stock/**/*.py",), STOCK | COMMON),
        (("api/cup/**/*.py", "core/cup/**/*.py"), CUP | COMMON),
        (("api/*.py", "api/web/**/*.py"), COMMON),
    ],
    ids=["agent", "stock", "cup", "common"],
)
def test_no_code_lacks_its_cause(patterns: tuple[str, ...], known: set[str]) -> None:
    found = codes(*patterns)
    assert found
    assert found - known == set()


def test_nothing_is_explained_that_is_never_sent() -> None:
    assert CATALOGUE.keys() == AGENT
    assert codes("api/stock/**/*.py") >= STOCK
    assert codes("api/cup/**/*.py", "core/cup/**/*.py") >= CUP
    assert all(step == f"{{{{ catalogue.{code}.hint }}}}" for code, _, step in EXPLAINED["Agent API"])


def test_a_hint_leads_there() -> None:
    body = error_body(problem("market_closed", "It is closed."), "r1", "https://x/errors.txt")
    assert body["hint"] == "Pick another market from GET /markets. More: https://x/errors.txt"
    assert body["docsUrl"] == "https://x/errors.txt"
