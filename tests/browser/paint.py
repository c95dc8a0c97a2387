"""`./vpm bench pages`: how soon each page paints, and what it weighs. Collected only when named."""

from __future__ import annotations

import json
import os
import statistics
from pathlib import Path

from tests.browser.conftest import Visitor
from tests.browser.site import Site
from tests.browser.test_every_page import MAX_BYTES, MEASURE, PAGES, path_of, weigh

TIMES = 5
TARGET_MS = 1_000


def test_measure(site: Site, visitor: Visitor) -> None:
    """Each page in a new window, nothing cached; the median of five."""
    rows = []
    for name in PAGES:
        paints, weight = [], 0
        for _ in range(TIMES):
            visit = visitor.visit()
            sizes = weigh(visit)
            visit.open(path_of(site, name))
            paints.append(visit.page.evaluate(MEASURE)["paint"])
            weight = sum(sizes)
            visitor.close()
        rows.append({"page": name, "bytes": weight, "firstContentfulPaintMs": round(statistics.median(paints), 1)})
    Path(os.environ["VPM_BENCH_JSON"]).write_text(json.dumps(rows, indent=2) + "\n")
    late = [row["page"] for row in rows if row["firstContentfulPaintMs"] >= TARGET_MS]
    assert not late, f"slower than {TARGET_MS} ms: {', '.join(late)}"
    assert max(row["bytes"] for row in rows) < MAX_BYTES
