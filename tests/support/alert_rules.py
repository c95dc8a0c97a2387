"""The alert rules as data, and their check by promtool (Debian package prometheus, which CI installs)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
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


def promtool(*words: str) -> None:
    if shutil.which("promtool") is None:
        assert not os.environ.get("CI"), "promtool must be installed in CI"
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def firing(folder: Path, alert: str, series: Mapping[str, str], expected: Mapping[str, Sequence[str]]) -> None:
    """Return which alarms of the rule are on at each of these times, by their summaries' labels as Prometheus writes
    them. The series have a sample a minute."""
    on = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    case = {
        "rule_files": [str(ALERTS)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f"max without (severity, alertstate) ({on})",
                        "eval_time": at,
                        "exp_samples": [
                            {"labels": f'{{alertname="{alert}"{each and ", "}{each}}}', "value": 1} for each in alarms
                        ],
                    }
                    for at, alarms in expected.items()
                ],
            }
        ],
    }
    (folder / "case.yml").write_text(yaml.safe_dump(case))
    promtool("test", "rules", str(folder / "case.yml"))
