"""docs/metrics.md: every metric of every daemon, written from the registries themselves.

`python -m scripts._status.table` rewrites it; a test fails while the two differ. Name, type, labels and meaning
are what the code declares (`core.metrics`), the alarms are the rules that use the metric. So a new metric is described
where it is declared, and appears here by running the command.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from core.paths import REPOSITORY
from scripts._status.rules import ALERTS, alerts, metrics_in

PAGE = REPOSITORY / "docs" / "metrics.md"
COMMAND = "python -m scripts._status.table"
DAEMONS = ("api", "indexer", "keeper", "relayer")

# A registry belongs to a process, so each daemon's modules are imported in one of its own: a child of one that has
# imported already what takes longest and declares nothing.
_LIST = """
import importlib, json, os, pkgutil, sys
import aiohttp, eth_account, mcp, prometheus_client, psycopg, sqlalchemy, web3
for name in sys.argv[1:]:
    sys.stdout.flush()
    if os.fork():
        assert os.wait()[1] == 0, name
        continue
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from core import metrics
    print(json.dumps([name, [[each, one._type, list(labels), one._documentation] for each, (one, labels) in
        metrics._declared.items()]]))
    sys.exit()
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as documentation shows it: `name` is as declared; a counter is exposed with `_total` after it."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str
    daemons: tuple[str, ...]

    @property
    def exposed(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def samples(self) -> frozenset[str]:
        """Names an expression may use."""
        if self.kind == "histogram":
            return frozenset(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return frozenset((self.exposed,))


def declared() -> dict[str, Metric]:
    """Every metric by its exposed name."""
    metrics: dict[str, Metric] = {}
    listed = subprocess.run(
        [sys.executable, "-c", _LIST, *DAEMONS], capture_output=True, text=True, check=True, cwd=REPOSITORY
    ).stdout
    for daemon, each in map(json.loads, listed.splitlines()):
        for name, kind, labels, meaning in each:
            earlier = metrics.get(name)
            daemons = (*earlier.daemons, daemon) if earlier is not None else (daemon,)
            metrics[name] = Metric(name, kind, tuple(labels), meaning, daemons)
    return {one.exposed: one for one in sorted(metrics.values(), key=lambda one: one.name)}


def page(metrics: dict[str, Metric]) -> str:
    used: dict[str, list[str]] = {}
    for alert in alerts():
        for name in metrics_in(alert.expr):
            used.setdefault(name, []).append(alert.name)
    rows = []
    for one in metrics.values():
        alarms = sorted({alert for sample in one.samples for alert in used.get(sample, [])})
        cells = (
            f"`{one.exposed}`",
            one.kind,
            ", ".join(one.labels) or "-",
            ", ".join(one.daemons) if len(one.daemons) < len(DAEMONS) else "all",
            one.meaning,
            ", ".join(alarms) or "-",
        )
        rows.append("| " + " | ".join(cells) + " |")
    head = (
        "| Name | Type | Labels | Of | Meaning | Alarm |",
        "|---|---|---|---|---|---|",
    )
    return _INTRODUCTION + "\n".join((*head, *rows)) + "\n"


_INTRODUCTION = f"""\
# Metrics

Each daemon serves `/metrics` on a port of its own (`VPM_API_METRICS_PORT` 8401, `VPM_INDEXER_METRICS_PORT` 8402,
`VPM_KEEPER_METRICS_PORT` 8403, `VPM_RELAYER_METRICS_PORT` 8404), beside `/health` and `/ready`, at `VPM_METRICS_HOST`:
127.0.0.1, in the image every address. Besides ours there are the usual `process_*` and `python_*` ones. Labels: `chain`
is `base` or `stock`; `lane` is the address of a relayer's key; `endpoint` is a node's place in its variable and its
host (`0:node.example`), never its whole URL, and `chain` beside it the chain's number (8453).

The alarms are rules in `{ALERTS.relative_to(REPOSITORY)}`, each with its section of `docs/operate.md`. Scrape with
`honor_labels: true`: the keeper's own label `job` is the name of a job.

This page is written by `{COMMAND}` from what the code declares; a test fails while the two differ.
`./vpm drill --all` scrapes every daemon meanwhile, and fails when a metric was not exposed or did not move; the few
that no drill can move have tests of their own, named in `scripts/_drill/movement.py`.

"""


if __name__ == "__main__":
    PAGE.write_text(page(declared()))
