"""The journeys of docs/architecture.md lead where they say: every file is there, once, and imported on the way.

Within a process each Python file is imported by one that came before it; the first is imported by the daemon itself.
From one process to the next leads a table, a channel or a contract, which the files on that side name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from core.db import channels
from core.db.schema import metadata
from core.paths import REPOSITORY

TEXT = (REPOSITORY / "docs" / "architecture.md").read_text()
CHANNELS = {each.name for each in vars(channels).values() if isinstance(each, channels.Channel)}
PARAGRAPH = re.compile(r"((?:^(?!\d+\. )[^\n]*\n)+)((?:^(?:\d+\. | {3})[^\n]*\n)+)", re.MULTILINE)
"""A sentence, and the list it opens."""
ITEM = re.compile(r"^(\d+)\. `([^`]+)`", re.MULTILINE)


@dataclass(frozen=True)
class Stretch:
    """What one process, or one contract, does of a journey. `words`: the sentence before it."""

    process: str
    words: str
    files: tuple[str, ...]


def journeys(text: str) -> Mapping[str, list[Stretch]]:
    """The journeys of the document, by their headings."""
    chapter = re.split(r"^## ", text, flags=re.MULTILINE)
    (mine,) = (each for each in chapter if each.startswith("Four journeys"))
    out = {}
    for section in re.split(r"^### ", mine, flags=re.MULTILINE)[1:]:
        title, body = section.split("\n", 1)
        out[title] = list(_stretches(body))
    return out


def _stretches(body: str) -> Iterator[Stretch]:
    process = ""
    for paragraph, listed in PARAGRAPH.findall(body):
        named = re.findall(r"\*\*(\w+)\*\*", paragraph)
        contract = re.findall(r"[Cc]ontract `(\w+)`", paragraph)
        if contract:
            yield Stretch("contract", paragraph, tuple(path for _, path in ITEM.findall(listed)))
            continue
        process = named[-1] if named else process
        yield Stretch(process, paragraph, tuple(path for _, path in ITEM.findall(listed)))


@cache
def imports(path: str) -> frozenset[str]:
    """The project's files that a module imports, by path."""
    found = set()
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return frozenset(each for name in found for each in _files_of(name))


def _files_of(module: str) -> Iterator[str]:
    """A module's file; of a package, whatever it hands on."""
    place = module.replace(".", "/")
    if (REPOSITORY / f"{place}.py").exists():
        yield f"{place}.py"
    elif (REPOSITORY / place / "__init__.py").exists():
        yield f"{place}/__init__.py"


@cache
def reached(path: str) -> frozenset[str]:
    """What a module imports, and what that imports, and so on."""
    seen: set[str] = set()
    waiting = [path]
    while waiting:
        for each in imports(waiting.pop()) - seen:
            seen.add(each)
            waiting.append(each)
    return frozenset(seen)


def hands_on(path: str, wanted: str) -> bool:
    """Whether a module imports another, itself or through its package's `__init__`."""
    direct = imports(path)
    return wanted in direct or any(each.endswith("__init__.py") and wanted in imports(each) for each in direct)


def faults(stretches: Sequence[Stretch]) -> Iterator[str]:
    passed: dict[str, list[str]] = {}
    everything: set[str] = set()
    for stretch in stretches:
        behind = passed.setdefault(stretch.process, [])
        for path in stretch.files:
            if not (REPOSITORY / path).is_file():
                yield f"{path} is not there"
                continue
            if path in everything:
                yield f"{path} is named twice"
                continue
            everything.add(path)
            if stretch.process != "contract" and not _follows(path, behind, stretch.process):
                yield f"{path} is imported by nothing before it in the {stretch.process}"
            behind.append(path)


def _follows(path: str, behind: Sequence[str], process: str) -> bool:
    if not path.endswith(".py"):  # a template or a script: named by what serves it
        return any(Path(path).name in (REPOSITORY / each).read_text() for each in behind)
    if not behind:
        return path in reached(f"{process}/__main__.py")
    return any(each.endswith(".py") and hands_on(each, path) for each in behind)


JOURNEYS = journeys(TEXT)


def test_there_are_four() -> None:
    assert len(JOURNEYS) == 4
    assert all(len(stretches) >= 1 for stretches in JOURNEYS.values())
    assert sum(len(stretch.files) for stretches in JOURNEYS.values() for stretch in stretches) == len(
        ITEM.findall(TEXT)
    )


@pytest.mark.parametrize("title", JOURNEYS)
def test_the_way_is_as_it_is_told(title: str) -> None:
    assert list(faults(JOURNEYS[title])) == []


@pytest.mark.parametrize("title", JOURNEYS)
def test_what_leads_from_process_to_process_is_there(title: str) -> None:
    """A sentence that opens a process names a table or a channel, and a file of that process names it, too."""
    for number, stretch in enumerate(JOURNEYS[title]):
        if number == 0 or stretch.process in ("contract", JOURNEYS[title][number - 1].process):
            continue
        named = set(re.findall(r"`([a-z_]+)`", stretch.words))
        known = named & (CHANNELS | metadata.tables.keys())
        if not known:
            assert "third journey" in stretch.words, stretch.words
            continue
        texts = "".join((REPOSITORY / each).read_text() for each in stretch.files if each.endswith(".py"))
        for each in known:
            assert each in texts or (each in CHANNELS and each.upper() in texts), (
                f"{each} is not met on the way: {stretch.words}"
            )
