"""Writes what pages load that is made of packages: each a file of api/web/static, from a source in api/web/bundles.

`python -m scripts._vpm.bundles` makes them with the pinned esbuild; `--check` fails when one that is there differs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "api" / "web" / "static"
ESBUILD = ROOT / "node_modules" / "esbuild" / "bin" / "esbuild"
SOURCES: Final = {
    "betting.js": ROOT / "api" / "web" / "bundles" / "betting.ts",
    "charts.js": ROOT / "api" / "web" / "bundles" / "charts.ts",
    "charts.css": ROOT / "node_modules" / "uplot" / "dist" / "uPlot.min.css",
}


def made(name: str) -> bytes:
    """The bundle of the sources as they are, with the licenses of what is in it at its end."""
    shape = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=eof")
    return subprocess.run(
        [str(ESBUILD), str(SOURCES[name]), *shape], cwd=ROOT, check=True, stdout=subprocess.PIPE
    ).stdout


def main() -> int:
    bundles = {name: made(name) for name in SOURCES}
    if "--check" not in sys.argv[1:]:
        for name, content in bundles.items():
            (STATIC / name).write_bytes(content)
        return 0
    stale = [name for name, content in bundles.items() if (STATIC / name).read_bytes() != content]
    for name in stale:
        print(f"api/web/static/{name} is out of date: run python -m scripts._vpm.bundles", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
