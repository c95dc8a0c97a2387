"""Bundles the page scripts in api/web/bundles, together with the packages they import, into api/web/static. `python -m
scripts._vpm.bundles` builds them with the pinned esbuild. A test fails if a committed bundle differs."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

from core.paths import REPOSITORY

STATIC = REPOSITORY / "api" / "web" / "static"
ESBUILD = REPOSITORY / "node_modules" / "esbuild" / "bin" / "esbuild"
SOURCES: Final = {
    "betting.js": REPOSITORY / "api" / "web" / "bundles" / "betting.ts",
    "charts.js": REPOSITORY / "api" / "web" / "bundles" / "charts.ts",
    "charts.css": REPOSITORY / "node_modules" / "uplot" / "dist" / "uPlot.min.css",
}


def build(name: str) -> bytes:
    """Build a bundle from the sources, and append the licenses of its packages."""
    shape = ("--bundle", "--format=esm", "--minify", "--target=es2022", "--legal-comments=eof")
    return subprocess.run(
        [str(ESBUILD), str(SOURCES[name]), *shape], cwd=REPOSITORY, check=True, stdout=subprocess.PIPE
    ).stdout


def main() -> int:
    for name in SOURCES:
        (STATIC / name).write_bytes(build(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
