"""The alert rules as data, and the metrics of an expression."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from core.paths import REPOSITORY

ALERTS = REPOSITORY / "deployments" / "prometheus" / "alerts.yml"

_OURS = re.compile(r"\bvpm_[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    expr: str
    severity: str
    summary: str
    runbook: str


def alerts() -> list[Alert]:
    document = yaml.safe_load(ALERTS.read_text())
    return [
        Alert(
            rule["alert"],
            rule["expr"],
            rule["labels"]["severity"],
            rule["annotations"]["summary"],
            rule["annotations"]["runbook"],
        )
        for group in document["groups"]
        for rule in group["rules"]
    ]


def metrics_in(expr: str) -> set[str]:
    return set(_OURS.findall(expr))
