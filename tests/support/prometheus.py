"""Reads the samples of a /metrics page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.parser import text_string_to_metric_families


def samples(text: str, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    chosen = set(names)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in chosen:
                yield {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
