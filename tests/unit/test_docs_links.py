"""Every relative link of every page leads somewhere, and every command and file that the documents name exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from core.paths import REPOSITORY
from scripts._vpm.manual import COMMANDS

LINK = re.compile(r"(?<!`)\[[^\]]+\]\(([^)\s]+)\)")
COMMAND = re.compile(r"\./vpm ([a-z]+)")
NOT_AS_TYPED = re.compile(r"`vpm [a-z]+")


def _pages() -> list[Path]:
    skipped = {"node_modules", ".vpm"}
    return [
        path
        for path in sorted(REPOSITORY.rglob("*.md"))
        if not skipped & set(path.relative_to(REPOSITORY).parts)
        and not path.is_relative_to(REPOSITORY / "docs" / "spec")
    ]


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors of headings, and of lines as a repository's viewer names them."""
    text = page.read_text()
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    lines = {f"L{number + 1}" for number in range(len(text.splitlines()))}
    return lines | {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", _pages(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text()):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        found = page if not target else (page.parent / target).resolve()
        assert found.exists(), f"{link} leads nowhere"
        if anchor and found.suffix == ".md":
            assert anchor in _anchors(found), f"{link}: no such heading"


@pytest.mark.parametrize("page", _pages(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_commands_exist(page: Path) -> None:
    text = page.read_text()
    assert not set(COMMAND.findall(text)) - COMMANDS.keys()
    assert not NOT_AS_TYPED.findall(text), "a reader types ./vpm"


def test_every_decision_has_a_number_of_its_own() -> None:
    records = sorted((REPOSITORY / "docs" / "decisions").glob("[0-9]*.md"))
    numbers = [int(record.name[:4]) for record in records]
    assert numbers == list(range(1, len(records) + 1))
    for number, record in zip(numbers, records, strict=True):
        assert record.read_text().startswith(f"# {number}. "), record.name
