"""The metric helpers: one registry, one declaration per name, and the text form."""

from __future__ import annotations

import pytest

from core import metrics


def test_declaring_twice_gives_the_same_metric() -> None:
    first = metrics.counter("vpm_test_things", "Things", ("kind",))
    assert metrics.counter("vpm_test_things", "Things", ("kind",)) is first
    first.labels("a").inc(3)
    assert b'vpm_test_things_total{kind="a"} 3.0' in metrics.render()


def test_another_kind_or_other_labels_under_the_same_name_is_an_error() -> None:
    metrics.gauge("vpm_test_level", "Level")
    with pytest.raises(ValueError, match="already declared"):
        metrics.counter("vpm_test_level", "Level")
    with pytest.raises(ValueError, match="already declared"):
        metrics.gauge("vpm_test_level", "Level", ("chain",))


def test_names_carry_our_prefix() -> None:
    with pytest.raises(ValueError, match="must start with vpm_"):
        metrics.counter("things", "Things")


def test_the_process_describes_itself() -> None:
    metrics.histogram("vpm_test_seconds", "Seconds").observe(0.2)
    text = metrics.render()
    assert b"python_info" in text
    assert b'vpm_test_seconds_bucket{le="0.25"} 1.0' in text
