"""A few figures from /metrics, /health and /ready of daemons whose metrics addresses are given."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urljoin

from prometheus_client.parser import text_string_to_metric_families

from core.direct import DIRECT

SECONDS = 3.0
SHOWN = ("process_resident_memory_bytes", "process_open_fds", "vpm_rpc_endpoint_up", "vpm_leader")


def scrape(endpoints: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """By name: whether it is up and ready, its failing checks, and some samples."""
    return {name: _one(url) for name, url in endpoints.items()}


def _one(url: str) -> dict[str, Any]:
    try:
        status, text = _get(url)
    except OSError as error:
        return {"up": False, "why": str(getattr(error, "reason", error))}
    if status != 200:
        return {"up": False, "why": f"it answered {status}"}
    try:
        _, health = _get(urljoin(url, "/health"))
        checks = json.loads(health)["checks"]
        ready = _get(urljoin(url, "/ready"))[0] == 200
    except (OSError, ValueError, KeyError):
        checks, ready = [], False
    return {
        "up": True,
        "ready": ready,
        "failing": [check for check in checks if not check["ok"]],
        "samples": list(samples(text, SHOWN)),
    }


def samples(text: str, names: Iterable[str]) -> Iterable[dict[str, Any]]:
    """The samples of some metrics in Prometheus text form."""
    chosen = set(names)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name in chosen:
                yield {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}


def _get(url: str) -> tuple[int, str]:
    try:
        with DIRECT.open(url, timeout=SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
