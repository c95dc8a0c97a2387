"""The requirements as data: load the four TOML files and refuse any that cannot be true of the spec copies.

A requirement has an id `<surface>.<...>.<kind>.<name>`, the line of the spec it comes from (or `source = "decision"`
where the specs leave it open and we decided) and one plain sentence. The line is checked to exist and to contain the
word the requirement is about, so an edited spec cannot drift away from the manifest unnoticed.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from core.paths import REPOSITORY

DATA = Path(__file__).resolve().parent
SURFACES = ("stock", "agent", "cup", "shared")
KINDS = (
    "endpoint",
    "auth",
    "param",
    "header",
    "field",
    "value",
    "state",
    "event",
    "message",
    "tool",
    "error",
    "limit",
    "behaviour",
    "decision",
)
# For these the last part of the name is itself a word of the cited line, unless `token` says which word is.
NAMED_IN_SPEC = frozenset({"param", "header", "field", "value", "state", "event", "tool", "error"})
# A test of a whole body may prove all of these at once with a trailing `.*`; anything else is named one by one.
WILDCARD_KINDS = frozenset({"param", "field", "value"})

_ID = re.compile(r"[a-z]+(?:\.[A-Za-z0-9_-]+){2,}")
_KEYS = frozenset({"id", "line", "also", "source", "kind", "token", "text"})


class ManifestError(Exception):
    """The manifest contradicts itself or the spec copies; the message has one line for each fault."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One demand. `line` is None exactly for decisions; `also` are further lines that say the same thing."""

    id: str
    kind: str
    text: str
    line: int | None
    also: tuple[int, ...]
    token: str | None

    @property
    def lines(self) -> tuple[int, ...]:
        return () if self.line is None else (self.line, *self.also)


@dataclass(frozen=True, slots=True)
class Section:
    """Requirements that belong together: one endpoint, one resource."""

    title: str
    requirements: tuple[Requirement, ...]


@dataclass(frozen=True, slots=True)
class Surface:
    """One API surface. `spec` is its spec copy's path from the repository's root; None when all is our decision."""

    name: str
    spec: str | None
    sections: tuple[Section, ...]

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        return tuple(requirement for section in self.sections for requirement in section.requirements)


@dataclass(frozen=True)
class Manifest:
    surfaces: tuple[Surface, ...]
    finished: frozenset[str]

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        return tuple(requirement for surface in self.surfaces for requirement in surface.requirements)

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(requirement.id for requirement in self.requirements)

    def expand(self, pattern: str) -> tuple[str, ...]:
        """The ids a test names: one id, or every field, param or value under `....field.*`. Raises LookupError."""
        if not pattern.endswith(".*"):
            if pattern in self.ids:
                return (pattern,)
            raise LookupError(f"no requirement has the id {pattern}")
        stem = pattern[:-1]
        if not WILDCARD_KINDS & set(stem.split(".")):
            raise LookupError(f"{pattern}: only {', '.join(sorted(WILDCARD_KINDS))} ids can be named by a wildcard")
        found = tuple(requirement.id for requirement in self.requirements if requirement.id.startswith(stem))
        if not found:
            raise LookupError(f"no requirement's id begins with {stem}")
        return found


def mentions(text: str, token: str) -> bool:
    """Whether `token` stands in `text` as a word of its own, not as a part of a longer identifier."""
    before = r"(?<![A-Za-z0-9_])" if token[0].isalnum() else ""
    after = r"(?![A-Za-z0-9_])" if token[-1].isalnum() else ""
    return re.search(before + re.escape(token) + after, text) is not None


def spec_lines(spec: str) -> list[str]:
    """The lines of a spec copy; line n is at index n - 1."""
    return (REPOSITORY / spec).read_text(encoding="utf-8").splitlines()


def _token(ident: str, kind: str) -> str | None:
    if kind not in NAMED_IN_SPEC:
        return None
    name = ident.split(f".{kind}.", 1)[1]
    return name if kind == "event" else name.rsplit(".", 1)[-1]


def _requirement(surface: str, entry: dict[str, Any], lines: list[str], faults: list[str]) -> Requirement | None:
    """One entry, checked; every fault found is added to `faults`."""
    ident, kind, text = entry.get("id"), entry.get("kind"), entry.get("text")
    if not (isinstance(ident, str) and isinstance(kind, str) and isinstance(text, str)):
        faults.append(f"{surface}: an entry lacks id, kind or text: {entry}")
        return None
    before = len(faults)
    if unknown := entry.keys() - _KEYS:
        faults.append(f"{ident}: unknown keys {sorted(unknown)}")
    if not _ID.fullmatch(ident) or not ident.startswith(f"{surface}."):
        faults.append(f"{ident}: an id is {surface}.<part>.<kind>.<name>")
    if kind not in KINDS:
        faults.append(f"{ident}: unknown kind {kind}")
    elif f".{kind}." not in ident:
        faults.append(f"{ident}: its kind, {kind}, is not a part of the id")
    if not text.endswith(".") or "\n" in text:
        faults.append(f"{ident}: the text is not one sentence")
    if len(faults) > before:
        return None
    token = entry.get("token", _token(ident, kind))
    if kind == "decision":
        if entry.get("source") != "decision" or entry.keys() & {"line", "also", "token"}:
            faults.append(f'{ident}: a decision has source = "decision" and no line')
        return Requirement(ident, kind, text, None, (), None)
    line, also = entry.get("line"), tuple(entry.get("also", ()))
    cited = (line, *also)
    if "source" in entry or not all(isinstance(number, int) and 0 < number <= len(lines) for number in cited):
        faults.append(f"{ident}: cites {cited}, the spec has lines 1 to {len(lines)}")
        return None
    if len(set(cited)) != len(cited) or not all(lines[number - 1].strip() for number in cited):
        faults.append(f"{ident}: cites a line twice, or an empty one: {cited}")
    if token is not None and not mentions(lines[cited[0] - 1], token):
        faults.append(f"{ident}: line {line} does not mention {token!r}")
    return Requirement(ident, kind, text, cited[0], cited[1:], token)


def _surface(path: Path, faults: list[str]) -> Surface:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    name, spec = raw["surface"], raw.get("spec")
    if name != path.stem:
        faults.append(f"{path.name}: surface is {name}")
    lines = spec_lines(spec) if spec else []
    sections = []
    for section in raw["section"]:
        entries = [_requirement(name, entry, lines, faults) for entry in section["entries"]]
        sections.append(Section(section["title"], tuple(entry for entry in entries if entry)))
    return Surface(name, spec, tuple(sections))


def load(folder: Path = DATA) -> Manifest:
    """Read and check every surface in `folder`; raises ManifestError with all faults at once."""
    faults: list[str] = []
    surfaces = tuple(_surface(folder / f"{name}.toml", faults) for name in SURFACES)
    finished = frozenset(tomllib.loads((folder / "finished.toml").read_text(encoding="utf-8"))["surfaces"])
    if unknown := finished - set(SURFACES):
        faults.append(f"finished.toml names unknown surfaces: {sorted(unknown)}")
    manifest = Manifest(surfaces, finished)
    ids = Counter(requirement.id for requirement in manifest.requirements)
    faults.extend(f"the id {ident} is used {count} times" for ident, count in ids.items() if count > 1)
    for surface in surfaces:
        for section in surface.sections:
            texts = Counter(requirement.text for requirement in section.requirements)
            faults.extend(
                f"{surface.name}, {section.title}: {text!r} twice" for text, count in texts.items() if count > 1
            )
    if faults:
        raise ManifestError("\n".join(faults))
    return manifest


@cache
def manifest() -> Manifest:
    """The repository's own manifest, read once a process."""
    return load()
