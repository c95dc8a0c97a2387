"""What the pages write: amounts never rounded, markup always escaped, charts that say what they show."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.web import figures
from api.web.assets import FOLDER, load_assets
from api.web.charts import Chart, ChartLine, Level, Mark, Unit
from api.web.cup import POCKETS
from api.web.templating import label_cells


def text_of(markup: str) -> str:
    return re.sub(r"<[^>]+>", "", markup)


@given(st.integers(min_value=-(10**18), max_value=10**18))
def test_an_amount_is_written_exactly(units: int) -> None:
    shown = text_of(figures.money(units)).replace(",", "").replace("\N{MINUS SIGN}", "-")
    _, sign, digits = shown.rpartition("-")
    whole, _, fraction = digits.partition(".")
    assert 2 <= len(fraction) <= 6
    assert int(f"{sign}{whole}{fraction.ljust(6, '0')}") == units


@pytest.mark.parametrize("write", [figures.dollars, lambda text: figures.money(int(Decimal(text) * 10**6))])
def test_two_decimals_and_the_rest_on_demand(write: Callable[[str], str]) -> None:
    assert write("1234.5") == '<span class="amount">1,234.50</span>'
    assert write("-0.0125") == (
        '<span class="amount more" title="\N{MINUS SIGN}0.0125">\N{MINUS SIGN}0.01<span class="fine">25</span></span>'
    )


def test_a_position_is_named_by_its_number_in_its_market() -> None:
    assert figures.ordinal("12884901893") == '<span title="position 12884901893">#5</span>'


def test_a_cell_knows_its_column() -> None:
    page = (
        "<table><thead><tr><th>Who</th><th class='num'>Paid <i>now</i></th><th></th></tr></thead>"
        "<tbody><tr><th>A</th><td>1</td><td>x</td></tr>"
        "<tr class='mine'><th>B</th><td>2</td><td></td></tr></tbody></table>"
    )
    found = label_cells(page)
    assert found.count('<th data-label="Who">') == 2
    assert found.count('<td data-label="Paid now">') == 2
    assert found.count("<td>") == 2, "a column without a name gives none"
    assert label_cells("<table><tbody><tr><td>1</td></tr></tbody></table>").count("data-label") == 0


@pytest.mark.parametrize(
    ("answer", "shown"),
    [("18740000000", "187.40"), ("18702226878", "187.02226878"), ("123456700000000", "1,234,567.00"), (None, "–")],
)
def test_a_price(answer: str | None, shown: str) -> None:
    assert text_of(figures.price(answer)) == shown


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min 00 s"), (3_599, "59 min 59 s"), (3_600, "1 h 00 min"),
     (86_399, "23 h 59 min"), (90_000, "1 d 1 h")],
)  # fmt: skip
def test_a_span(seconds: int, said: str) -> None:
    assert figures.span(seconds) == said


def test_two_shares_add_up() -> None:
    assert (figures.percent(2, 3), figures.percent(1, 3)) == ("66.7%", "33.3%")
    assert (figures.percent(1167, 2000), figures.percent(833, 2000)) == ("58.4%", "41.6%")  # 58.35 and 41.65
    assert figures.percent(1, 0) == "0.0%"


def test_a_title_that_is_markup_is_text() -> None:
    lines, levels, marks = [ChartLine([(0, 1)])], [Level(1, "<i>")], [Mark(0, "<u>")]
    drawn = str(Chart("<script>", 'a "quoted" <b>', lines, 0, 1, Unit(1, 0), levels, marks).draw("x"))
    for tag in ("<script>", "<b>", "<i>", "<u>"):
        assert tag not in drawn
    assert "&lt;script&gt;" in drawn


def test_the_wheel_has_every_pocket_once() -> None:
    assert sorted(POCKETS) == list(range(37))


async def test_a_module_imports_others_by_their_hashed_names() -> None:
    assets = await load_assets()
    assert {path.name for path in FOLDER.iterdir()} == set(assets.urls)
    for name, url in assets.urls.items():
        assert re.fullmatch(rf"/assets/{re.escape(name.split('.')[0])}\.[0-9a-f]{{12}}\.\w+", url)
        body = assets.files[url.removeprefix("/assets/")].body.decode()
        for imported in re.findall(r'(?:from|import) "([^"]+)"', body):
            assert imported in assets.urls.values()
