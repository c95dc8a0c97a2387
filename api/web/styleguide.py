"""Every component in each of its states on one page, for whoever changes one; served on local stacks alone."""

from __future__ import annotations

from typing import Any

from api.web.charts import Chart, ChartLine, Level, Mark
from api.web.lately import LatestBet, MarketLately
from api.web.results import Results, SettledBet, results_chart
from api.web.stock_view import StakeExample
from api.web.templating import Pages

# A Monday in November, 15:00 UTC: what is shown must not change with the day, as it is compared with kept pictures.
NOW = 1_795_446_000
TX = "0x" + "5a" * 32
OWNER = "0x" + "a1" * 20


def render_styleguide(pages: Pages) -> bytes:
    return pages.render(
        "styleguide.html",
        path="/styleguide",
        moment=NOW,
        now=NOW,
        tx=TX,
        owner=OWNER,
        chart=sample_chart().draw("sample"),
        empty_chart=sample_chart(empty=True).draw("nothing"),
        results_charts=[chart.draw(f"results-{at}") for at, chart in enumerate(sample_results())],
        **sample_lately(),
    )


def sample_lately() -> dict[str, Any]:
    """What a card and the feed show of what happened: some bets, none, and more than are counted."""
    return {
        "lately": MarketLately((5_000, 5_000, 6_700, 5_400, 3_600, 4_100, 3_739), 4),
        "quiet": MarketLately((5_000,)),
        "busy": MarketLately((), 61, more=True),
        "examples": [
            StakeExample("UP", 10_000_000, 10_000_000, 0, 13_200_000, 75.8),
            StakeExample("DOWN", 10_000_000, 0, 10_000_000, 0, None),
        ],
        "bets": [
            LatestBet("stock", NOW - 7, OWNER, "UP", 25_000_000, "TSLA", "#"),
            LatestBet("stock", NOW - 70, OWNER, "DOWN", 12_345_678, "AAPL", "#"),
            LatestBet("agent", NOW - 700, OWNER, "Yes", 5_000_000, "BNKR $100M or more", "#"),
        ],
    }


def sample_results() -> list[Chart]:
    """What a portfolio's settled bets came to: won in one token and lost in the other, and one bet alone."""
    hour, unit = 3_600, 1_000_000
    stock = tuple(
        SettledBet(NOW - 40 * hour, NOW - at * hour, won * unit) for at, won in ((36, 18), (30, -25), (12, 31), (2, 7))
    )
    agent = tuple(SettledBet(NOW - 38 * hour, NOW - at * hour, won * unit) for at, won in ((26, -5), (9, -12)))
    both = (results_chart(Results(stock, agent), NOW), results_chart(Results(stock[:1]), NOW))
    return [each for each in both if each is not None]


def sample_chart(*, empty: bool = False) -> Chart:
    """A price since its strike, with both bells; or one of which nothing has been read yet."""
    shown = range(0) if empty else range(24)
    points = [(NOW + 60 * step, 400_00000000 + (step * 37 % 11 - 3) * 30_000_000) for step in shown]
    last = points[-1:] and points[-1][1]
    return Chart(
        title="TSLA since the strike",
        said="TSLA: no reading yet." if empty else "TSLA reads 401.80 dollars.",
        lines=[ChartLine(points, "up")],
        start=NOW - 300,
        end=NOW + 1_800,
        levels=[] if not last else [Level(400_00000000, "strike 400.00"), Level(last, "now", "up")],
        marks=[Mark(NOW, "strike"), Mark(NOW + 1_800, "bell")],
    )
