"""docs/fairness.md says what was measured, and the code still measures it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from scripts._study import claims, measured, page, plots
from scripts._study.measured import QUICK, digest, kept, measure


@pytest.fixture(scope="module")
def figures() -> dict[str, Any]:
    return kept()


def leaves(figures: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(figures, dict | list):
        for key, each in figures.items() if isinstance(figures, dict) else enumerate(figures):
            yield from leaves(each, f"{path}/{key}")
    else:
        yield path, figures


def test_the_page_is_made_of_the_figures(figures: dict[str, Any]) -> None:
    assert page.rendered(figures["whole"]) == page.PAGE.read_text(), "./vpm study --page writes it anew"


def test_what_the_page_says_in_words_holds(figures: dict[str, Any]) -> None:
    assert claims.broken(figures["whole"]) == []


def test_the_plots_show_these_figures(figures: dict[str, Any]) -> None:
    drawn = plots.FOLDER.glob("fairness-*.svg")
    stamps = {each.name: re.search(r"figures ([0-9a-f]{16})", each.read_text()) for each in drawn}
    shown = {name: stamp[1] if stamp else None for name, stamp in stamps.items()}
    assert shown
    assert set(shown.values()) == {digest(figures["whole"])}, "./vpm study --page draws them anew"
    assert all(name in page.PAGE.read_text() for name in shown)


def test_the_code_still_gives_the_figures(figures: dict[str, Any]) -> None:
    """In the small form, whose figures are kept beside the whole ones for this."""
    found, known = (dict(sorted(leaves(each))) for each in (measure(QUICK), figures["quick"]))
    assert found == pytest.approx(known, abs=2e-4)
    assert measured.DATA.stat().st_size < 250_000
