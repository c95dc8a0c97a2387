"""The journeys of docs/architecture.md are correct: every file exists, and is named once on its way."""

from __future__ import annotations

import re

import pytest

from core.db import channels
from core.db.schema import metadata
from core.paths import REPOSITORY

TEXT = (REPOSITORY / "docs" / "architecture.md").read_text()
ITEM = re.compile(r"^(\d+)\. `([^`]+)`", re.MULTILINE)


def journeys() -> dict[str, str]:
    """Return the chapter's journeys by their headings."""
    (chapter,) = (each for each in re.split(r"^## ", TEXT, flags=re.MULTILINE) if each.startswith("Four journeys"))
    return dict(each.split("\n", 1) for each in re.split(r"^### ", chapter, flags=re.MULTILINE)[1:])


JOURNEYS = journeys()


def test_there_are_four() -> None:
    assert len(JOURNEYS) == 4


@pytest.mark.parametrize("title", JOURNEYS)
def test_every_file_of_the_way_is_there_and_named_once(title: str) -> None:
    found = ITEM.findall(JOURNEYS[title])
    files = [path for _, path in found]
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    assert [each for each in files if not (REPOSITORY / each).is_file()] == []
    assert len(files) == len(set(files))


def test_every_channel_and_table_of_the_ways_is_there() -> None:
    known = {each.name for each in vars(channels).values() if isinstance(each, channels.Channel)}
    known |= metadata.tables.keys()
    named = {each for way in JOURNEYS.values() for each in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", way)}
    assert named
    assert named <= known, named - known


@pytest.mark.parametrize(("word", "most"), [("cup", 8), ("log", 12), ("agent", 24), ("stock", 29)])
def test_a_journey_crosses_few_files(word: str, most: int) -> None:
    (journey,) = (each for title, each in JOURNEYS.items() if word in title.split(",")[0])
    assert len(ITEM.findall(journey)) <= most
