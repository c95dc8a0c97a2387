"""Coverage of the manifest by the tests, and the table drawn from it for docs/conformance.md."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import groupby

from core.paths import REPOSITORY
from tests.requirements.manifest import KINDS, Manifest, Requirement, Section, Surface
from tests.requirements.proofs import Scan

CONFORMANCE = REPOSITORY / "docs" / "conformance.md"
TITLES = {
    "stock": "Stock surface",
    "agent": "Agent API",
    "cup": "Cup: paper tournament and MCP",
    "shared": "Every surface, and the pages",
}
_INTRO = """\
# Conformance

What the API specs in [spec/](spec/) demand, requirement by requirement, and the tests that prove it. "Line" is the line
of the spec copy; "decided" marks what the specs leave open and this project settles. The data is in
`tests/requirements/*.toml`. This page is drawn by `python -m tests.requirements table`; do not edit it.
"""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which requirements have a test.

    tests: the proving tests of each proved id. ordinary: the ids that a test of every run proves. unknown: proofs of
    ids that do not exist.
    """

    manifest: Manifest
    tests: dict[str, tuple[str, ...]]
    ordinary: frozenset[str]
    unknown: tuple[str, ...]

    def unproved(self, surface: Surface) -> tuple[Requirement, ...]:
        return tuple(requirement for requirement in surface.requirements if requirement.id not in self.tests)

    def only_thorough(self, surface: Surface) -> tuple[str, ...]:
        """The ids that an ordinary run proves nothing about, though a thorough one does."""
        ids = (requirement.id for requirement in surface.requirements)
        return tuple(each for each in ids if each in self.tests and each not in self.ordinary)


def cover(manifest: Manifest, scan: Scan) -> Coverage:
    tests: defaultdict[str, set[str]] = defaultdict(set)
    ordinary: set[str] = set()
    unknown = []
    for proof in scan.proofs:
        try:
            for ident in manifest.expand(proof.pattern):
                tests[ident].add(proof.test)
                if proof.ordinary:
                    ordinary.add(ident)
        except LookupError as fault:
            unknown.append(f"{proof.test}: {fault}")
    proving = {ident: tuple(sorted(names)) for ident, names in tests.items()}
    return Coverage(manifest, proving, frozenset(ordinary), tuple(unknown))


def table(coverage: Coverage) -> str:
    """The whole of docs/conformance.md."""
    parts = [_INTRO, "| Surface | Requirements | Proved | Without a test | |", "|---|---:|---:|---:|---|"]
    for surface in coverage.manifest.surfaces:
        total, open_ = len(surface.requirements), len(coverage.unproved(surface))
        state = "finished" if surface.name in coverage.manifest.finished else "in progress"
        title = TITLES[surface.name]
        parts.append(f"| [{title}](#{_anchor(title)}) | {total} | {total - open_} | {open_} | {state} |")
    for surface in coverage.manifest.surfaces:
        parts += ["", f"## {TITLES[surface.name]}", "", *_counts(surface, coverage)]
        for section in surface.sections:
            parts += ["", f"### {section.title}", "", *_rows(surface, section, coverage)]
    return "\n".join(parts) + "\n"


def _counts(surface: Surface, coverage: Coverage) -> list[str]:
    """Proved and total of each kind, in one short table."""
    ordered = sorted(surface.requirements, key=lambda requirement: KINDS.index(requirement.kind))
    rows = ["| Kind | Requirements | Proved |", "|---|---:|---:|"]
    for kind, group in groupby(ordered, key=lambda requirement: requirement.kind):
        ids = [requirement.id for requirement in group]
        rows.append(f"| {kind} | {len(ids)} | {sum(ident in coverage.tests for ident in ids)} |")
    return rows


def _rows(surface: Surface, section: Section, coverage: Coverage) -> list[str]:
    rows = ["| Id | Line | Requirement | Proved by |", "|---|---|---|---|"]
    for requirement in sorted(section.requirements, key=lambda each: KINDS.index(each.kind)):
        cited = ", ".join(f"[{line}]({_spec_link(surface)}#L{line})" for line in requirement.lines) or "decided"
        tests = "<br>".join(f"`{_short(test)}`" for test in coverage.tests.get(requirement.id, ())) or "none yet"
        rows.append(f"| `{requirement.id}` | {cited} | {_cell(requirement.text)} | {tests} |")
    return rows


def _spec_link(surface: Surface) -> str:
    return "" if surface.spec is None else surface.spec.removeprefix("docs/")


def _short(test: str) -> str:
    return _cell(test.removeprefix("tests/"))


def _cell(text: str) -> str:
    """Markdown ends a cell at a bar, even inside code."""
    return text.replace("|", "\\|")


def _anchor(title: str) -> str:
    """The anchor GitHub gives a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")
