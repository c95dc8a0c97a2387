"""`./vpm bench pages`: paint, weight, shift and what axe finds, of each page. Collected only when named."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

from tests.browser.conftest import Visitor
from tests.browser.site import Site
from tests.browser.test_every_page import FIND_VIOLATIONS, MAX_BYTES, MAX_SHIFT, MEASURE, PAGES, path_of, weigh

TIMES = 5
TARGET_MS = 1_000


def test_measure(site: Site, visitor: Visitor, axe: str) -> None:
    """Each page in a new window, nothing cached; the median of five paints, the worst of the rest."""
    rows = []
    for name in PAGES:
        found = [_once(site, visitor, axe, name) for _ in range(TIMES)]
        paints, weights, shifts, violations = zip(*found, strict=True)
        rows.append(
            {
                "page": name,
                "bytes": max(weights),
                "firstContentfulPaintMs": round(statistics.median(paints), 1),
                "layoutShift": round(max(shifts), 4),
                "violations": max(violations),
            }
        )
    Path(os.environ["VPM_BENCH_JSON"]).write_text(json.dumps(rows, indent=2) + "\n")
    late = [row["page"] for row in rows if row["firstContentfulPaintMs"] >= TARGET_MS]
    assert not late, f"slower than {TARGET_MS} ms: {', '.join(late)}"
    assert max(row["bytes"] for row in rows) < MAX_BYTES
    assert max(row["layoutShift"] for row in rows) < MAX_SHIFT
    assert max(row["violations"] for row in rows) == 0


def _once(site: Site, visitor: Visitor, axe: str, name: str) -> tuple[float, int, float, int]:
    visit = visitor.visit()
    sizes = weigh(visit)
    visit.open(path_of(site, name))
    measured = visit.page.evaluate(MEASURE)
    weight = sum(sizes)
    visit.page.evaluate(axe)
    violations = len(visit.page.evaluate(FIND_VIOLATIONS))
    visitor.close()
    return measured["paint"], weight, measured["shift"], violations
