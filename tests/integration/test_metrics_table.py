"""docs/metrics.md, the alert rules and the dashboard, compared with what the daemons declare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from core.paths import REPOSITORY
from scripts._status import __main__ as status
from tests.support import declared_metrics as table
from tests.support.alert_rules import ALERTS, Alert, alerts, metrics_in, promtool

PAGE = REPOSITORY / "docs" / "metrics.md"
DASHBOARD = REPOSITORY / "deployments" / "grafana" / "vpm.json"
SCRAPES = REPOSITORY / "deployments" / "prometheus" / "prometheus.yml"


@pytest.fixture(scope="module")
def metrics() -> dict[str, table.Metric]:
    return table.declared()


@pytest.mark.thorough
def test_the_page_lists_exactly_what_the_daemons_declare(metrics: dict[str, table.Metric]) -> None:
    rows = re.findall(r"^\| `(vpm_\w+)(?:\{([\w,]+)\})?` \| .+ \| ?(.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [row[0] for row in rows] == list(dict.fromkeys(row[0] for row in rows))
    listed = {name: (labels, sorted(filter(None, alarms.split(", ")))) for name, labels, alarms in rows}
    expected = {
        name: (
            ",".join(one.labels),
            sorted(alert.name for alert in alerts() if metrics_in(alert.expr) & one.samples),
        )
        for name, one in metrics.items()
    }
    assert listed == expected


def _samples(metrics: dict[str, table.Metric]) -> dict[str, frozenset[str]]:
    """Return the labels that each sample may have, by its name."""
    found = {}
    for one in metrics.values():
        for sample in one.samples:
            extra = {"le"} if sample.endswith("_bucket") else set()
            found[sample] = frozenset({*one.labels, *extra})
    return found


TARGET_LABELS = frozenset({"daemon", "instance", "job", "status"})


def _check(expr: str, samples: dict[str, frozenset[str]]) -> None:
    promql_parser.parse(expr)
    for name in metrics_in(expr):
        assert name in samples, f"{name} is used in {expr!r} and no daemon declares it"
    for name, inside in re.findall(r"\b(vpm_[a-z0-9_]+)\{([^}]*)\}", expr):
        used = set(re.findall(r"([a-z_]+)\s*(?:=~|!~|!=|=)", inside))
        assert used <= samples[name] | TARGET_LABELS, f"{name} has no label {used - samples[name]} in {expr!r}"
    for grouped in re.findall(r"\bby \(([^)]*)\)", expr):
        known = frozenset[str]().union(*(samples[name] for name in metrics_in(expr)))
        assert {part.strip() for part in grouped.split(",")} <= known | TARGET_LABELS, expr


def test_every_alert_parses_and_names_metrics_that_exist(metrics: dict[str, table.Metric]) -> None:
    samples = _samples(metrics)
    for alert in alerts():
        _check(alert.expr, samples)


def test_alerts_are_whole() -> None:
    names = [alert.name for alert in alerts()]
    assert len(names) == len(set(names))
    for rule in _rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"[1-9][0-9]*[smh]", rule.get("for", "1m"))
        assert rule["labels"]["severity"] in ("page", "ticket")
        used = set(re.findall(r"\$labels\.([a-z_]+)", rule["annotations"]["summary"]))
        kept = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
        if kept:  # the first is the outermost: what it keeps is all that is left
            assert used <= {part.strip() for part in kept[0].split(",")}, rule["alert"]


def _rules() -> Iterator[dict[str, Any]]:
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        yield from group["rules"]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_every_alert_has_its_section(alert: Alert) -> None:
    page, _, anchor = alert.runbook.partition("#")
    headings = re.findall(r"^#+ (.+)$", (REPOSITORY / page).read_text(), re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", each.lower()).replace(" ", "-") for each in headings}
    assert anchor in anchors, f"{page} has no section #{anchor}"


def test_promtool_agrees_where_there_is_one() -> None:
    promtool("check", "rules", str(ALERTS))
    promtool("check", "config", "--syntax-only", str(SCRAPES))


# ---------------------------------------------------------------- dashboard and scraping


def _queries() -> Iterator[str]:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]


def test_every_panel_asks_for_metrics_that_exist(metrics: dict[str, table.Metric]) -> None:
    samples, seen = _samples(metrics), 0
    for expr in _queries():
        _check(expr.replace("$__rate_interval", "5m"), samples)
        seen += 1
    assert seen >= 20


def test_prometheus_scrapes_every_daemon_and_keeps_the_label_job() -> None:
    (job,) = yaml.safe_load(SCRAPES.read_text())["scrape_configs"]
    assert job["honor_labels"] is True
    assert {each["labels"]["daemon"] for each in job["static_configs"]} == set(table.DAEMONS) == set(status.DAEMONS)
