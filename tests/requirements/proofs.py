"""Which tests prove which requirements, read from the sources without running or importing any test.

Python: `@pytest.mark.proves("id", ...)` on a test function or class, `pytestmark` in a module or class, and
`pytest.param(..., marks=pytest.mark.proves("id"))`, in the decorator itself or in a module-level list the decorator
names. Solidity and TypeScript: a comment `proves: id, id` above the test function. The ids must be literals.
A test that is skipped or expected to fail proves nothing, and one that is `thorough` nothing in an ordinary run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from core.paths import REPOSITORY

FOLDERS = ("tests", "contracts")
LEFT_OUT = frozenset({"node_modules", "__pycache__", ".vpm", "out", "cache"})
_PROVES = frozenset({"proves"})
_NOT_RUN = frozenset({"skip", "xfail"})
_THOROUGH = frozenset({"thorough"})
_COMMENT = re.compile(r"(?://|/\*|\*|#).*?\bproves:\s*(?P<ids>[A-Za-z0-9_.*\s,-]+)")
_NEXT_TEST = {
    ".sol": re.compile(r"\bfunction\s+(?P<name>(?:test|invariant|statefulFuzz)\w*)\s*\("),
    ".ts": re.compile(r"\b(?:test|it)(?:\.\w+)*\(\s*(?P<quote>[\"'`])(?P<name>.+?)(?P=quote)"),
}
_SUFFIXES = {".sol": ".sol", ".ts": ".ts", ".tsx": ".ts", ".js": ".ts", ".mjs": ".ts"}


@dataclass(frozen=True, slots=True, order=True)
class Proof:
    """A claim: `test` says it proves `pattern`, an id or a wildcard over one kind of id.

    ordinary: in every run, not only in a thorough one.
    """

    pattern: str
    test: str
    ordinary: bool = True


@dataclass(frozen=True, slots=True)
class Scan:
    proofs: tuple[Proof, ...]
    faults: tuple[str, ...]


def scan(root: Path = REPOSITORY) -> Scan:
    """Every proof in the test sources under `root`, and every mark that could not be read or sits on no test."""
    proofs: set[Proof] = set()
    faults: list[str] = []
    for path in _sources(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text(encoding="utf-8")
        if "proves" not in text:
            continue
        found, wrong = _python(name, text) if path.suffix == ".py" else _comments(name, text, _SUFFIXES[path.suffix])
        proofs.update(found)
        faults.extend(wrong)
    return Scan(tuple(sorted(proofs)), tuple(faults))


@cache
def thorough(path: Path) -> frozenset[str]:
    """The test functions of a Python file that an ordinary run leaves out, with all their parameters."""
    return frozenset(_Module(path.name, path.read_text(encoding="utf-8")).thorough)


def _sources(root: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if LEFT_OUT & set(path.relative_to(root).parts) or not path.is_file():
                continue
            if path.suffix in _SUFFIXES or (path.suffix == ".py" and re.fullmatch(r"test_.*|.*_test", path.stem)):
                yield path


def _comments(name: str, text: str, language: str) -> tuple[set[Proof], list[str]]:
    """Comments belong to the next test after them; one that no test follows is a fault."""
    proofs: set[Proof] = set()
    faults: list[str] = []
    pending: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if comment := _COMMENT.search(line):
            pending.extend((number, ident) for ident in re.split(r"[\s,]+", comment["ids"]) if "." in ident)
        elif pending and (test := _NEXT_TEST[language].search(line)):
            proofs.update(Proof(ident.rstrip("."), f"{name}::{test['name']}") for _, ident in pending)
            pending.clear()
    faults.extend(f"{name}:{number}: no test follows the proof of {ident}" for number, ident in pending)
    return proofs, faults


def _is_mark(node: ast.AST, names: frozenset[str]) -> bool:
    """Whether `node` is `pytest.mark.<name>`, called or not, or a call of `<name>` imported from the plugin."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr in names and ast.unparse(target.value).endswith("mark")
    return isinstance(node, ast.Call) and isinstance(target, ast.Name) and target.id in names


def _proof_calls(node: ast.AST, ordinary: bool) -> Iterator[tuple[ast.Call, bool]]:
    """Every `proves(...)` below `node`, but for those of a parameter set that is skipped or expected to fail; and
    whether it is of every run."""
    if isinstance(node, ast.Call):
        if _is_mark(node, _PROVES):
            yield node, ordinary
            return
        marks = [inner for word in node.keywords if word.arg == "marks" for inner in ast.walk(word.value)]
        if any(_is_mark(mark, _NOT_RUN) for mark in marks):
            return
        ordinary = ordinary and not any(_is_mark(mark, _THOROUGH) for mark in marks)
    for child in ast.iter_child_nodes(node):
        yield from _proof_calls(child, ordinary)


def _is_all_thorough(node: ast.expr) -> bool:
    """Whether it parametrizes a test with nothing that an ordinary run has."""
    if not (_is_mark(node, frozenset({"parametrize"})) and isinstance(node, ast.Call) and len(node.args) > 1):
        return False
    given = node.args[1]
    sets = given.elts if isinstance(given, ast.List | ast.Tuple) else []
    return bool(sets) and all(any(_is_mark(inner, _THOROUGH) for inner in ast.walk(each)) for each in sets)


def _each(node: ast.expr) -> list[ast.expr]:
    """The marks of a `pytestmark`, which may be one or a list."""
    return list(node.elts) if isinstance(node, ast.List | ast.Tuple) else [node]


class _Module:
    """One Python test module: collects what each test proves, marks inherited from class and module included."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.proofs: set[Proof] = set()
        self.faults: list[str] = []
        self.used: set[int] = set()
        self.thorough: set[str] = set()
        tree = ast.parse(text, filename=name)
        # Module-level lists of parameters, found again by name in the decorators that use them.
        self.tables: dict[str, ast.expr] = {}
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=value):
                    self.tables[target] = value
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value):
                    self.tables[target] = value
        self._body(tree.body, [], self.name)
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and _is_mark(call, _PROVES) and id(call) not in self.used:
                self.faults.append(f"{name}:{call.lineno}: this proof is on no test that runs")

    def _body(self, body: list[ast.stmt], inherited: list[ast.expr], path: str) -> None:
        marks = list(inherited)
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                    marks += _each(value)
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                self._body(node.body, [*marks, *node.decorator_list], f"{path}::{node.name}")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                self._test([*marks, *node.decorator_list], f"{path}::{node.name}")

    def _test(self, decorators: list[ast.expr], test: str) -> None:
        named = {node.id for root in decorators for node in ast.walk(root) if isinstance(node, ast.Name)}
        sources = [*decorators, *(self.tables[name] for name in sorted(named & self.tables.keys()))]
        if any(_is_mark(node, _NOT_RUN) for node in decorators):
            return
        in_every_run = not any(_is_mark(node, _THOROUGH) or _is_all_thorough(node) for node in decorators)
        if not in_every_run:
            self.thorough.add(test.rpartition("::")[2])
        for call, ordinary in (each for source in sources for each in _proof_calls(source, in_every_run)):
            self.used.add(id(call))
            for argument in call.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    self.proofs.add(Proof(argument.value, test, ordinary))
                else:
                    self.faults.append(f"{self.name}:{call.lineno}: proves() takes literal ids")
            if call.keywords or not call.args:
                self.faults.append(f"{self.name}:{call.lineno}: proves() takes one or more ids and no keywords")


def _python(name: str, text: str) -> tuple[set[Proof], list[str]]:
    try:
        module = _Module(name, text)
    except SyntaxError as broken:
        return set(), [f"{name}:{broken.lineno}: not Python: {broken.msg}"]
    return module.proofs, module.faults
