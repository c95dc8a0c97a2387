"""Every dependency in pyproject.toml is used as its comment says: imported by the wings it names and no others of the
product, run as a program, plugged into one, or needed through another dependency."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions, requires
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from core.paths import REPOSITORY

PRODUCT = {"core", "api", "indexer", "keeper", "relayer"}
WINGS = PRODUCT | {"scripts", "tests"}
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?: +#.*)?$)", re.MULTILINE)
LINE = re.compile(r'^ +"(?P<name>[A-Za-z0-9._-]+)[^"]*", +# (?P<use>[^:]+): \S')


def declared() -> Iterator[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    for group in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in group:
            yield re.split(r"[^A-Za-z0-9._-]", requirement)[0]


def uses() -> dict[str, str]:
    """What the comment of each dependency says before its colon."""
    lines = (LINE.match(line) for line in (REPOSITORY / "pyproject.toml").read_text().splitlines())
    return {line["name"]: line["use"] for line in lines if line}


@cache
def modules() -> dict[str, set[str]]:
    """The top-level modules of each installed distribution."""
    found: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            found.setdefault(_normal(name), set()).add(module)
    return found


def imported(files: Iterator[Path]) -> set[str]:
    """The top-level modules that these files import, anywhere in them. The lines are read: to parse every file of the
    repository took as long as hundreds of other tests."""
    return {name for file in files for names in IMPORT.findall(file.read_text()) for name in names if name}


@cache
def by_wing() -> dict[str, set[str]]:
    """Without the client libraries, which declare for themselves what they need."""
    clients = REPOSITORY / "api" / "clients"
    return {
        wing: imported(each for each in (REPOSITORY / wing).rglob("*.py") if not each.is_relative_to(clients))
        for wing in WINGS
    }


@cache
def tools() -> str:
    """What runs programs."""
    return "\n".join(file.read_text() for wing in ("scripts", "tests") for file in (REPOSITORY / wing).rglob("*.py"))


def problem(name: str, use: str) -> str | None:
    """Why the dependency is not used so, or None."""
    own = modules()[_normal(name)]
    match use.split(" "):
        case ["run", "as", program]:
            there = any(each.name == program for each in distribution(name).files or ())
            return None if there and re.search(rf'"{program}"', tools()) else f"nothing runs {program}"
        case ["plugin", "of", "pytest"]:
            return None if distribution(name).entry_points.select(group="pytest11") else "it plugs into nothing"
        case ["plugin", "of", "ape"]:
            return None if any(each.startswith("ape_") for each in own) else "it plugs into nothing"
        case ["plugin", "of", "mypy"]:
            return None if any(each.endswith("-stubs") for each in own) else "it has no types"
        case ["through", other]:
            spec = find_spec(other)
            if spec is None or spec.origin is None or not any(other in modules()[_normal(each)] for each in declared()):
                return f"{other} is not of a dependency"
            return None if own & imported(Path(spec.origin).parent.rglob("*.py")) else f"{other} does not import it"
    named = set(use.split(", "))
    if not named <= WINGS:
        return f"{use!r} is not a list of wings"
    importers = {wing for wing in WINGS if own & by_wing()[wing]}
    if missing := named - importers:
        return f"not imported by {', '.join(sorted(missing))}"
    if more := importers & PRODUCT - named:
        return f"also imported by {', '.join(sorted(more))}"
    return None


def undeclared(imports: set[str], requirements: Iterable[str]) -> set[str]:
    """Modules that come only because something else brings them; an extra that is asked for brings what it lists."""
    given: set[str] = set()
    for wanted in map(Requirement, requirements):
        given.add(_normal(wanted.name))
        for extra in wanted.extras:
            brought = map(Requirement, requires(wanted.name) or ())
            given |= {_normal(each.name) for each in brought if each.marker and each.marker.evaluate({"extra": extra})}
    known = set().union(*(modules().get(name, set()) for name in given))
    return imports - known - sys.stdlib_module_names


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_dependency_says_who_uses_it() -> None:
    assert list(uses()) == list(declared())


@pytest.mark.parametrize("name", list(declared()))
def test_a_dependency_is_used_as_it_says(name: str) -> None:
    assert problem(name, uses()[name]) is None


def test_the_product_imports_nothing_that_only_a_dependency_brings() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    imports = set().union(*(by_wing()[wing] for wing in PRODUCT))
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["aws"],
        *project["optional-dependencies"]["gcp"],
    ]
    assert undeclared(imports - WINGS, asked) == set()
    assert undeclared(imports - WINGS, [each for each in asked if not each.startswith("yarl")]) == {"yarl"}


def test_the_python_client_declares_what_it_imports() -> None:
    client = REPOSITORY / "api" / "clients" / "python"
    declares = tomllib.loads((client / "pyproject.toml").read_text())["project"]["dependencies"]
    assert undeclared(imported((client / "src").rglob("*.py")) - {"vpm_client"}, declares) == set()
