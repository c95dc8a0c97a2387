"""Reads metrics: from a /metrics page, and from this process's registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families


def samples(text: str, names: Iterable[str]) -> Iterator[dict[str, Any]]:
    chosen = set(names)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in chosen:
                yield {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}


def measured(name: str, **labels: str) -> float:
    """Return the sum of a metric's samples with these labels and any others; `name` as exposed. Samples of earlier
    tests with other labels are still in the registry."""
    return sum(
        sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
