"""One name, one idea: no two public classes or names of types of the product are called the same, but for the same idea
on two sides; and a name says what it is of."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache

from core.paths import REPOSITORY

CLIENT = REPOSITORY / "api" / "clients"
WINGS = ("core", "api", "indexer", "keeper", "relayer", "scripts")
BOUND_ELSEWISE = re.compile(r"\b_?(?:[A-Z0-9]+_)*(?:MOST|LEAST|LONGEST|SHORTEST|LARGEST|SMALLEST)(?:_[A-Z0-9]+)*\b")

_SURFACES = "each surface's own body or request of this kind"
_KEEPERS = "what each side's settling decides"
_DECLARED = "the contract's own name, as its log has it and as the mirror works with it"

SAME_IDEA = {
    **dict.fromkeys(
        (
            "ErrorBody", "EscapeKit", "GuideStep", "HealthBody", "MarketBody", "MarketPath", "MarketsBody",
            "MarketsQuery", "Meta", "PositionBody", "QuoteBody", "QuoteQuery", "TradeBody", "TradeRequest",
            "WalletAddress",
        ),
        _SURFACES,
    ),
    "Book": "what each mechanism's books are made of",
    **dict.fromkeys(("Facts", "Settle"), _KEEPERS),
    **dict.fromkeys(("MarketOpened", "MarketSpec", "MarketTerms", "Reading"), _DECLARED),
    "ListedMarket": "a market as its lister opened it, with its books, on each surface",
    "Venue": "all that a surface knows of its markets at one moment",
}  # fmt: skip


def public_types(sources: Iterable[tuple[str, str]]) -> Mapping[str, list[str]]:
    """The public classes of the modules given by path and text, and what else they name as types are (`Row = ...`): by
    name, where each stands. A type variable of one letter is its module's own."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in sources:
        for node in ast.parse(text).body:
            match node:
                case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name)):
                    pass
                case _:
                    continue
            if name[0].isupper() and not name.isupper():
                places[name].append(f"{path}:{node.lineno}")
    return places


def shared(places: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: where for name, where in places.items() if len(where) > 1}


@cache
def of_the_product() -> Mapping[str, list[str]]:
    """Return the names that stand in more than one place of the product."""
    paths = (path for wing in WINGS for path in sorted((REPOSITORY / wing).rglob("*.py")))
    ours = (path for path in paths if not path.is_relative_to(CLIENT))
    return shared(public_types((str(path.relative_to(REPOSITORY)), path.read_text()) for path in ours))


def of_the_client() -> Iterable[tuple[str, str]]:
    """What stands alone: its answers have the names that are published, as the service's own models do."""
    for path in sorted(CLIENT.rglob("*.py")):
        yield str(path.relative_to(REPOSITORY)), path.read_text()


def test_no_two_types_share_a_name_for_different_ideas() -> None:
    strangers = {name: where for name, where in of_the_product().items() if name not in SAME_IDEA}
    assert strangers == {}, "rename all but one, or say in SAME_IDEA why they are one idea"


def test_no_two_types_of_the_client_share_a_name() -> None:
    assert shared(public_types(of_the_client())) == {}


def test_no_exception_has_outlived_its_types() -> None:
    assert SAME_IDEA.keys() - of_the_product().keys() == set()


def test_a_bound_is_called_max_or_min() -> None:
    places = [REPOSITORY / each for each in (*WINGS, "contracts", "tests")]
    texts = [
        path
        for place in places
        for suffix in ("py", "ts", "sol")
        for path in place.rglob(f"*.{suffix}")
        if ".cache" not in path.parts and path.name != "test_names.py"
    ]
    assert len(texts) > 1_000
    assert {str(path): names for path in texts if (names := BOUND_ELSEWISE.findall(path.read_text()))} == {}
