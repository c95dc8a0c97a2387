"""A class docstring begins with what the class is: a noun phrase, before any word on parameters and attributes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

import pytest

from core.paths import REPOSITORY
from tests.unit.test_names import of_the_client, of_the_product

# What a method's docstring may well begin with: it says what happens, not what something is.
DEEDS = {
    "Adds", "Answers", "Asks", "Builds", "Calls", "Checks", "Collects", "Compares", "Computes", "Counts",
    "Creates", "Decides", "Decodes", "Delivers", "Does", "Draws", "Encodes", "Follows", "Gathers", "Gives",
    "Handles", "Holds", "Iterates", "Keeps", "Knows", "Learns", "Listens", "Lists", "Loads", "Locks", "Looks",
    "Makes", "Manages", "Measures", "Moves", "Opens", "Posts", "Prints", "Produces", "Provides", "Publishes", "Pushes",
    "Reads", "Receives", "Records", "Refuses", "Remembers", "Renders", "Renews", "Represents", "Resolves",
    "Returns", "Runs", "Saves", "Says", "Sends", "Serves", "Shares", "Shows", "Signs", "Simulates", "Starts",
    "Stops", "Stores", "Takes", "Tells", "Tracks", "Tries", "Verifies", "Waits", "Wakes", "Watches", "Wraps",
    "Writes", "Add", "Ask", "Call", "Compare", "Do", "Get", "Give", "Hold", "Keep", "Make", "Read", "Receive", "Run",
    "Send", "Serve", "Sign", "Start", "Take", "Use", "Wait",
}  # fmt: skip
# What only continues a sentence that stands nowhere.
LOOSE = {"Also", "Any", "Asked", "Can", "Given", "Its", "It", "None", "Of", "On", "They"}

BEGINNING = re.compile(r"[A-Z][\w'-]*[ ,:.]")
PARAMETER = re.compile(r"\w+:")


def fault(docstring: str) -> str | None:
    """Why the docstring does not begin with what the class is; None when it does."""
    if PARAMETER.match(docstring) or not BEGINNING.match(docstring):
        return "it does not begin with the first word of a sentence"
    word = docstring.split(maxsplit=1)[0].rstrip(",:.")
    if word in DEEDS:
        return f"it begins with what the class does ({word}), not with what it is"
    return f"it begins in the middle ({word})" if word in LOOSE else None


def faults(path: str, text: str) -> list[str]:
    return [
        f"{path}:{node.lineno} {node.name}: {why}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef)
        and (docstring := ast.get_docstring(node)) is not None
        and (why := fault(docstring)) is not None
    ]


def of_the_tests() -> Iterable[tuple[str, str]]:
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        yield str(path.relative_to(REPOSITORY)), path.read_text()


def test_every_class_docstring_begins_with_what_the_class_is() -> None:
    sources = (*of_the_product(), *of_the_client(), *of_the_tests())
    assert [each for path, text in sources for each in faults(path, text)] == []


@pytest.mark.parametrize(
    ("docstring", "is_one"),
    [
        ("A webhook's registration, or with `trade_id` a callback.", True),
        ("One lane's intake: `claims` is shared.", True),
        ("What came of a delivery.", True),
        ("`run` runs until it is cancelled.", False),
        ("url: of the primary. engine: where it is read.", False),
        ("Balance: what a wallet has.", False),
        ("balances of a wallet.", False),
        ("x402 v1. `error` says why.", False),
        ("Runs jobs of one keeper.", False),
        ("Run it for as long as requests come.", False),
        ("Also sent for the two seed positions.", False),
        ("", False),
    ],
)
def test_a_docstring_that_begins_otherwise_is_seen(docstring: str, is_one: bool) -> None:
    assert (faults("a.py", f'class Seat:\n    """{docstring}"""\n') == []) is is_one
