"""Arguments of a tool as text for a query or path."""

from __future__ import annotations

import pytest

from api.problems import Problem
from api.tools import text_of


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("yes", "yes"),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (5.0, "5"),
        (25.05, "25.05"),
        (0.000001, "0.000001"),
        (1e21, "1000000000000000000000"),
        (float("inf"), "Infinity"),  # which no amount is: its operation says so
    ],
)
def test_numbers_are_written_as_people_write_them(value: object, text: str) -> None:
    assert text_of("sizeUsd", value) == text


@pytest.mark.parametrize("value", [["a"], {"a": 1}, "\ud800"])
def test_values_that_no_query_can_hold_are_refused_by_name(value: object) -> None:
    with pytest.raises(Problem, match="marketId") as refused:
        text_of("marketId", value)
    assert refused.value.status == 400
