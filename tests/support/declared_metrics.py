"""Every metric that the daemons declare, with its type, labels and meaning."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from core.paths import REPOSITORY

DAEMONS = ("api", "indexer", "keeper", "relayer")

# A registry belongs to a process, so each daemon's modules are imported in a separate one, forked from a process that
# has already imported the slowest modules, which declare nothing.
_LIST = """
import importlib, json, os, pkgutil, sys
import aiohttp, eth_account, mcp, prometheus_client, psycopg, sqlalchemy, web3
for name in sys.argv[1:]:
    sys.stdout.flush()
    if os.fork():
        assert os.wait()[1] == 0, name
        continue
    from prometheus_client.metrics import MetricWrapperBase
    declared, declare = [], MetricWrapperBase.__init__
    def noting(self, name, documentation, labelnames=(), *rest, **how):
        assert name.startswith("vpm_"), name
        declared.append([name, type(self).__name__.lower(), tuple(labelnames), documentation])
        declare(self, name, documentation, labelnames, *rest, **how)
    MetricWrapperBase.__init__ = noting
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    print(json.dumps([name, declared]))
    sys.exit()
"""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as documentation shows it. `name` is as declared; a counter is exposed with `_total` after it."""

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
        if self.kind == "histogram":
            return frozenset(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        return frozenset((self.exposed,))


def declared() -> dict[str, Metric]:
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
