"""The process's Prometheus registry. All metric names begin with `vpm_`.

Modules declare their metrics at import time with `counter`, `gauge` and `histogram`; the registry refuses a name that
is declared twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

__all__ = [
    "CONTENT_TYPE_LATEST",
    "REGISTRY",
    "Counter",
    "Gauge",
    "Histogram",
    "counter",
    "gauge",
    "histogram",
    "render",
]

REGISTRY = CollectorRegistry(auto_describe=True)
ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

# In seconds: fine enough for a page served from memory, wide enough for a slow node.
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

M = TypeVar("M", bound=MetricWrapperBase)


def counter(name: str, documentation: str, labels: Sequence[str] = ()) -> Counter:
    """Declare a counter; the client library adds `_total` to the name."""
    return _declared(Counter, name, documentation, labels)


def gauge(name: str, documentation: str, labels: Sequence[str] = ()) -> Gauge:
    """Declare a gauge."""
    return _declared(Gauge, name, documentation, labels)


def histogram(
    name: str, documentation: str, labels: Sequence[str] = (), buckets: Sequence[float] = LATENCY_BUCKETS
) -> Histogram:
    """Declare a histogram; put the unit in the name (`_seconds`, `_bytes`)."""
    return _declared(Histogram, name, documentation, labels, buckets=buckets)


def render() -> bytes:
    """Render all metrics in Prometheus text format."""
    return generate_latest(REGISTRY)


def _declared(kind: type[M], name: str, documentation: str, labels: Sequence[str], **how: Any) -> M:
    if not name.startswith("vpm_"):
        raise ValueError(f"metric {name} must start with vpm_")
    return kind(name, documentation, labels, registry=REGISTRY, **how)
