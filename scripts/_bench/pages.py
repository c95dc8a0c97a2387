"""`./vpm bench pages`: how soon the pages paint, what they weigh and shift, and whom they shut out.

In a real Chromium on the site of the browser tests: each page five times in a new window with nothing cached; of the
paints the median, of the rest the worst. Targets: under 100 kB compressed on the first load, charts included, the first
contentful paint within a second, a layout shift under 0.02, and nothing serious that axe-core finds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from core.paths import REPOSITORY
from scripts._bench.ground import keep

MAX_BYTES, MAX_MS = 100_000, 1_000  # as tests/browser/paint.py has them


def main(json_path: Path | None) -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "pages.json"
        argv = [sys.executable, "-m", "pytest", "-q", "-o", "timeout=600", "tests/browser/paint.py"]
        env = {**os.environ, "VPM_BENCH_JSON": str(report)}
        code = subprocess.run(argv, cwd=REPOSITORY, env=env, stdout=sys.stderr, check=False).returncode
        if not report.exists():
            return code or 1
        rows = json.loads(report.read_text())
    print(f"{'page':<12}{'bytes':>9}{'first paint, ms':>18}{'shift':>10}{'serious':>10}")
    for row in rows:
        print(
            f"{row['page']:<12}{row['bytes']:>9}{row['firstContentfulPaintMs']:>18}"
            f"{row['layoutShift']:>10.4f}{row['violations']:>10}"
        )
    heaviest, slowest = (max(row[what] for row in rows) for what in ("bytes", "firstContentfulPaintMs"))
    ratios = {
        "heaviest page / what it may weigh": heaviest / MAX_BYTES,
        "slowest first paint / what it may take": slowest / MAX_MS,
    }
    keep(json_path, {"bench": "pages", "rows": rows, "ratios": ratios})
    return code
