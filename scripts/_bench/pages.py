"""How soon the pages paint and what they weigh, in a real Chromium on the site of the browser tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main(json_path: Path | None) -> int:
    env = {**os.environ, **({} if json_path is None else {"VPM_BENCH_JSON": str(json_path.resolve())})}
    argv = [sys.executable, "-m", "pytest", "-q", "-s", "-o", "timeout=600", "tests/browser/paint.py"]
    return subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode
