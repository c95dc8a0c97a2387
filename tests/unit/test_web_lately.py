"""How odds moved, on cards: worked out backwards from the present, and drawn in a line that says what it shows."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, cast

import pytest

from api.web.lately import MarketLately, agent_odds, stock_odds
from api.web.sparkline import HEIGHT, WIDTH, sparkline
from core.contracts.statuses import MarketKind

WAD = 10**18


def batch(up: int, down: int) -> Any:
    return SimpleNamespace(accepted_up=up, accepted_down=down)


def stock(up: int, down: int) -> Any:
    books = (SimpleNamespace(principal=up), SimpleNamespace(principal=down))
    return cast(Any, SimpleNamespace(market=SimpleNamespace(books=books)))


def stake(outcome: int, before: int, after: int) -> Any:
    return SimpleNamespace(outcome=outcome, price_before=before * WAD // 100, price_after=after * WAD // 100)


def test_a_stock_markets_odds_are_those_after_each_batch_and_before_the_first() -> None:
    """A seed of 10 on each side, then 30 on UP, then 50 on DOWN."""
    assert stock_odds(stock(40, 60), [batch(0, 50), batch(30, 0)]) == (5_000, 8_000, 4_000)
    assert stock_odds(stock(40, 60), [batch(0, 50)]) == (8_000, 4_000), "only the last batches are known"
    assert stock_odds(stock(0, 0), []) == ()


def test_a_batch_that_ended_is_seen_before_the_index_has_it() -> None:
    seen = MarketLately((5_000, 8_000))
    assert seen.with_present(80, 20) == (5_000, 8_000)
    assert seen.with_present(50, 50) == (5_000, 8_000, 5_000)
    assert seen.with_present(0, 0) == (5_000, 8_000)


def test_an_agent_markets_odds_are_of_its_first_outcome_whichever_was_bet_on() -> None:
    two = cast(Any, SimpleNamespace(kind=MarketKind.THRESHOLD))
    assert agent_odds(two, [stake(1, 40, 55), stake(0, 50, 60)]) == (5_000, 6_000, 4_500)
    assert agent_odds(two, []) == ()
    assert agent_odds(cast(Any, SimpleNamespace(kind=MarketKind.RANGE)), [stake(2, 20, 30)]) == ()


def heights(drawn: str) -> list[float]:
    path = re.findall(r'class="line" d="([^"]+)"', drawn)[0]
    return [float(each) for each in re.findall(r"(?:M0 |V)([-\d.]+)", path)]


def test_a_line_rises_with_the_odds_and_stays_inside() -> None:
    drawn = sparkline((5_000, 9_900, 100, 100), "UP", "batch")
    first, up, down, last = heights(drawn)
    assert 0 < up < first < down == last < HEIGHT
    assert f"H{WIDTH:.1f}" in drawn
    assert 'aria-label="UP over the last 3 batches: from 50.0% to 1.0%."' in drawn


def test_a_small_move_does_not_look_like_a_large_one() -> None:
    low, high = heights(sparkline((5_000, 5_100), "UP", "batch"))
    assert 0 < low - high <= HEIGHT / 8


@pytest.mark.parametrize("odds", [(), (5_000,)])
def test_without_a_bet_there_is_a_line_of_the_same_size(odds: tuple[int, ...]) -> None:
    drawn = sparkline(odds, "<Yes>", "bet")
    assert 'aria-label="&lt;Yes&gt;: no bets yet."' in drawn
    assert drawn.partition(" role")[0] == sparkline((1, 2), "UP", "bet").partition(" role")[0]
