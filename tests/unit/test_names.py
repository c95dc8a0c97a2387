"""One name, one idea: no two public classes or names of types of the product are called the same, but for the same idea
on two sides; and a name says what it is of."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from core.paths import REPOSITORY

CLIENT = REPOSITORY / "api" / "clients"
WINGS = ("core", "api", "indexer", "keeper", "relayer", "scripts")
SAYS_NOTHING = {"found", "wanted", "known", "told", "held", "tell"}
_NAMED_ELSEWHERE = (ast.Load, ast.keyword)
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


def given_names(text: str) -> set[str]:
    """What a module calls its variables, parameters, attributes, functions and classes, be they private or not."""
    nodes = [each for each in ast.walk(ast.parse(text)) if not isinstance(getattr(each, "ctx", each), _NAMED_ELSEWHERE)]
    names = (getattr(each, field, None) for each in nodes for field in ("id", "attr", "arg", "name", "asname"))
    return {name.lstrip("_") for name in names if name}


def of_the_product() -> Iterable[tuple[str, str]]:
    for wing in WINGS:
        for path in sorted((REPOSITORY / wing).rglob("*.py")):
            if not path.is_relative_to(CLIENT):
                yield str(path.relative_to(REPOSITORY)), path.read_text()


def of_the_client() -> Iterable[tuple[str, str]]:
    """What stands alone: its answers have the names that are published, as the service's own models do."""
    for path in sorted(CLIENT.rglob("*.py")):
        yield str(path.relative_to(REPOSITORY)), path.read_text()


def test_no_two_types_share_a_name_for_different_ideas() -> None:
    strangers = {name: where for name, where in shared(public_types(of_the_product())).items() if name not in SAME_IDEA}
    assert strangers == {}, "rename all but one, or say in SAME_IDEA why they are one idea"


def test_no_two_types_of_the_client_share_a_name() -> None:
    assert shared(public_types(of_the_client())) == {}


def test_no_exception_has_outlived_its_types() -> None:
    assert SAME_IDEA.keys() - shared(public_types(of_the_product())).keys() == set()


def test_a_shared_name_is_seen() -> None:
    first = "class Seat: pass\nclass _Own: pass\nRow = dict[str, int]\nCalls: TypeAlias = list[Row]\nMAX = T = 1"
    modules = (("core/a.py", first), ("api/b.py", "class Row: pass\nSeat = int\nclass _Own: pass\nCalls = MAX = T = 1"))
    assert shared(public_types(modules)) == {
        "Seat": ["core/a.py:1", "api/b.py:2"],
        "Row": ["core/a.py:3", "api/b.py:1"],
    }


def test_a_name_says_what_was_found() -> None:
    sources = (*of_the_product(), *of_the_client())
    said = {path: given_names(text) & SAYS_NOTHING for path, text in sources}
    assert {path: names for path, names in said.items() if names} == {}


def test_a_name_that_says_nothing_is_seen() -> None:
    text = "for found in known: pass\nasync def tell(held): pass\ndef told(): self.wanted = [known for known in held]"
    assert given_names(text) >= SAYS_NOTHING
    assert given_names("def _told(): self._held = __found = 1") >= {"told", "held", "found"}
    assert given_names("log.error(found, known=wanted.tell(held.told))") == set()


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


def test_a_bound_called_otherwise_is_seen() -> None:
    text = "LONGEST_PAUSE = 1\n_MOST = LEAST_OF_ALL\nuint MAX_LEAST; // AT_MOST, ALMOST, MOST_"
    assert BOUND_ELSEWISE.findall(text) == ["LONGEST_PAUSE", "_MOST", "LEAST_OF_ALL", "MAX_LEAST", "AT_MOST"]
