"""Every code that the code can send has its cause and its next step at one address."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.agent.errors import CATALOGUE, error_body, problem
from api.web.error_codes import AGENT_CAUSES, COMMON, CUP, STOCK, tables
from core.paths import REPOSITORY

# Where the code stands among the arguments of what refuses.
PLACES = {"Problem": 1, "problem": 0, "Refusal": 1, "_later": 1}


def codes(*folders: str) -> set[str]:
    return {code for folder in folders for path in sorted((REPOSITORY / folder).rglob("*.py")) for code in _of(path)}


def _of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            place = PLACES.get(getattr(node.func, "id", getattr(node.func, "attr", "")))
            if place is not None and len(node.args) > place:
                for each in ast.walk(node.args[place]):  # also both of a choice
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        yield each.value


@pytest.mark.parametrize(
    ("folders", "known"),
    [
        (("api/agent",), AGENT_CAUSES.keys()),
        (("api/stock",), STOCK.keys() | COMMON.keys()),
        (("api/cup", "core/cup"), CUP.keys() | COMMON.keys()),
        (("api/http", "api/web"), COMMON.keys()),
    ],
    ids=["agent", "stock", "cup", "common"],
)
def test_no_code_lacks_its_cause(folders: tuple[str, ...], known: set[str]) -> None:
    found = codes(*folders)
    assert found
    assert found - known == set()


def test_nothing_is_explained_that_is_never_sent() -> None:
    assert AGENT_CAUSES.keys() == CATALOGUE.keys()
    assert STOCK.keys() <= codes("api/stock")
    assert CUP.keys() <= codes("api/cup", "core/cup")
    for surface in tables().values():
        assert all(cause.endswith((".", "only.")) and step for cause, step in surface.values())


def test_a_hint_leads_there() -> None:
    body = error_body(problem("market_closed", "It is closed."), "r1", "https://x/errors.txt")
    assert body["hint"] == "Pick another market from GET /markets. More: https://x/errors.txt"
    assert body["docsUrl"] == "https://x/errors.txt"
