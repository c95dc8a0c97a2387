"""The product and the Python client import only what their pyproject.toml declares."""

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

PRODUCT = {"core", "api", "indexer", "keeper", "relayer"}
CLIENTS = REPOSITORY / "api" / "clients"  # they declare for themselves what they need
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?: +#.*)?$)", re.MULTILINE)


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


def test_the_product_imports_nothing_that_only_a_dependency_brings() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    files = (each for wing in PRODUCT for each in (REPOSITORY / wing).rglob("*.py") if not each.is_relative_to(CLIENTS))
    imports = imported(files) - PRODUCT - {"scripts"}
    asked = [
        *project["dependencies"],
        *project["optional-dependencies"]["aws"],
        *project["optional-dependencies"]["gcp"],
    ]
    assert undeclared(imports, asked) == set()
    assert undeclared(imports, [each for each in asked if not each.startswith("yarl")]) == {"yarl"}


def test_the_python_client_declares_what_it_imports() -> None:
    client = CLIENTS / "python"
    declares = tomllib.loads((client / "pyproject.toml").read_text())["project"]["dependencies"]
    assert undeclared(imported((client / "src").rglob("*.py")) - {"vpm_client"}, declares) == set()
