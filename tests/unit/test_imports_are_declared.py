"""The product and the Python client library declare what they import, and the product imports what it declares."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

from core.paths import REPOSITORY

WINGS = {"core", "api", "indexer", "keeper", "relayer"}
CLIENT = REPOSITORY / "api" / "clients" / "python"
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?: +#.*)?$)", re.MULTILINE)
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
ASKED = [
    *PROJECT["dependencies"],
    *PROJECT["optional-dependencies"]["aws"],
]


@cache
def modules() -> dict[str, set[str]]:
    """Return the top-level modules of each installed distribution."""
    found: dict[str, set[str]] = {}
    for module, names in packages_distributions().items():
        for name in names:
            found.setdefault(_normal(name), set()).add(module)
    return found


def imported(files: Iterator[Path]) -> set[str]:
    """Return the top-level modules that these files import, anywhere in them. The lines are read, because parsing every
    file of the repository takes as long as hundreds of other tests."""
    return {name for file in files for names in IMPORT.findall(file.read_text()) for name in names if name}


@cache
def of_the_product() -> set[str]:
    files = (file for wing in WINGS for file in (REPOSITORY / wing).rglob("*.py"))
    return imported(each for each in files if not each.is_relative_to(CLIENT)) - WINGS


def undeclared(imports: set[str], requirements: Iterable[str]) -> set[str]:
    """Return the modules that come only as a dependency of something else. A declared extra brings what it lists."""
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


def test_the_product_imports_nothing_that_only_a_dependency_brings() -> None:
    assert undeclared(of_the_product(), ASKED) == set()
    assert undeclared(of_the_product(), [each for each in ASKED if not each.startswith("yarl")]) == {"yarl"}


def test_the_product_declares_nothing_that_it_does_not_import() -> None:
    names = {_normal(Requirement(each).name) for each in ASKED}
    assert {each for each in names if not modules()[each] & of_the_product()} == set()


def test_the_python_client_declares_what_it_imports() -> None:
    declares = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert undeclared(imported((CLIENT / "src").rglob("*.py")) - {"vpm_client"}, declares) == set()
